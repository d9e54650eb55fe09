// A report: the figures of every run and method, charts, and the clips to look at. Its value is one JSON text.

const root = element.querySelector(".lv-report");
const KIND_TITLES = { fastest: "Fastest", slowest: "Slowest", furthest: "Furthest from AR’s text" };
const KIND_NONE = { fastest: "No speedup is known.", slowest: "No speedup is known.", furthest: "Every text is AR’s, or AR’s is not known." };
const COLUMN_TIPS = {
  "decode speedup": "Median over the clips: tokens per second of decoding against AR’s on the same clip.",
  "end-to-end speedup": "Median over the clips: the same with the prefill counted in.",
  "same as AR": "Share of the clips whose text is AR’s from first to last.",
  "anchors kept": "Median share of AR’s anchors that stand in the text in their order.",
  "facts right": "Share of the facts of the shapes world that the texts state right.",
  "right answers": "Share of multiple-choice questions answered right.",
  "mean accepted length": "Tokens a round, the target’s own included, averaged over the clips.",
};
const state = { report: null, run: 0, method: "", opened: "" };
const laneClass = (method) => `lane-${Object.hasOwn(METHODS, method) ? method : "other"}`;
const amount = (value, unit = "") => (value === null || value === undefined ? "–" : value.toFixed(2) + unit);

function chartSection(title, note, label, figure) {
  const node = h("div", { class: "lv-chart", role: "img", "aria-label": label, "data-empty": "The chart is being drawn …" });
  const draw = buildChart(node, props.plotly, figure);
  return { node, draw, root: h("section", { class: "lv-section" }, h("h3", {}, title), h("p", { class: "lv-note" }, note), node) };
}

function buildTable(report) {
  const head = h("tr", {}, h("th", { scope: "col" }, h("span", { class: "lv-unseen" }, "Method")),
    ...report.columns.slice(1).map((name) => h("th", { scope: "col", title: COLUMN_TIPS[name] || null }, name)));
  const bodies = report.runs.map((run) => h("tbody", {},
    h("tr", {}, h("th", { scope: "rowgroup", colspan: report.columns.length }, h("div", { class: "lv-report-run" }, run.name, h("p", { class: "lv-report-made" }, madeOf(run))))),
    ...run.rows.map((row) => h("tr", {},
      h("th", { scope: "row" }, h("span", { class: `lv-report-swatch ${laneClass(row.method)}`, "aria-hidden": "true" }), methodOf(row.method).title),
      ...row.cells.map((cell) => h("td", {}, cell))))));
  return h("div", { class: "lv-scroll", tabindex: 0, role: "region", "aria-label": "Figures of every run and method" },
    h("table", { class: "lv-report-table" }, h("thead", {}, head), ...bodies));
}

function madeOf(run) {
  if (run.foreign) return "Written by another program, SpecVLM’s layout. Speedups are reckoned from its decoding times, and “same as AR” from its texts.";
  return run.told.length ? run.told.map(([label, value]) => `${label} ${value}`).join(" · ") : "Nobody wrote down how this run was made.";
}

function select(label, options, chosen, pick) {
  const node = h("select", { class: "lv-select", onchange: () => pick(node.value) },
    ...options.map(([value, title]) => h("option", { value, selected: String(value) === String(chosen) }, title)));
  return h("label", {}, label, node);
}

function clipItem(clip) {
  const facts = clip.facts ? `${clip.facts.right} of ${clip.facts.total}` : "";
  const figures = [amount(clip.speedup, "×"), `${amount(clip.accepted)} a round`];
  if (clip.distance) figures.push(`${Math.round(clip.distance * 100)} % other`);
  if (clip.lost > 0) figures.push(`${clip.lost} fewer right`);
  const open = clip.race ? h("button", { class: "lv-link", type: "button", "data-race": clip.race, onclick: () => openRace(clip.race) }, "Open") : null;
  const rows = [["Question", clip.question], ["Answer", clip.answer], ["Facts right", facts], ["AR", clip.method === "ar" ? "" : clip.ar], [methodOf(clip.method).title, clip.text]];
  return h("li", {}, h("div", { class: "lv-report-clip" }, h("b", {}, clip.name), ...figures.map((figure) => h("span", {}, figure))),
    h("div", { class: "lv-report-more" }, open, h("details", {}, h("summary", {}, "Texts"), h("dl", {}, ...rows.filter(([, value]) => value).flatMap(([label, value]) => [h("dt", {}, label), h("dd", {}, value)])))));
}

function openRace(key) {
  trigger("select", { race: key });
}

