// One lane: its figures, its track, its key and its text.

const KEY = {
  anchor: ["anchor, strict", "About the video: accepted only because the draft's word is exactly the target's own choice."],
  exact: ["filler, exact", "Not about the video; draft and target agree on it anyway."],
  loose: ["filler, loose", "Not about the video: the target would have chosen another word, but finds this one plausible. A word for free."],
  shifted: ["shifted", "The same words at another position: accepted although draft and target are out of step."],
  own: ["target’s own", "Written by the target itself: its correction after a rejection, its bonus word after full acceptance, or every word of AR."],
};

const FIGURES = [
  ["rate", "tokens/s", "Tokens written per second of this lane's own decoding time."],
  ["total", "end to end", "Speedup against AR from the start, prefill included: what a user feels."],
  ["perRound", "tokens/round", "Mean accepted length: tokens written per forward pass of the target, its own token included."],
  ["acceptance", "accepted", "Acceptance rate: share of the draft's guesses that the target kept."],
  ["rounds", "rounds", "Forward passes of the target. Each checks one guess of the draft and adds a word of the target's own."],
  ["tokens", "tokens", "Tokens written so far, the end of the text included."],
];

const DECODE_TIP = "Decoding speedup: AR's seconds per token ÷ this lane's, prefill left out. This is what papers report.";

function buildLane(name, onPick) {
  const method = methodOf(name);
  const dom = { name, chips: [], drawn: 0, differs: null, figures: {}, counts: {}, keys: {} };
  dom.big = h("span", { class: "lv-big" }, "–");
  dom.badge = h("span", { class: "lv-badge", tabindex: 0, hidden: true });
  dom.area = svg("path", { class: "lv-area" });
  dom.line = svg("path", { class: "lv-line" });
  dom.dot = svg("circle", { class: "lv-dot", r: 3.5, cx: 0, cy: 0 });
  dom.track = svg("svg", { class: "lv-track", viewBox: "0 0 280 40", preserveAspectRatio: "none", "aria-hidden": "true" }, dom.area, dom.line);
  dom.clock = h("span", { class: "lv-clock" }, "");
  dom.text = h("div", { class: "lv-text", role: "region", "aria-label": `Text of ${method.title}` });
  dom.error = h("p", { class: "lv-error", hidden: true });
  dom.pick = h("button", { class: "lv-pick", type: "button", "aria-label": `Show the text of ${method.title}`, onclick: () => onPick(name) });
  const figures = FIGURES.map(([id, label, tip]) => {
    dom.figures[id] = h("dd", {}, "–");
    return h("div", {}, h("dt", { "data-tip": tip, tabindex: 0 }, label), dom.figures[id]);
  });
  const keys = KINDS.map((kind) => {
    dom.counts[kind] = h("span", { class: "lv-count" }, "0");
    dom.keys[kind] = h("li", { class: "lv-key", "data-kind": kind, "data-tip": KEY[kind][1], tabindex: 0 },
      h("span", { class: `lv-swatch tk k-${kind}${kind === "anchor" ? " anchor" : ""}`, "aria-hidden": "true" }, "Ab"),
      h("span", { class: "lv-label" }, KEY[kind][0]), dom.counts[kind]);
    return dom.keys[kind];
  });
  dom.head = h("header", { class: "lv-head" }, dom.pick,
    h("div", { class: "lv-name" }, h("h3", {}, method.title), dom.badge),
    h("p", { class: "lv-line-of" }, method.line),
    h("div", { class: "lv-speed" }, dom.big, h("span", { class: "lv-unit", "data-tip": DECODE_TIP, tabindex: 0 }, name === "ar" ? "the reference" : "decoding speedup")),
    dom.track, dom.clock);
  dom.body = h("div", { class: "lv-body" },
    h("dl", { class: "lv-figures" }, ...figures), h("ul", { class: "lv-keys", "aria-label": "How the words got in" }, ...keys), dom.error, dom.text);
  dom.rounds = buildRounds(dom);
  dom.root = h("article", { class: `lv-lane lane-${Object.hasOwn(METHODS, name) ? name : "other"}`, "data-lane": name }, dom.head, dom.body);
  return dom;
}

