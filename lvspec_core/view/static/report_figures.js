// The charts of a report. A run's values come worked out; here they only get their places.

const REPORT_ORDER = ["ar", "naive_sd", "specvlm", "lvspec"];
const SYMBOLS = { naive_sd: "circle-open", specvlm: "diamond", lvspec: "circle" };
const LEGEND = { orientation: "h", traceorder: "normal", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom" };
const DASHES = ["solid", "dash", "dot", "dashdot"];

const rank = (method) => (REPORT_ORDER.includes(method) ? REPORT_ORDER.indexOf(method) : REPORT_ORDER.length);
const methodsOf = (report) => [...new Set(report.runs.flatMap((run) => run.rows.map((row) => row.method)))].sort((one, other) => rank(one) - rank(other));
const colourFor = (method) => colourOf({ name: Object.hasOwn(METHODS, method) ? method : "other" });
const titleFor = (method) => (Object.hasOwn(METHODS, method) ? METHODS[method].title : plainLabel(method));
// plotly reads some markup in labels, and a file may name a thing anything
const plainLabel = (text) => ([...text].length > 28 ? [...text].slice(0, 27).join("") + "…" : text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const raced = (report) => methodsOf(report).filter((method) => method !== "ar" && report.runs.some((run) => own(run.speedups, method)));

// What the three charts share: their legend, and the axis of the speedup.
function reportLayout(narrow, bottom, xTitle) {
  const layout = baseLayout(narrow);
  layout.margin = { l: 44, r: 12, t: 36, b: bottom };
  Object.assign(layout, { showlegend: true, legend: LEGEND });
  Object.assign(layout.yaxis, { ticksuffix: "×", rangemode: "tozero" });
  if (xTitle) layout.xaxis.title = { text: xTitle, standoff: 6 };
  return layout;
}

// Instead of axes without anything: why there is nothing.
function emptied(layout, text) {
  Object.assign(layout.xaxis, { visible: false });
  Object.assign(layout.yaxis, { visible: false });
  Object.assign(layout, { shapes: [], annotations: [{ text, showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5 }] });
  return { traces: [], layout };
}

// A box for each run and method: quartiles, median, and where the middle nine tenths of the clips end.
function spreadFigure(report, _, narrow) {
  const methods = raced(report);
  const traces = methods.map((method) => {
    const runs = report.runs.map((run, place) => ({ run, place })).filter(({ run }) => own(run.speedups, method));
    const at = (index) => runs.map(({ run }) => run.speedups[method].quantiles[index]);
    return {
      type: "box", name: titleFor(method), x: runs.map(({ place }) => place),
      lowerfence: at(0), q1: at(1), median: at(2), q3: at(3), upperfence: at(4),
      fillcolor: "rgba(0,0,0,0)", line: { color: colourFor(method), width: 2 }, hoverinfo: "y+name", whiskerwidth: 0.5,
    };
  });
  const layout = reportLayout(narrow, 32);
  if (!traces.length) return emptied(layout, "No speedup is known.");
  layout.boxmode = "group";
  Object.assign(layout.xaxis, { tickvals: report.runs.map((_run, place) => place), ticktext: report.runs.map((run) => plainLabel(run.name)), range: [-0.5, report.runs.length - 0.5] });
  if (report.runs.length > (narrow ? 2 : 4)) {
    // upright names, in a place of their own; slanting, the first one would not fit and be left out
    layout.height += 140;
    layout.margin.b += 140;
    Object.assign(layout.xaxis, { tickangle: -90 });
  }
  layout.yaxis.hoverformat = ".2f";
  layout.shapes = [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: 1, y1: 1, line: { color: css("--lane-ar"), width: 1.5, dash: "dash" } }];
  return { traces, layout };
}

// A dot for each clip: what its rounds brought, and how fast it was.
function clipsFigure(run, _, narrow) {
  const methods = Object.keys(run.points).filter((method) => run.points[method].length).sort((one, other) => rank(one) - rank(other));
  const traces = methods.map((method) => ({
    type: "scatter", mode: "markers", name: titleFor(method),
    x: run.points[method].map((point) => point[0]), y: run.points[method].map((point) => point[1]),
    text: run.points[method].map((point) => plainLabel(point[2])), customdata: run.points[method].map((point) => point[3]),
    marker: { color: colourFor(method), symbol: own(SYMBOLS, method) || "x", size: 7, opacity: 0.75 },
    hovertemplate: "%{text}: %{y:.2f}× at %{x:.2f} tokens a round<extra>%{fullData.name}</extra>",
  }));
  const layout = reportLayout(narrow, 48, "tokens a round (mean accepted length)");
  return traces.length ? { traces, layout } : emptied(layout, "No speedup of a clip is known.");
}

// Runs that differ in frames alone, or in pair and frames: a line for each pair and method.
function framesFigure(report, _, narrow) {
  const pairs = [...new Set(report.runs.filter((run) => run.frames).map((run) => run.pair))];
  const traces = [];
  for (const [place, pair] of pairs.entries()) {
    for (const method of raced(report)) {
      const runs = report.runs.filter((run) => run.pair === pair && run.frames && own(run.speedups, method)).sort((one, other) => one.frames - other.frames);
      if (!runs.length) continue;
      traces.push({
        type: "scatter", mode: "lines+markers", name: pairs.length > 1 ? `${titleFor(method)}, ${plainLabel(pair || "unknown pair")}` : titleFor(method),
        x: runs.map((run) => run.frames), y: runs.map((run) => run.speedups[method].quantiles[2]),
        line: { color: colourFor(method), dash: DASHES[place % DASHES.length] }, marker: { symbol: own(SYMBOLS, method) || "x", size: 8 },
        hovertemplate: "%{y:.2f}× at %{x} frames<extra>%{fullData.name}</extra>",
      });
    }
  }
  return { traces, layout: reportLayout(narrow, 48, "frames") };
}
