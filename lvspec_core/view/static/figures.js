// Two more charts: where a round's time goes, and the relevance of every token on its threshold.

const SHARES = [["draft", "drafting", ""], ["verify", "verifying", "/"], ["other", "overhead", "."]];

function costsFigure(race, t, narrow) {
  const lanes = [...race.lanes.values()].filter((lane) => roundsAt(lane, t)).reverse();
  const costs = lanes.map((lane) => laneCosts(lane, t));
  const traces = SHARES.map(([share, label, pattern]) => ({
    type: "bar", orientation: "h", name: label,
    y: lanes.map(titleOf), x: costs.map((one) => one[share] * 1000),
    marker: { color: css(`--lv-${share}`), pattern: { shape: pattern, fillmode: "overlay", solidity: 0.25, size: 7, fgcolor: css("--lv-paper"), fgopacity: 0.7 } },
    hovertemplate: `%{x:.3~g} ms ${label}<extra>%{y}</extra>`,
  }));
  const layout = baseLayout(narrow);
  layout.margin = { l: 72, r: 64, t: 34, b: 44 };
  Object.assign(layout, { barmode: "stack", bargap: 0.4, showlegend: true, legend: { orientation: "h", traceorder: "normal", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom" } });
  Object.assign(layout.xaxis, { title: { text: "mean time of a round (ms)", standoff: 8 }, rangemode: "tozero" });
  Object.assign(layout.yaxis, { nticks: null, ticks: "", showgrid: false });
  layout.annotations = lanes.map((lane, index) => ({
    x: (costs[index].draft + costs[index].verify + costs[index].other) * 1000, y: titleOf(lane), text: secondsText(costs[index].round),
    showarrow: false, xanchor: "left", xshift: 6, font: { size: 12, color: css("--lv-ink") },
  }));
  return { traces, layout };
}

const MARKERS = { anchor: "square", exact: "circle", loose: "diamond-open", shifted: "triangle-right", own: "cross-thin-open" };

// The lane whose scores are drawn: LVSpec's decide what it accepts, the others' are only told.
function scoredLane(race) {
  const scored = [...race.lanes.values()].filter((lane) => lane.all.some((token) => typeof token.relevance === "number"));
  return scored.find((lane) => lane.name === "lvspec") || last(scored, null);
}

function relevanceFigure(race, t, narrow) {
  const lane = scoredLane(race);
  const count = lane ? (roundsAt(lane, t) ? lane.tokens[roundsAt(lane, t) - 1] : 0) : 0;
  const points = Object.fromEntries(KINDS.map((kind) => [kind, { x: [], y: [], text: [] }]));
  for (let index = 0; index < count; index += 1) {
    const token = lane.all[index];
    if (typeof token.relevance !== "number") continue;
    const list = points[kindOf(token)];
    list.x.push(index + 1);
    list.y.push(token.relevance);
    // plotly reads some markup in labels
    list.text.push((token.text.trim() || "end").slice(0, 40).replace(/&/g, "&amp;").replace(/</g, "&lt;"));
  }
  const colours = { anchor: "--k-anchor", exact: "--lv-draft", loose: "--k-loose", shifted: "--k-shifted", own: "--k-own" };
  const traces = KINDS.filter((kind) => points[kind].x.length).map((kind) => ({
    ...points[kind], name: KEY[kind][0], mode: "markers",
    marker: { color: css(colours[kind]), symbol: MARKERS[kind], size: 7, line: { width: 1.5, color: css(colours[kind]) } },
    hovertemplate: "%{text}: %{y:.2f}<extra>token %{x}</extra>",
  }));
  const layout = baseLayout(narrow);
  layout.margin = { l: 40, r: 12, t: narrow ? 10 : 34, b: 44 };
  Object.assign(layout, { showlegend: !narrow, legend: { orientation: "h", x: 1, xanchor: "right", y: 1.02, yanchor: "bottom", itemsizing: "constant" } });
  Object.assign(layout.xaxis, { title: { text: lane ? `token of ${titleOf(lane)}` : "token", standoff: 8 }, rangemode: "tozero" });
  Object.assign(layout.yaxis, { range: [-0.04, 1.04], tickvals: [0, 0.25, 0.5, 0.75, 1] });
  const threshold = thresholdOf(race);
  if (threshold !== null && threshold <= 1) {
    layout.shapes = [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: threshold, y1: threshold, line: { color: css("--lv-ink"), width: 1.5, dash: "dash" } }];
    layout.annotations = [{ xref: "paper", x: 1, y: threshold, text: `anchor from ${threshold.toFixed(2)}`, showarrow: false, xanchor: "right", yanchor: "bottom", font: { color: css("--lv-ink") }, bgcolor: css("--lv-paper"), opacity: 0.85 }];
  }
  return { traces, layout };
}