function drawLane(dom, race, lane, t, scale) {
  const figures = figuresAt(race, lane, t);
  const counts = countsAt(lane, t);
  const stopped = figures.finish === "stopped";
  const failed = figures.finish === "failed";
  setText(dom.big, lane.name === "ar" && figures.tokens ? "1.00×" : digits(figures.decode, "×"));
  setText(dom.figures.rate, digits(figures.rate));
  setText(dom.figures.total, lane.name === "ar" && figures.tokens ? "1.00×" : digits(figures.total, "×"));
  setText(dom.figures.perRound, digits(figures.perRound));
  setText(dom.figures.acceptance, percent(figures.acceptance));
  setText(dom.figures.rounds, figures.rounds ? String(figures.rounds) : "–");
  setText(dom.figures.tokens, figures.rounds ? String(figures.tokens) : "–");
  const over = figures.finish && !stopped && !failed;
  setText(dom.clock, figures.rounds ? `${figures.tokens} tokens in ${secondsText(figures.seconds)}` : " ");
  toggle(dom.root, "over", Boolean(over));
  toggle(dom.root, "failed", failed);
  for (const kind of KINDS) {
    setText(dom.counts[kind], figures.rounds ? String(counts[kind]) : "");
    toggle(dom.keys[kind], "none", Boolean(figures.rounds) && !counts[kind]);
  }
  show(dom.error, failed);
  setText(dom.error, figures.error || "");
  drawBadge(dom, lane, figures);
  drawTrack(dom, lane, t, scale);
  drawText(dom, lane, t, figures);
  dom.rounds(lane, t);
  return figures;
}

// The badge says only what was compared: token ids of both lanes, as far as both have come.
function drawBadge(dom, lane, figures) {
  let text = "";
  let kind = "";
  let tip = "";
  if (figures.error) [text, kind, tip] = ["failed", "bad", figures.error];
  else if (figures.same === true && figures.finish && figures.finish !== "stopped") {
    [text, kind, tip] = ["identical to AR", "good", "Every token is the one that AR wrote: compared, not assumed."];
  } else if (figures.same === true) [text, kind, tip] = ["= AR so far", "good", "As far as both lanes have come, every token is the same."];
  else if (figures.same === false) {
    [text, kind, tip] = [`leaves AR at token ${figures.differsAt + 1}`, "off", departureTip(figures)];
    if (figures.nearTie) text += " · rounding";
    if (figures.nearTie === false) kind = "bad";
  }
  if (figures.sameDistribution && !figures.error) {
    [text, kind, tip] = ["same distribution as AR", "good", "This lane draws its words, and by its method from exactly AR’s probabilities: the words differ from AR’s, their odds do not."];
  }
  show(dom.badge, Boolean(text));
  setText(dom.badge, text);
  setAttribute(dom.badge, "data-look", kind);
  setAttribute(dom.badge, "data-tip", tip);
}

// Loose methods may leave AR's text. A lossless one may do so only where rounding decides between two words.
function departureTip(figures) {
  if (figures.nearTie === null) return "From this word on the text is worded differently from AR's; the place is marked in the text.";
  const apart = `the target's logits of the two are ${figures.gap === null ? "an unknown distance" : Number(figures.gap.toPrecision(2))} apart`;
  if (figures.nearTie) return `A tie: AR's word and this one are equally probable but for rounding (${apart}), and a pass over several tokens rounds otherwise than one over a single token. The method itself is lossless.`;
  return `This method is lossless, so its text should be AR's, and rounding does not explain this word (${apart}). That is a fault: please save the race and report it.`;
}

// Own time to the right, tokens upwards, the same scale in all lanes: the steeper, the faster.
function drawTrack(dom, lane, t, scale) {
  const count = roundsAt(lane, t);
  let line = "M0 38";
  let x = 0;
  for (let index = 0; index < count; index += 1) {
    x = (lane.seconds[index] / scale.seconds) * 276;
    line += `L${x.toFixed(1)} ${(38 - (lane.tokens[index] / scale.tokens) * 34).toFixed(1)}`;
  }
  setAttribute(dom.line, "d", line);
  setAttribute(dom.area, "d", `${line}L${x.toFixed(1)} 38Z`);
}

