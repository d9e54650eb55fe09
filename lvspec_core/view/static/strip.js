// The film strip: the frames that the models will see, with their times.

const strip = element.querySelector(".lv-strip");

function clock(seconds) {
  const minutes = Math.floor(seconds / 60);
  const rest = (seconds - minutes * 60).toFixed(minutes ? 0 : 1);
  return minutes ? `${minutes}:${rest.padStart(2, "0")}` : `${rest} s`;
}

function drawStrip() {
  const value = props.value || { state: "empty" };
  strip.dataset.state = value.state;
  if (value.state === "ready") {
    const video = value.video;
    const size = `${video.width} × ${video.height}`;
    strip.replaceChildren(
      h("p", { class: "lv-strip-say" }, h("b", {}, video.name), ` ${clock(video.seconds)} · ${size} · `,
        value.frames.length === 1 ? "the one frame that the next race will see" : `the ${value.frames.length} frames that the next race will see`,
        unplayable() ? " · this browser cannot play the file, but the models can read it" : ""),
      h("ol", { class: "lv-frames", tabindex: 0, "aria-label": "Sampled frames" }, ...value.frames.map((frame) =>
        h("li", {}, h("img", { src: /^data:image\//.test(frame.image) ? frame.image : "", alt: `Frame at ${clock(frame.time)}`, height: 72 }), h("span", {}, clock(frame.time))))));
    return;
  }
  const say = { empty: "The frames that the models will see appear here.", reading: "Reading the video …", failed: value.message }[value.state];
  strip.replaceChildren(h("p", { class: "lv-strip-say" }, say || ""));
}

// Gradio raises an error where the browser cannot play a file. The models may well read it (HEVC from phones), so the strip
// says that instead.
const notices = document.querySelector(".toast-wrap");
if (notices) {
  new MutationObserver(() => {
    for (const notice of notices.children) {
      if (!notice.textContent.includes("Video not playable") || notice.style.display === "none") continue;
      notice.style.display = "none";
      drawStrip();
    }
  }).observe(notices, { childList: true, subtree: true });
}

function unplayable() {
  const player = document.querySelector("#video video");
  return Boolean(player && player.error);
}

watch("value", drawStrip);
drawStrip();