// The board has a race: only now is it known that it can be read, and which of those that were clicked it is.
function showRace(board) {
  state.opened = board.dataset.shown.replace(/#[^#]*$/, "");
  document.documentElement.dataset.opened = "yes";
  markOpened();
  const place = document.querySelector(".lv-report-board");
  requestAnimationFrame(() => place.scrollIntoView({ behavior: window.matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth", block: "start" }));
}

function markOpened() {
  for (const button of root.querySelectorAll("[data-race]")) {
    if (button.dataset.race === state.opened) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
}

const clipsChart = chartSection("Clip by clip", "Each mark is a clip of the run that is chosen under “Clips to look at”. Click one whose race was kept to open it.", "Decode speedup of every clip over its mean accepted length", clipsFigure);
const clipsNode = h("div", {});

function drawClips() {
  const report = state.report;
  const run = report.runs[state.run];
  const methods = Object.keys(run.clips).sort((one, other) => rank(one) - rank(other));
  if (!methods.includes(state.method)) state.method = methods[methods.length - 1];
  const picks = h("div", { class: "lv-report-picks" },
    report.runs.length > 1 ? select("Run", report.runs.map((each, place) => [place, each.name]), state.run, (value) => { state.run = Number(value); drawClips(); }) : null,
    select("Method", methods.map((method) => [method, methodOf(method).title]), state.method, (value) => { state.method = value; drawClips(); }));
  const lists = run.clips[state.method];
  const none = (kind) => (kind === "slowest" && lists.fastest.length ? "There is no other clip." : KIND_NONE[kind]);
  const sections = state.report.kinds.filter((kind) => kind !== "furthest" || state.method !== "ar").map((kind) => h("section", {}, h("h4", {}, KIND_TITLES[kind]),
    lists[kind].length ? h("ol", { class: "lv-report-clips" }, ...lists[kind].map(clipItem)) : h("p", { class: "lv-note" }, none(kind))));
  const failures = run.failures.length
    ? h("section", { class: "lv-section" }, h("h4", {}, "Could not be raced"), h("ul", { class: "lv-report-failures" }, ...run.failures.map((each) => h("li", {}, `${each.name}: ${each.error}`))))
    : null;
  clipsNode.replaceChildren(picks, h("div", { class: "lv-report-lists" }, ...sections),
    run.kept ? "" : h("p", { class: "lv-note" }, "No races lie beside this run’s results, so its clips do not open; evaluate keeps them with --keep-races."), failures || "");
  markOpened();
  clipsChart.draw(run, null, 0);
}

function drawReport() {
  const report = state.report;
  if (!report || !report.runs.length) {
    root.replaceChildren(h("p", { class: "lv-report-empty" }, "No run yet. Add what python -m lvspec_core evaluate wrote, or a results.jsonl of SpecVLM’s."));
    return;
  }
  state.run = Math.min(state.run, report.runs.length - 1);
  const spread = chartSection("Speedup in decoding", "Box: the middle half of the clips, with the median. Whiskers: the middle nine tenths. Dashed: AR.", "Decode speedup of every run and method", spreadFigure);
  const frames = new Set(report.runs.map((run) => run.frames).filter(Boolean)).size > 1
    ? chartSection("Speedup by frames", "Medians of the runs, by how many frames the models saw.", "Median decode speedup over frames", framesFigure) : null;
  root.replaceChildren(buildTable(report), h("div", { class: "lv-charts" }, spread.root, frames ? frames.root : clipsChart.root),
    h("section", { class: "lv-section" }, h("h3", {}, "Clips to look at"), clipsNode), frames ? clipsChart.root : "");
  spread.draw(report, null, 0);
  if (frames) frames.draw(report, null, 0);
  drawClips();
  state.redraw = () => { spread.draw(report, null, 0); if (frames) frames.draw(report, null, 0); clipsChart.draw(report.runs[state.run], null, 0); };
}

// the board may come to the page after the report
new MutationObserver((changes) => { for (const { target } of changes) if (target.matches(".lv-report-board .lv-board")) showRace(target); })
  .observe(document.body, { subtree: true, attributes: true, attributeFilter: ["data-shown"] });

// plotly's own click, once it has drawn
new MutationObserver(() => {
  if (!clipsChart.node.on || clipsChart.node.dataset.hears) return;
  clipsChart.node.dataset.hears = "yes";
  clipsChart.node.on("plotly_click", (event) => { const key = event.points[0]?.customdata; if (key) openRace(key); });
}).observe(clipsChart.node, { attributes: true, attributeFilter: ["class"] });

function receiveReport() {
  const value = props.value && props.value[0] ? JSON.parse(props.value[0]) : null;
  state.report = value;
  state.redraw = null;
  drawReport();
}

watch("value", receiveReport);
// the colours are the theme's
new MutationObserver(() => state.redraw?.()).observe(document.body, { attributes: true, attributeFilter: ["class"] });
receiveReport();
