// One tip for the whole board: what a figure means, or what is known of a word. Opens on hover, focus and touch.

const HOW = {
  exact: "Draft and target agree on this word.",
  loose: "Accepted loosely: the target would have chosen another word, but finds this one plausible.",
  shifted: "Accepted at a shifted position: draft and target say the same, one of them a little later.",
  correction: "The target’s own word, in place of the guess that it rejected.",
  bonus: "The target’s own word, added after it kept the whole guess.",
  ar: "Written by the target alone.",
};

function tokenTip(lane, index) {
  const token = lane.all[index];
  const round = lane.tokens.findIndex((count) => count > index);
  const role = token.anchor === null || token.anchor === undefined ? "" : token.anchor ? "Anchor: about the video. " : "Filler: not about the video. ";
  const relevance = typeof token.relevance === "number" ? ` · relevance to the video ${token.relevance.toFixed(2)}` : "";
  return h("div", {},
    h("b", {}, token.text.trim() || "end of text"), h("p", {}, role + (HOW[token.verdict] || "")),
    h("p", { class: "lv-tip-small" }, `Token ${index + 1}${relevance}`),
    h("p", { class: "lv-tip-small" }, `Round ${round + 1}: ${roundSentence(lane.rounds[round])}.`));
}

function buildTips(board, laneFor) {
  const tip = h("div", { class: "lv-tip", role: "status", hidden: true });
  board.append(tip);
  let owner = null;
  // how far the arrow keys have come in each text
  const places = new WeakMap();

  function open(node) {
    const content = node.dataset.tip ? h("p", {}, node.dataset.tip) : tokenTip(laneFor(node), Number(node.dataset.index));
    owner?.classList.remove("picked");
    owner = node;
    node.classList.add("picked");
    tip.replaceChildren(content);
    tip.hidden = false;
    const place = node.getBoundingClientRect();
    const size = tip.getBoundingClientRect();
    const left = Math.max(8, Math.min(place.left + place.width / 2 - size.width / 2, document.documentElement.clientWidth - size.width - 8));
    const above = place.top - size.height - 8;
    tip.style.left = `${left}px`;
    tip.style.top = `${above > 8 ? above : place.bottom + 8}px`;
  }
  function close() {
    owner?.classList.remove("picked");
    owner = null;
    tip.hidden = true;
  }
  const target = (event) => event.target.closest?.("[data-tip], .lv-text .tk[data-index]");

  // moves of the pointer only: words that stream past beneath it must not open tips
  board.addEventListener("pointermove", (event) => {
    const node = target(event);
    if (event.pointerType !== "mouse" || node === owner) return;
    if (node) open(node);
    else if (owner) close();
  });
  board.addEventListener("pointerleave", close);
  board.addEventListener("focusin", (event) => { const node = target(event); if (node) open(node); });
  board.addEventListener("focusout", close);
  board.addEventListener("click", (event) => { const node = target(event); if (node) open(node); });
  window.addEventListener("scroll", close, { passive: true });
  // a lane's text is one stop of the Tab key; the arrow keys walk through its words
  board.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    const text = event.target.closest?.(".lv-text");
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!text || !step) return;
    const chips = [...text.querySelectorAll(".tk[data-index]")];
    if (!chips.length) return;
    const at = text.contains(owner) ? chips.indexOf(owner) : (places.get(text) ?? -1);
    const place = Math.max(0, Math.min(chips.length - 1, at + step));
    const next = chips[place];
    places.set(text, place);
    event.preventDefault();
    next.scrollIntoView({ block: "nearest" });
    open(next);
  });
}
