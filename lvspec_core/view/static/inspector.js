// The inspector: why one word stands in the text. A card at the word on hover and focus; a click pins it to the window's edge.

function buildInspector(board, find) {
  const card = h("aside", { class: "lv-card", "aria-label": "About this word", hidden: true });
  const spoken = h("p", { class: "lv-unseen", role: "status" });
  board.append(card, spoken);
  const state = { chip: null, race: null, name: "", index: -1, pinned: false, evidence: null, scrolled: null, closing: null };
  const phone = window.matchMedia("(max-width: 720px)");
  const chipOf = (event) => event.target.closest?.(".lv-lane .tk[data-index]");

  function open(chip, pin) {
    const { race, lane } = find(chip.closest(".lv-lane").dataset.lane);
    const index = Number(chip.dataset.index);
    if (index >= lane.all.length) return;
    release();
    Object.assign(state, { chip, race, name: lane.name, index, pinned: pin, evidence: lane.evidence });
    toggle(chip, "picked", true);
    toggle(card, "pinned", pin);
    const facts = tokenFacts(race, lane, index);
    card.replaceChildren(...cardNodes(facts, pin, { close, walk }));
    card.hidden = false;
    if (pin) dock(chip);
    else place(chip);
  }
  // Beside the word, over nothing that moves.
  function place(chip) {
    card.removeAttribute("data-side");
    const word = chip.getClientRects()[0] || chip.getBoundingClientRect();
    const size = card.getBoundingClientRect();
    const wide = document.documentElement.clientWidth;
    const below = word.bottom + 10;
    const above = word.top - size.height - 10;
    card.style.left = `${Math.max(8, Math.min(word.left + word.width / 2 - size.width / 2, wide - size.width - 8))}px`;
    card.style.top = `${above > 8 || below + size.height > window.innerHeight ? Math.max(8, above) : below}px`;
  }
  // At the edge of the window that the word is not at; on a phone always at the bottom, and the word just above it.
  function dock(chip) {
    card.style.left = card.style.top = "";
    const word = chip.getBoundingClientRect();
    const high = word.bottom <= window.innerHeight - card.offsetHeight - 8 || word.top <= card.offsetHeight;
    if (phone.matches || !card.dataset.side) card.dataset.side = phone.matches || high ? "bottom" : "top";
    // the end of the page can be scrolled out from under the card
    document.body.style.paddingBottom = card.dataset.side === "bottom" ? `${card.offsetHeight}px` : "";
    const hidden = word.bottom + 12 - (window.innerHeight - card.offsetHeight);
    if (!phone.matches || hidden <= 0) return;
    state.scrolled = state.scrolled || { from: window.scrollY };
    window.scrollBy(0, hidden);
    state.scrolled.to = window.scrollY;
  }
  function release() {
    if (state.chip) toggle(state.chip, "picked", false);
    state.chip = null;
  }
  function close() {
    const { chip, pinned, scrolled } = state;
    release();
    // the word gets the focus back, and that opens nothing
    Object.assign(state, { pinned: false, index: -1, race: null, scrolled: null, closing: chip });
    if (pinned) chip?.focus({ preventScroll: true });
    state.closing = null;
    card.hidden = true;
    card.removeAttribute("data-side");
    document.body.style.paddingBottom = "";
    // where the page was moved for the sheet and not since, it goes back
    if (scrolled && Math.abs(window.scrollY - scrolled.to) < 2) window.scrollTo(0, scrolled.from);
  }
  // The one word of each text that the Tab key stops at; it reads as a button, the others as text.
  function stopAt(chip) {
    for (const old of chip.closest(".lv-text, .lv-rounds-list").querySelectorAll('.tk[tabindex="0"]')) {
      old.removeAttribute("tabindex");
      old.removeAttribute("role");
    }
    setAttribute(chip, "tabindex", "0");
    setAttribute(chip, "role", "button");
  }
  function walk(step) {
    const from = state.chip;
    if (!from) return;
    const chips = [...from.closest(".lv-text, .lv-rounds-list").querySelectorAll(".tk[data-index]")];
    const next = chips[Math.max(0, Math.min(chips.length - 1, step === Infinity ? chips.length - 1 : step === -Infinity ? 0 : chips.indexOf(from) + step))];
    if (!next || next === from) return;
    const inside = card.contains(document.activeElement);
    stopAt(next);
    next.style.scrollMarginBlock = state.pinned ? `${card.offsetHeight + 12}px` : "";
    next.scrollIntoView({ block: "nearest" });
    open(next, state.pinned);
    if (inside) card.querySelector(step < 0 ? ".lv-walk" : ".lv-walk:nth-of-type(2)")?.focus();
    else next.focus({ preventScroll: true });
    setText(spoken, card.querySelector(".lv-why")?.textContent || "");
  }

  // moves of the pointer only: words that stream past beneath it must not open cards
  board.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "mouse" || state.pinned) return;
    const chip = chipOf(event);
    if (chip === state.chip || (!chip && !state.chip)) return;
    if (chip) open(chip, false);
    else if (state.chip !== document.activeElement) close();
  });
  board.addEventListener("pointerleave", () => { if (!state.pinned && state.chip) close(); });
  board.addEventListener("focusin", (event) => {
    const chip = chipOf(event);
    if (chip && chip !== state.chip && chip !== state.closing) open(chip, state.pinned);
  });
  board.addEventListener("focusout", (event) => { if (!state.pinned && event.target === state.chip) close(); });
  board.addEventListener("click", (event) => {
    const chip = chipOf(event);
    if (!chip) return;
    if (state.pinned && chip === state.chip) { close(); return; }
    stopAt(chip);
    open(chip, true);
    chip.focus({ preventScroll: true });
  });
  board.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    const beside = card.contains(event.target) && !event.target.closest(".lv-film");
    if (event.key === "Escape" && state.chip) close();
    else if ((!chipOf(event) && !(beside && step)) || event.ctrlKey || event.altKey || event.metaKey) return;
    else if (step) walk(step);
    else if (event.key !== "Enter" && event.key !== " ") return;
    else if (state.pinned) card.querySelector("button")?.focus();
    else open(chipOf(event), true);
    event.preventDefault();
    event.stopPropagation();
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && state.pinned) close(); });
  window.addEventListener("scroll", () => { if (!state.pinned && state.chip && state.chip !== document.activeElement) close(); }, { passive: true });

  return {
    // After the board was drawn: every text has its stop, and what the card shows is still there.
    refresh: (race, texts) => {
      for (const text of texts) {
        const first = text.querySelector('.tk[tabindex="0"]') ? null : text.querySelector(".tk[data-index]");
        if (first) stopAt(first);
      }
      if (!state.race) return;
      const lane = race.lanes.get(state.name);
      if (state.race !== race || !state.chip?.isConnected) close();
      else if (state.pinned && lane.evidence !== state.evidence) open(state.chip, true);
    },
  };
}

