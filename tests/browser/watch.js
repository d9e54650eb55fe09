() => {
  const seen = { points: new Set(), plots: new Set(), tops: new Set(), states: new Set(), firstToken: null };
  const board = document.querySelector(".lv-board");
  let began = null;
  const look = () => {
    const state = board.dataset.state;
    if (state === "waiting") began ??= performance.now();
    if (state === "running") {
      seen.firstToken ??= performance.now() - began;
      seen.tops.add(board.querySelector(".lv-lanes").offsetTop);
    }
    const chart = board.querySelector(".lv-chart");
    if (chart.dataset.points) seen.points.add(chart.dataset.points);
    const plot = chart.querySelector(".plot-container");
    if (plot) seen.plots.add(plot);
    requestAnimationFrame(look);
  };
  look();
  // a phase may be over before the next frame
  seen.states.add(board.dataset.state);
  new MutationObserver((changes) => {
    for (const change of changes) seen.states.add(change.oldValue);
    seen.states.add(board.dataset.state);
  }).observe(board, { attributeFilter: ["data-state"], attributeOldValue: true });
  window.summary = () => ({
    points: seen.points.size, plots: seen.plots.size, tops: seen.tops.size, states: [...seen.states], firstToken: seen.firstToken,
  });
}
