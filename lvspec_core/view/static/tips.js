// One tip for the whole board: what a figure means. Opens on hover, focus and touch; words have the inspector instead.

function buildTips(board) {
  const tip = h("div", { class: "lv-tip", role: "status", hidden: true });
  board.append(tip);
  let owner = null;

  function open(node) {
    owner = node;
    tip.replaceChildren(h("p", {}, node.dataset.tip));
    tip.hidden = false;
    const place = node.getBoundingClientRect();
    const size = tip.getBoundingClientRect();
    const left = Math.max(8, Math.min(place.left + place.width / 2 - size.width / 2, document.documentElement.clientWidth - size.width - 8));
    const above = place.top - size.height - 8;
    tip.style.left = `${left}px`;
    tip.style.top = `${above > 8 ? above : place.bottom + 8}px`;
  }
  function close() {
    owner = null;
    tip.hidden = true;
  }
  const target = (event) => event.target.closest?.("[data-tip]");

  // moves of the pointer only: what streams past beneath it must not open tips
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
  board.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
  window.addEventListener("scroll", close, { passive: true });
}
