// The live charts, drawn in place by plotly.js: speedup against AR over own time, and how much a round brings.

// Paper is light, and narrower than a window. One pair of listeners serves the charts of all parts of a page that are on it.
const PAPER = 660;
if (!window.lvspecPrints) {
  window.lvspecPrints = true;
  let dark = false;
  const redraw = (most) => { for (const node of document.querySelectorAll(".lv-chart")) node.redraw?.(most && Math.min(node.clientWidth, most)); };
  window.addEventListener("beforeprint", () => {
    dark = document.body.classList.contains("dark");
    document.body.classList.remove("dark");
    redraw(PAPER);
  });
  window.addEventListener("afterprint", () => {
    document.body.classList.toggle("dark", dark);
    redraw();
  });
}

const LINES = {
  ar: { dash: "dash", width: 1.5 },
  naive_sd: { dash: "dot", width: 2 },
  specvlm: { dash: "dashdot", width: 2 },
  lvspec: { dash: "solid", width: 3 },
};

const PATTERNS = { naive_sd: ".", specvlm: "/" };

let plotly = null;
function loadScript(url) {
  return new Promise((resolve, reject) => {
    document.head.append(h("script", { src: url, async: true, onload: resolve, onerror: () => reject(new Error(`cannot load ${url}`)) }));
  });
}

// One load for all charts; a failed one may be tried again.
function loadPlotly(url) {
  if (window.Plotly) return Promise.resolve();
  plotly ||= loadScript(url).catch((error) => { plotly = null; throw error; });
  return plotly;
}

const idle = () => new Promise((resolve) => { (window.requestIdleCallback || setTimeout)(resolve); });

// plotly's first drawing takes twice as long as any later one: it is done out of sight, while the page has nothing else to do.
async function warmUp(url) {
  await idle();
  await loadPlotly(url);
  await idle();
  if (document.querySelector(".lv-chart.drawn")) return;
  const node = h("div", { class: "lv-unseen", "aria-hidden": "true" });
  document.querySelector(".lv-board").append(node);
  const title = { text: "x" };
  const traces = [{ x: [0, 1], y: [0, 1], mode: "lines" }, { type: "bar", x: [1], y: [1], marker: { pattern: { shape: "/" } } }];
  const layout = { height: 290, width: 600, showlegend: true, annotations: [title], xaxis: { title }, yaxis: { title } };
  await window.Plotly.newPlot(node, traces, layout, { displayModeBar: false });
  window.Plotly.purge(node);
  node.remove();
}

function css(name) {
  return getComputedStyle(document.querySelector(".lv-board")).getPropertyValue(name).trim();
}

// plotly reads some markup in labels, and a file may name a lane anything
const titleOf = (lane) => (Object.hasOwn(METHODS, lane.name) ? METHODS[lane.name].title : "other");
const colourOf = (lane) => css(`--lane-${lane.name}`) || css("--lv-muted");

function baseLayout(narrow) {
  const rule = css("--lv-rule");
  return {
    height: narrow ? 240 : 290,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: css("--lv-font"), size: 12, color: css("--lv-muted") },
    showlegend: false,
    hovermode: "closest",
    hoverlabel: { bgcolor: css("--lv-paper"), bordercolor: rule, font: { color: css("--lv-ink") } },
    xaxis: { showgrid: false, zeroline: false, ticks: "outside", ticklen: 4, tickcolor: rule, fixedrange: true },
    yaxis: { gridcolor: rule, zeroline: false, nticks: 6, fixedrange: true },
  };
}

