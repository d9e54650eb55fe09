// What if: this race's measured costs in the formula, for other draft lengths, acceptance rates and hardware.

const MOST_GUESSES = 24;
// the papers' pair, 2 bytes a weight; every one of these numbers is the reader's to set
const SIZES = [["target", "Target, billion weights", 32], ["draft", "Draft, billion weights", 7], ["bytes", "Bytes a weight", 2], ["bandwidth", "Memory bandwidth, GB/s", 2000]];
const FORMULA = "Speedup = (1 − α^(γ+1)) ÷ (1 − α) × AR’s time per token ÷ (γ × draft step + verification + overhead): expected tokens of a round over its time, after Leviathan et al., arXiv 2211.17192. α is the chance that a guess is kept if those before it were, taken as the same everywhere.";

const guessesText = (value) => (Number.isInteger(value) ? String(value) : value.toFixed(1));

function buildWhatIf(url) {
  const chosen = { lane: null, gamma: 8, alpha: 0.8, other: false };
  let race = null;
  let measured = null;
  const lane = h("select", { class: "lv-select", "aria-label": "Lane", onchange: () => { chosen.lane = lane.value; adopt(); } });
  const gamma = slider("Draft length γ", 1, MOST_GUESSES, 1, (value) => { chosen.gamma = value; });
  const alpha = slider("Guesses kept α", 0, 99, 1, (value) => { chosen.alpha = value / 100; });
  const hardware = h("select", { class: "lv-select", "aria-label": "Hardware", onchange: () => { chosen.other = hardware.value === "other"; say(); } },
    h("option", { value: "here" }, "costs as measured here"), h("option", { value: "other" }, "other hardware: weights ÷ bandwidth"));
  const sizes = Object.fromEntries(SIZES.map(([name, label, value]) => [name, h("input", { class: "lv-number", type: "number", min: 0.001, step: "any", value, "aria-label": label, oninput: () => say() })]));
  const sizesNode = h("div", { class: "lv-whatif-sizes", hidden: true },
    ...SIZES.map(([name, label]) => h("label", {}, h("span", {}, label), sizes[name])),
    h("p", { class: "lv-note" }, "An assumption, not a measurement: a pass takes as long as reading the weights once. It leaves out the KV cache and all arithmetic; the overhead beside the passes stays this machine’s."));
  const answer = h("p", { class: "lv-whatif-answer", role: "status" });
  const costs = h("dl", { class: "lv-figures", "aria-label": "Measured in this race" });
  const chartNode = h("div", { class: "lv-chart", role: "img", "aria-label": "Expected speedup over draft length", "data-empty": "The curve appears when a race with AR and a draft is over." });
  const drawCurve = buildChart(chartNode, url, figure);
  const back = h("button", { class: "lv-button", type: "button", onclick: () => adopt() }, "As measured");
  const root = h("section", { class: "lv-section lv-whatif", hidden: true }, h("h3", {}, "What if"),
    h("p", { class: "lv-note" }, FORMULA),
    h("div", { class: "lv-whatif-grid" }, h("div", { class: "lv-whatif-controls" }, h("div", { class: "lv-row" }, lane, hardware, back), gamma.root, alpha.root, sizesNode, answer,
      h("p", { class: "lv-note" }, "Measured in this race (a verification of another length: on the straight line through the two):"), costs), chartNode));

  function slider(label, min, max, step, take) {
    const value = h("output", {});
    const input = h("input", { class: "lv-range", type: "range", min, max, step, "aria-label": label, oninput: () => { take(Number(input.value)); say(); } });
    return { root: h("label", { class: "lv-whatif-slider" }, h("span", {}, label), input, value), input, value };
  }
  function inputs() {
    if (!chosen.other) return measured;
    const number = (name) => Number(sizes[name].value);
    const asked = { target: number("target") * 1e9, draft: number("draft") * 1e9, bytes: number("bytes"), bandwidth: number("bandwidth") * 1e9 };
    return Object.values(asked).every((value) => value > 0 && isFinite(value)) ? onHardware(measured, asked) : null;
  }
  // Back to what the race measured.
  function adopt() {
    measured = race && chosen.lane ? measuredInputs(race, race.lanes.get(chosen.lane)) : null;
    if (!measured) return;
    chosen.gamma = Math.min(MOST_GUESSES, Math.max(1, Math.round(measured.gamma)));
    chosen.alpha = Math.round(measured.alpha * 100) / 100;
    chosen.other = false;
    hardware.value = "here";
    gamma.input.value = String(chosen.gamma);
    alpha.input.value = String(Math.round(chosen.alpha * 100));
    const facts = [
      ["AR, a token", secondsText(measured.token)], ["Draft step", secondsText(measured.draft)], [`Verifying ${guessesText(measured.gamma)}`, secondsText(measured.verify)],
      ["Verifying none", secondsText(measured.pass)], ["Overhead, a round", secondsText(measured.other)], ["Guesses kept α", percent(measured.alpha)],
    ];
    costs.replaceChildren(...facts.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value))));
    say();
  }
  function say() {
    if (!measured) return;
    show(sizesNode, chosen.other);
    setText(gamma.value, String(chosen.gamma));
    setText(alpha.value, percent(chosen.alpha));
    const used = inputs();
    if (!used) return setText(answer, "Each size must be a number above 0.");
    const best = bestGamma(used, chosen.alpha, MOST_GUESSES);
    setText(answer, `Expected: ${digits(expectedSpeedup(used, chosen.alpha, chosen.gamma), "×")}; the most, ${digits(expectedSpeedup(used, chosen.alpha, best), "×")}, at γ = ${best}. Measured in this race: ${digits(measured.speedup, "×")} at γ = ${guessesText(measured.gamma)}.`);
    drawCurve(race, null, 30);
  }
  function figure(_race, _t, narrow) {
    const lengths = Array.from({ length: MOST_GUESSES }, (_, index) => index + 1);
    const used = inputs() || measured;
    const curve = (source, kept) => lengths.map((length) => expectedSpeedup(source, kept, length));
    const ink = css("--lv-ink");
    const accent = css("--lv-accent");
    const expected = curve(used, chosen.alpha);
    const traces = [
      { x: lengths, y: curve(measured, measured.alpha), name: "formula, as measured", mode: "lines", line: { color: css("--lv-muted"), width: 1.5, dash: "dot" }, hovertemplate: "%{y:.2f}× at γ = %{x}<extra>%{fullData.name}</extra>" },
      { x: lengths, y: expected, name: "formula, as set", mode: "lines", line: { color: accent, width: 2.5 }, hovertemplate: "%{y:.2f}× at γ = %{x}<extra>%{fullData.name}</extra>" },
      { x: [chosen.gamma], y: [expected[chosen.gamma - 1]], name: "your γ", mode: "markers", showlegend: false, marker: { color: accent, size: 11 }, hovertemplate: "%{y:.2f}× at γ = %{x}<extra>as set</extra>" },
      { x: [measured.gamma], y: [measured.speedup], name: "measured", mode: "markers", marker: { color: ink, symbol: "x", size: 10 }, hovertemplate: "%{y:.2f}× at γ = %{x:.3~g}<extra>measured</extra>" },
    ];
    const layout = baseLayout(narrow);
    layout.margin = { l: 40, r: 12, t: narrow ? 50 : 34, b: 44 };
    Object.assign(layout, { showlegend: true, legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom" } });
    Object.assign(layout.xaxis, { title: { text: "draft length γ", standoff: 8 }, range: [0.5, MOST_GUESSES + 0.5] });
    Object.assign(layout.yaxis, { ticksuffix: "×", rangemode: "tozero" });
    layout.shapes = [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: 1, y1: 1, line: { color: css("--lv-rule"), width: 1.5 } }];
    return { traces, layout };
  }
  return {
    root,
    // Takes a race that is over; null while one runs.
    draw: (over) => {
      const possible = over ? [...over.lanes.values()].filter((one) => measuredInputs(over, one)).map((one) => one.name) : [];
      show(root, possible.length > 0);
      if (!possible.length || over === race) return;
      race = over;
      lane.replaceChildren(...possible.map((name) => h("option", { value: name }, methodOf(name).title)));
      chosen.lane = possible.includes("lvspec") ? "lvspec" : last(possible, null);
      lane.value = chosen.lane;
      adopt();
    },
    redraw: () => { if (measured && !root.hidden) drawCurve(race, null, 80); },
  };
}