// Asked of all lanes before any is drawn, so that the page is laid out once, not once for each.
function noteScroll(dom) {
  dom.height = dom.text.offsetHeight;
  dom.follow = dom.text.scrollHeight - dom.text.scrollTop - dom.text.clientHeight < 40;
}

// In a replay a text keeps the room that the whole text takes: nothing below it moves, and only the text is laid out again.
function holdRoom(dom, on) {
  // on a phone only one lane's text is open
  if (dom.text.classList.contains("held") === on || (on && !dom.height)) return;
  dom.text.style.height = on ? `${dom.height}px` : "";
  toggle(dom.text, "held", on);
}

// While words come, the newest stays in sight; once all are there, reading starts at the top.
function settleScroll(dom) {
  if (dom.scroll === "end") dom.text.scrollTop = dom.text.scrollHeight;
  if (dom.scroll === "top") dom.text.scrollTop = 0;
  dom.scroll = null;
}

function drawText(dom, lane, t, figures) {
  dom.ghosts?.remove();
  dom.ghosts = null;
  if (figures.tokens < dom.drawn) {
    for (const pieces of dom.chips.splice(figures.tokens)) for (const piece of pieces) piece.remove();
    dom.drawn = figures.tokens;
    dom.differs = null;
  }
  const fresh = document.createDocumentFragment();
  for (; dom.drawn < figures.tokens; dom.drawn += 1) {
    const pieces = tokenNodes(lane.all[dom.drawn], dom.drawn);
    dom.chips.push(pieces);
    fresh.append(...pieces);
  }
  const grew = fresh.childNodes.length > 0;
  if (grew) dom.text.append(fresh);
  if (figures.differsAt !== dom.differs) {
    dom.text.querySelector(".leaves")?.classList.remove("leaves");
    const place = figures.differsAt === null ? null : last(dom.chips[figures.differsAt] || [], null);
    place?.classList.add("leaves");
    dom.differs = place ? figures.differsAt : null;
  }
  const ghosts = t === null ? [] : draftNodes(lane, t);
  if (ghosts.length) {
    dom.ghosts = h("span", { class: "lv-ghosts", "aria-hidden": "true" }, ...ghosts);
    dom.text.append(dom.ghosts);
  }
  if (dom.follow && (grew || dom.ghosts)) dom.scroll = "end";
  if (figures.finish && t === null && dom.read !== lane) dom.scroll = "top";
  dom.read = figures.finish && t === null ? lane : null;
}

// The space before a word stays outside its tint, so that a chip never looks wider than its word.
function tokenNodes(token, index) {
  const word = token.text.trim();
  const lead = token.text.slice(0, token.text.length - token.text.trimStart().length);
  const classes = `tk k-${kindOf(token)} v-${token.verdict}${token.anchor ? " anchor" : ""}${word ? "" : " special"}`;
  const chip = h("span", { class: classes, "data-index": index }, word || (token.text ? token.text : "end"));
  return lead && word && index ? [document.createTextNode(lead), chip] : [chip];
}

// In a replay: the guesses of the round under way in grey, those that the round before lost struck out.
function draftNodes(lane, t) {
  const count = roundsAt(lane, t);
  const round = lane.rounds[count];
  if (!round) return [];
  const from = count ? lane.seconds[count - 1] : 0;
  const inside = t - from;
  const nodes = [];
  const before = lane.rounds[count - 1];
  if (before && inside < (round.seconds - from) * 0.5) {
    for (const [, text] of before.proposed.slice(before.accepted)) nodes.push(" ", h("s", {}, text.trim()));
  }
  const share = round.draft_seconds > 0 ? Math.min(1, inside / round.draft_seconds) : 1;
  for (const [, text] of round.proposed.slice(0, Math.ceil(round.proposed.length * share))) nodes.push(text.startsWith(" ") ? " " : "", h("i", {}, text.trim()));
  return nodes;
}
