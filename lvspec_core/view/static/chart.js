// The live chart: speedup against AR over own time, drawn in place by plotly.js.

const LINES = {
  ar: { dash: "dash", width: 1.5 },
  naive_sd: { dash: "dot", width: 2 },
  specvlm: { dash: "dashdot", width: 2 },
  lvspec: { dash: "solid", width: 3 },
};

function loadScript(url) {
  return new Promise((resolve, reject) => {
    document.head.append(h("script", { src: url, async: true, onload: resolve, onerror: () => reject(new Error(`cannot load ${url}`)) }));
  });
}

function css(name) {
  return getComputedStyle(document.querySelector(".lv-board")).getPropertyValue(name).trim();
}

function chartFigure(race, t, narrow) {
  const lanes = [...race.lanes.values()];
  const ink = css("--lv-muted");
  const drawn = lanes.map((lane) => ({ lane, curve: speedupCurve(race, lane, t) }));
  const highest = Math.max(1.5, ...drawn.flatMap(({ curve }) => curve.y));
  const traces = drawn.map(({ lane, curve }) => ({
    x: lane.name === "ar" && curve.x.length ? [0, last(curve.x, 0)] : curve.x,
    y: lane.name === "ar" && curve.x.length ? [1, 1] : curve.y,
    name: (METHODS[lane.name] || { title: "other" }).title,
    mode: "lines",
    line: { ...(LINES[lane.name] || LINES.naive_sd), color: css(`--lane-${lane.name}`) || ink },
    hovertemplate: "%{y:.2f}× after %{x:.3~f} s<extra>%{fullData.name}</extra>",
  }));
  return {
    traces,
    layout: {
      margin: { l: 44, r: narrow ? 66 : 76, t: 12, b: 44 },
      height: narrow ? 240 : 290,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: css("--lv-font"), size: 12, color: ink },
      showlegend: false,
      hovermode: "closest",
      hoverlabel: { bgcolor: css("--lv-paper"), bordercolor: css("--lv-rule"), font: { color: css("--lv-ink") } },
      xaxis: { title: { text: "own decoding time (s)", standoff: 8 }, range: [0, Math.max(0.05, raceSeconds(race)) * 1.01], showgrid: false, zeroline: false, ticks: "outside", ticklen: 4, tickcolor: css("--lv-rule"), fixedrange: true },
      yaxis: { range: [0, highest * 1.08], gridcolor: css("--lv-rule"), zeroline: false, ticksuffix: "×", nticks: 6, fixedrange: true },
      annotations: endLabels(drawn, highest),
    },
  };
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
    const title = (METHODS[lane.name] || { title: "other" }).title;
    return { x, y, text: title, showarrow: false, xanchor: "left", xshift: 6, yshift: height - y * pixels, font: { size: 12, color: css(`--lane-${lane.name}`) || css("--lv-muted") } };
  });
}

// Draws at most every `pause` ms: the chart must not take from the lanes the cores that they need.
function buildChart(node, url) {
  let loading = null;
  let due = null;
  let lastDrawn = 0;
  async function draw(race, t) {
    if (!window.Plotly) {
      loading ||= loadScript(url).catch((error) => { loading = null; throw error; });
      await loading;
    }
    const narrow = node.clientWidth < 520;
    const { traces, layout } = chartFigure(race, t, narrow);
    await window.Plotly.react(node, traces, layout, { displayModeBar: false, responsive: true });
    setAttribute(node, "data-points", String(traces.reduce((sum, trace) => sum + trace.x.length, 0)));
    toggle(node, "drawn", true);
  }
  return {
    preload: () => { if (!window.Plotly) loading ||= loadScript(url).catch(() => { loading = null; }); },
    draw: (race, t, pause) => {
      clearTimeout(due);
      const wait = Math.max(0, lastDrawn + pause - performance.now());
      due = setTimeout(() => {
        lastDrawn = performance.now();
        draw(race, t).catch((error) => console.error(error));
      }, wait);
    },
  };
}
