// Step mode: one round at a time, with a sentence that says what happened, for a lecture. All lanes follow on their own clocks.

function buildSteps(onMoment) {
  const state = { race: null, name: "", at: 0, marked: [] };
  const picks = h("div", { class: "lv-step-lanes", role: "group", "aria-label": "Lane" });
  const where = h("span", { class: "lv-step-where" });
  const before = h("button", { class: "lv-button", type: "button", "aria-label": "Round before", onclick: () => go(state.at - 1) }, "‹ Back");
  const after = h("button", { class: "lv-button", type: "button", "aria-label": "Next round", onclick: () => go(state.at + 1) }, "Next ›");
  const shut = h("button", { class: "lv-button", type: "button", onclick: () => leave() }, "Done");
  const sentence = h("p", { class: "lv-step-say", "aria-live": "polite" });
  const drawing = h("div", { class: "lv-step-drawing", tabindex: 0, role: "region", "aria-label": "The proposal of this round" });
  const root = h("section", { class: "lv-step", hidden: true, "aria-label": "Step by step" },
    h("div", { class: "lv-step-bar" }, picks, where, h("div", { class: "lv-step-buttons" }, before, after, shut)), sentence, drawing);
  const button = h("button", { class: "lv-button lv-step-in", type: "button", hidden: true, onclick: () => (root.hidden ? enter() : leave()) }, "Step");

  const lane = () => state.race.lanes.get(state.name);
  function enter() {
    const drafting = [...state.race.lanes.values()].filter((each) => each.rounds.length);
    if (!drafting.some((each) => each.name === state.name)) state.name = drafting[drafting.length - 1].name;
    root.hidden = false;
    setAttribute(button, "aria-pressed", "true");
    go(0);
    after.focus({ preventScroll: true });
  }
  function leave() {
    const focused = root.contains(document.activeElement);
    root.hidden = true;
    setAttribute(button, "aria-pressed", "false");
    onMoment(null);
    if (focused) button.focus({ preventScroll: true });
  }
  function go(at) {
    const one = lane();
    state.at = Math.max(0, Math.min(one.rounds.length - 1, at));
    draw();
    // the end of the round, by the clock of its lane
    onMoment(one.seconds[state.at]);
  }
  function pick(name) {
    const moment = lane().seconds[state.at];
    state.name = name;
    go(Math.max(0, roundsAt(lane(), moment) - 1));
  }
  function draw() {
    const one = lane();
    const names = [...state.race.lanes.values()].filter((each) => each.rounds.length).map((each) => each.name);
    picks.replaceChildren(...names.map((name) => h("button", { class: `lv-step-pick lane-${Object.hasOwn(METHODS, name) ? name : "other"}`, type: "button", "aria-pressed": String(name === state.name), onclick: () => pick(name) }, methodOf(name).title)));
    setText(where, `Round ${state.at + 1} of ${one.rounds.length}`);
    before.disabled = state.at === 0;
    after.disabled = state.at === one.rounds.length - 1;
    sentence.replaceChildren(...roundExplained(state.race, one, state.at));
    drawing.replaceChildren(timesNode(one, state.at, longestRound(one)), proposalNode(one, state.at));
    drawing.dataset.lane = state.name;
  }
  document.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (root.hidden || event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
    if (event.target.closest?.("input, select, textarea, .tk")) return;
    if (event.key === "Escape" && root.contains(event.target)) leave();
    if (!step) return;
    event.preventDefault();
    go(state.at + step);
  });
  return {
    root,
    button,
    // Offers the mode for a race that is over; another race, or one that runs, ends it.
    offer: (race, over) => {
      const possible = over && [...race.lanes.values()].some((each) => each.rounds.length);
      show(button, possible);
      if (!root.hidden && (!possible || race !== state.race)) leave();
      state.race = race;
    },
    // Frames the words of this round in its lane's text.
    mark: (lanes) => {
      const round = root.hidden ? null : lane()?.rounds[state.at];
      const chips = round ? lanes.get(state.name).chips.slice(lane().tokens[state.at] - round.tokens.length, lane().tokens[state.at]).map((pieces) => last(pieces, null)) : [];
      for (const chip of state.marked) if (!chips.includes(chip)) toggle(chip, "stepped", false);
      for (const chip of chips) toggle(chip, "stepped", true);
      state.marked = chips;
    },
  };
}
