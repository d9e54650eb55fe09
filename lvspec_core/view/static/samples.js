// Sample clips, one click each. A clip plays while the pointer rests on it.

const list = element.querySelector(".lv-samples");

list.replaceChildren(...(props.samples || []).map((sample, index) => {
  const film = h("video", { src: sample.url, muted: true, loop: true, playsinline: true, preload: "metadata", tabindex: -1, "aria-hidden": "true" });
  film.muted = true;
  const play = () => film.play().catch(() => {});
  const stop = () => { film.pause(); film.currentTime = 0; };
  return h("li", {}, h("button", {
    type: "button", title: sample.alt || sample.title, onmouseenter: play, onmouseleave: stop, onfocus: play, onblur: stop,
    onclick: () => { trigger("select", { index }); },
  }, film, h("span", {}, sample.title)));
}));
