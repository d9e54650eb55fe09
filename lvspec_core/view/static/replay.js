// The finished race once more, in slow motion: all lanes at the same moment of their own clocks, so the real ratios hold.

const SPEEDS = [[1, "1×"], [1 / 4, "1/4×"], [1 / 10, "1/10×"], [1 / 30, "1/30×"]];

function buildReplay(onMoment) {
  let total = 0;
  let t = null;
  let frame = null;
  let before = 0;
  const play = h("button", { class: "lv-button lv-play", type: "button", onclick: () => (frame ? pause() : start()) }, "Slow motion");
  const slider = h("input", { class: "lv-slider", type: "range", min: 0, max: 1000, value: 1000, "aria-label": "Moment of the race", oninput: () => seek(slider.value / 1000) });
  const moment = h("output", { class: "lv-moment" });
  const speed = h("select", { class: "lv-select", "aria-label": "Replay speed" }, ...SPEEDS.map(([value, label]) => h("option", { value }, label)));
  const root = h("div", { class: "lv-replay", hidden: true }, play, slider, moment, speed);

  function label() {
    setText(play, frame ? "Pause" : t !== null && t < total ? "Go on" : "Slow motion");
    setText(moment, secondsText(t === null ? total : t));
  }
  function moveTo(value) {
    t = value >= total ? null : value;
    slider.value = String(total ? Math.round(((t === null ? total : t) / total) * 1000) : 1000);
    onMoment(t);
    label();
  }
  function tick(now) {
    const next = (t || 0) + ((now - before) / 1000) * Number(speed.value);
    before = now;
    frame = next >= total ? null : requestAnimationFrame(tick);
    moveTo(next);
  }
  function start() {
    if (t === null) t = 0;
    before = performance.now();
    frame = requestAnimationFrame(tick);
    label();
  }
  function pause() {
    cancelAnimationFrame(frame);
    frame = null;
    label();
  }
  function seek(share) {
    pause();
    moveTo(share * total);
  }
  return {
    root,
    // Goes to a moment and stays there; null: to the end.
    go: (moment) => {
      pause();
      moveTo(moment === null ? total : moment);
    },
    play: () => { if (!frame && total) start(); },
    // Shows the controls for a race of so many seconds; hides them at 0.
    offer: (seconds) => {
      if (seconds === total && root.hidden === !seconds) return;
      pause();
      total = seconds;
      if (t !== null) onMoment(null);
      t = null;
      // the whole replay in about ten seconds, whatever the race took
      speed.value = String(SPEEDS.reduce((best, [value]) => (Math.abs(Math.log(seconds / value / 10)) < Math.abs(Math.log(seconds / best / 10)) ? value : best), 1));
      slider.value = "1000";
      root.hidden = !seconds;
      label();
    },
  };
}
