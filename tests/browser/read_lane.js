(name) => {
  const lane = document.querySelector(`.lv-lane[data-lane=${name}]`);
  const badge = lane.querySelector(".lv-badge");
  const pairs = (selector, key, value) => Object.fromEntries([...lane.querySelectorAll(selector)].map((node) => [key(node), value(node)]));
  return {
    big: lane.querySelector(".lv-big").textContent,
    badge: badge.hidden ? "" : badge.textContent,
    figures: pairs(".lv-figures div", (node) => node.firstChild.textContent, (node) => node.lastChild.textContent),
    counts: pairs(".lv-key", (node) => node.dataset.kind, (node) => Number(node.querySelector(".lv-count").textContent)),
    tokens: lane.querySelectorAll(".lv-text .tk").length,
    anchors: lane.querySelectorAll(".lv-text .tk.anchor").length,
    text: lane.querySelector(".lv-text").textContent,
  };
}
