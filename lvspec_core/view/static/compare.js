// Lanes against AR, word by word. The comparison itself comes with the race's last value (lvspec_core/comparison.py).

const DIFFERENCES = {
  same: ["the same", "words that stand in both texts, in the same order"],
  reworded: ["reworded", "places that say the same in other words"],
  fact: ["another fact", "places that state something else"],
  differs: ["different", "places that differ; whether they state another fact is not known"],
};

const DECIDED = {
  facts: "“Another fact”: the words for count, background, size, colour, shape, place or motion differ at that place. Everything else that differs is reworded.",
  anchors: "“Another fact”: a word at that place is an anchor, scored as about the video. Everything else that differs is reworded. A score is no proof.",
  "": "No relevance was scored in this race, so a difference is only called a difference.",
};

const CONTEXT_WORDS = 4;

function buildCompare() {
  const only = h("input", { type: "checkbox", onchange: () => fill() });
  const note = h("p", { class: "lv-note" });
  const body = h("div", { class: "lv-compare-lanes" });
  const root = h("section", { class: "lv-section lv-compare", hidden: true },
    h("div", { class: "lv-section-head" }, h("h3", {}, "Against AR, word by word"), h("label", { class: "lv-check" }, only, "only differences")),
    note, body);
  let shown = null;

  function fill() {
    body.replaceChildren(...Object.entries(shown).map(([name, compared]) => compareLane(name, compared, only.checked)));
  }
  return {
    root,
    // Draws a comparison; the same one is not drawn twice.
    draw: (compare) => {
      const some = compare && Object.keys(compare).length ? compare : null;
      show(root, Boolean(some));
      if (some === shown) return;
      shown = some;
      if (!some) return body.replaceChildren();
      setText(note, DECIDED[Object.values(some)[0].decided] || "");
      fill();
    },
  };
}

function compareLane(name, { counts, spans }, onlyDifferences) {
  const title = methodOf(name).title;
  const places = spans.filter(([kind]) => kind !== "same" && kind !== "cut").length;
  const head = h("h4", {}, title);
  if (!places) return h("article", { class: "lv-compare-lane" }, head, h("p", { class: "lv-compare-say" }, `All ${counts.same} words are AR’s.`));
  const chips = Object.entries(DIFFERENCES).filter(([kind]) => counts[kind]).map(([kind, [label, tip]]) =>
    h("li", { class: `lv-compare-count d-${kind}`, "data-tip": `${counts[kind]} ${tip}`, tabindex: 0 }, h("b", {}, String(counts[kind])), ` ${label}`));
  const text = onlyDifferences
    ? h("ol", { class: "lv-compare-places", tabindex: 0, "aria-label": `Where ${title} differs from AR` }, ...placesOf(spans))
    : h("p", { class: "lv-compare-text", tabindex: 0, role: "region", "aria-label": `${title} against AR` }, ...spans.flatMap(spanNodes));
  return h("article", { class: "lv-compare-lane" }, head, h("ul", { class: "lv-compare-counts" }, ...chips), text);
}

// The space before a word stays outside of what is marked.
function spanNodes([kind, ar, text]) {
  if (kind === "same") return [text];
  const lead = (text || ar).match(/^\s*/)[0];
  if (kind === "cut") return [lead, h("span", { class: "d-cut" }, "… the token budget ends here")];
  return [lead, h("span", { class: `d-place d-${kind}` }, ar ? h("del", {}, ar.trim()) : null, ar && text ? " " : null, text ? h("ins", {}, text.trim()) : null)];
}

function placesOf(spans) {
  return spans.flatMap((span, index) => {
    if (span[0] === "same" || span[0] === "cut") return [];
    const before = index ? spans[index - 1][2].trim().split(/\s+/).slice(-CONTEXT_WORDS).join(" ") : "";
    const after = index + 1 < spans.length && spans[index + 1][0] === "same" ? spans[index + 1][2].trim().split(/\s+/).slice(0, CONTEXT_WORDS).join(" ") : "";
    const [, ...marked] = spanNodes(span);
    return [h("li", {}, before ? `… ${before} ` : "", ...marked, /^[,.;:!?]/.test(after) || !after ? after : ` ${after}`, " …")];
  });
}