// What the card shows; a pinned one also has the evidence and its buttons.
function cardNodes(facts, pinned, does) {
  const { lane, index, token } = facts;
  const classes = `lv-card-word tk k-${kindOf(token)} v-${token.verdict}${token.anchor ? " anchor" : ""}`;
  const title = methodOf(lane.name).title;
  const head = h("header", { class: "lv-card-head" },
    h("span", { class: classes }, wordOf(token.text)),
    h("span", { class: "lv-card-where" }, `${title} · token ${index + 1} of ${lane.all.length}`),
    pinned ? h("button", { class: "lv-walk", type: "button", "aria-label": "Word before", onclick: () => does.walk(-1) }, "‹") : null,
    pinned ? h("button", { class: "lv-walk", type: "button", "aria-label": "Next word", onclick: () => does.walk(1) }, "›") : null,
    pinned ? h("button", { class: "lv-shut", type: "button", "aria-label": "Close", onclick: does.close }, "×") : h("span", { class: "lv-card-hint" }, "click to pin"));
  const story = h("div", { class: "lv-story" },
    h("p", { class: "lv-why" }, ...sentenceOf(facts)), relevanceBar(facts), h("p", { class: "lv-card-small" }, placeText(facts)));
  const parts = [head, story, topsNode(facts)];
  return pinned ? [...parts, evidenceNode(facts)] : parts;
}

function placeText({ lane, at, round, row, guess }) {
  const where = `Round ${at + 1} of ${lane.rounds.length}`;
  if (!round.proposed.length) return `${where}: no guesses, one word of the target’s.`;
  const tree = round.parents?.length ? ` on a tree of ${round.proposed.length}` : ` of ${round.proposed.length}`;
  if (guess) return `${where}: guess ${row + 1}${tree}, ${round.accepted} kept.`;
  return `${where}: after ${round.accepted} kept guess${round.accepted === 1 ? "" : "es"}${tree}.`;
}

// The relevance of the word's place on a line from 0 to 1, with the threshold of the race.
function relevanceBar({ race, token }) {
  if (typeof token.relevance !== "number") return h("p", { class: "lv-card-small" }, "How much this place depends on the video was not scored.");
  const known = thresholdOf(race);
  const line = known !== null && known >= 0 && known <= 1 ? known : null;
  const side = token.anchor ? "anchor: about the video" : "filler: not about the video";
  // as many digits as tell the two apart
  const places = [2, 3, 4].find((count) => line === null || token.relevance.toFixed(count) !== line.toFixed(count)) || 4;
  const text = `Relevance ${token.relevance.toFixed(places)}${line === null ? "" : `, threshold ${line.toFixed(places)}`} · ${side}`;
  const marks = [h("span", { class: `lv-rel-dot${token.anchor ? " anchor" : ""}`, style: `left:${token.relevance * 100}%` })];
  if (line !== null) marks.push(h("span", { class: "lv-rel-line", style: `left:${line * 100}%` }), h("span", { class: "lv-rel-over", style: `left:${line * 100}%` }));
  return h("div", { class: "lv-rel" }, h("div", { class: "lv-rel-axis", "aria-hidden": "true" }, ...marks), h("p", { class: "lv-card-small" }, text));
}

function topsNode(facts) {
  const { target, draft, round, guess } = facts;
  if (!target.length) return h("p", { class: "lv-card-small lv-tops" }, "This race was recorded without the models’ probabilities.");
  const none = !round.proposed.length ? "no draft here" : guess ? "not recorded" : "the draft had stopped before this place";
  return h("div", { class: "lv-tops" }, topNode("Draft’s top five", draft, facts, none), topNode("Target’s top five", target, facts, ""));
}

function topNode(title, top, { spelled }, none) {
  const rows = top.map(([text, chance]) => h("li", { class: text === spelled ? "this" : null },
    h("span", { class: "lv-top-word" }, text.trim() || (text ? "␣" : "end")), h("span", { class: "lv-top-bar", "aria-hidden": "true" }, h("span", { style: `width:${Math.max(1, chance * 100)}%` })),
    h("span", { class: "lv-top-share" }, chance < 0.001 ? "<0.1 %" : `${(chance * 100).toFixed(chance < 0.1 ? 1 : 0)} %`)));
  return h("section", { class: "lv-top" }, h("h4", {}, title), rows.length ? h("ol", {}, ...rows) : h("p", { class: "lv-card-small" }, none));
}
