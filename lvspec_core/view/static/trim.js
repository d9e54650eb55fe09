// Gradio's player fetches ffmpeg, 32 MB, as soon as it shows a clip, to trim it by. Here it waits until somebody asks to trim.
// Runs from the page's head, as it has to be there before the player.
(() => {
  if (window.lvspecTrim) return;
  const fetchNow = window.fetch.bind(window);
  let release = null; // lets the player that is on the page fetch what it waits for; one that is gone waits for ever
  let pressed = null; // the button Trim, pressed before ffmpeg was there
  let ready = false;
  window.fetch = (...given) => {
    const address = String(given[0]?.url ?? given[0]);
    if (!address.endsWith("/static/ffmpeg/ffmpeg-core.js")) return fetchNow(...given);
    ready = false;
    return new Promise((resolve) => { release = () => resolve(fetchNow(...given)); });
  };
  // ffmpeg runs in a worker, which says when it is loaded
  window.Worker = class extends window.Worker {
    constructor(...given) {
      super(...given);
      this.addEventListener("message", ({ data }) => {
        if (data?.type !== "LOAD") return;
        ready = true;
        // the player hears of it in this turn, too
        if (pressed) setTimeout((button) => { button.disabled = false; button.click(); }, 100, pressed);
        pressed = null;
      });
    }
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("#video button");
    if (button?.getAttribute("aria-label") === "Trim video to selection") {
      release?.();
      release = null;
    } else if (button?.textContent.trim() === "Trim" && !ready) {
      event.stopPropagation();
      button.disabled = true;
      pressed = button;
    }
  }, true);
  window.lvspecTrim = true;
})();