function speedupFigure(race, t, narrow) {
  const drawn = [...race.lanes.values()].map((lane) => ({ lane, curve: speedupCurve(race, lane, t) }));
  const highest = Math.max(1.5, ...drawn.flatMap(({ curve }) => curve.y));
  const traces = drawn.map(({ lane, curve }) => ({
    x: lane.name === "ar" && curve.x.length ? [0, last(curve.x, 0)] : curve.x,
    y: lane.name === "ar" && curve.x.length ? [1, 1] : curve.y,
    name: titleOf(lane),
    mode: "lines",
    line: { ...(own(LINES, lane.name) || LINES.naive_sd), color: colourOf(lane) },
    hovertemplate: "%{y:.2f}× after %{x:.3~f} s<extra>%{fullData.name}</extra>",
  }));
  const layout = baseLayout(narrow);
  layout.margin = { l: 40, r: narrow ? 66 : 76, t: 12, b: 44 };
  Object.assign(layout.xaxis, { title: { text: "own decoding time (s)", standoff: 8 }, range: [0, Math.max(0.05, raceSeconds(race)) * 1.01] });
  Object.assign(layout.yaxis, { range: [0, highest * 1.08], ticksuffix: "×" });
  layout.annotations = endLabels(drawn, highest);
  return { traces, layout };
}

function roundsFigure(race, t, narrow) {
  const lanes = [...race.lanes.values()].filter((lane) => lane.name !== "ar");
  const traces = lanes.map((lane) => {
    const sizes = roundSizes(lane, t);
    return {
      type: "bar",
      x: sizes.map((_, index) => index + 1),
      y: sizes,
      name: titleOf(lane),
      marker: { color: colourOf(lane), pattern: { shape: own(PATTERNS, lane.name) || "", solidity: 0.6, size: 6 } },
      hovertemplate: "%{y} rounds wrote %{x} tokens<extra>%{fullData.name}</extra>",
    };
  });
  const layout = baseLayout(narrow);
  layout.margin = { l: 36, r: 8, t: 34, b: 44 };
  Object.assign(layout, { showlegend: true, legend: { orientation: "h", x: 1, xanchor: "right", y: 1.02, yanchor: "bottom" }, bargap: 0.25, bargroupgap: 0.08 });
  Object.assign(layout.xaxis, { title: { text: "tokens written in a round", standoff: 8 }, dtick: 1, ticks: "" });
  Object.assign(layout.yaxis, { title: { text: "rounds" }, rangemode: "tozero", tickformat: "d" });
  return { traces, layout };
}

// The lanes' names at the ends of their lines, moved apart where two lines end close together.
function endLabels(drawn, highest) {
  const pixels = 215 / (highest * 1.08);
  const ends = drawn.filter(({ curve }) => curve.x.length).map(({ lane, curve }) => ({ lane, x: last(curve.x), y: last(curve.y) }));
  ends.sort((one, other) => one.y - other.y);
  let floor = -Infinity;
  return ends.map(({ lane, x, y }) => {
    const height = Math.max(y * pixels, floor);
    floor = height + 16;
    return { x, y, text: titleOf(lane), showarrow: false, xanchor: "left", xshift: 6, yshift: height - y * pixels, font: { size: 12, color: colourOf(lane) } };
  });
}

// Draws at most every `pause` ms: the charts must not take from the lanes the cores that they need. A chart that is out of sight
// waits until it comes into sight, and none takes more than a fifth of the time.
function buildChart(node, url, figure) {
  let due = null;
  let lastDrawn = 0;
  let cost = 0;
  let inSight = true;
  let asked = null;
  let known = null;
  new IntersectionObserver(([entry]) => {
    inSight = entry.isIntersecting;
    if (inSight && asked) asked();
  }, { rootMargin: "300px" }).observe(node);
  async function draw(race, t, width) {
    await loadPlotly(url);
    const { traces, layout } = figure(race, t, node.clientWidth < 420);
    if (width) layout.width = width;
    const began = performance.now();
    await window.Plotly.react(node, traces, layout, { displayModeBar: false, responsive: true });
    cost = performance.now() - began;
    setAttribute(node, "data-points", String(traces.reduce((sum, trace) => sum + trace.x.length, 0)));
    toggle(node, "drawn", true);
  }
  node.redraw = (width) => { if (known && window.Plotly) draw(...known, width).catch((error) => console.error(error)); };
  return (race, t, pause) => {
    known = [race, t];
    clearTimeout(due);
    asked = () => {
      asked = null;
      lastDrawn = performance.now();
      draw(race, t).catch((error) => console.error(error));
    };
    const wait = Math.max(0, lastDrawn + Math.max(pause, 4 * cost) - performance.now());
    due = setTimeout(() => { if (inSight && asked) asked(); }, wait);
  };
}
