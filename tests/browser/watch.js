() => {
  const seen = { points: new Set(), plots: new Set(), tops: new Set(), firstToken: null };
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
  window.summary = () => ({
    points: seen.points.size, plots: seen.plots.size, tops: seen.tops.size, firstToken: seen.firstToken,
  });
}
