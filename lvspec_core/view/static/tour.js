// A tour of six steps over a recorded race. Nothing is covered: the page stays usable, and Escape ends it.

const TOUR_KEY = "lvspec-tour";
const TOUR = [
  ["#race", "One video, one question, several ways to write the answer", "Pick a sample or drop a clip, and press Race. Here you see a recorded race, so nothing has to load."],
  [".lv-lane[data-lane=lvspec] .lv-head, .lv-lane .lv-head", "Each lane is a method", "A small draft model guesses a few words ahead; the large target checks them all in one pass. The big figure says how many times as fast as AR, the target alone, that was."],
  [".lv-lane[data-lane=lvspec] .lv-keys, .lv-lane.open .lv-keys", "How a word got in", "Words about the video (anchors, underlined) must be exactly the target’s own. Other words (fillers) may be accepted loosely by LVSpec. Rest on a word, or focus a text and use the arrow keys, to see why it stands there."],
  [".lv-replay", "Slow motion", "The race again at a fraction of its speed, all lanes on the same clock. Guesses show in grey, rejected ones struck out."],
  [".lv-compare:not([hidden]), .lv-charts", "What the speed costs", "LVSpec’s text may leave AR’s. Every place is shown here, and whether it states another fact or only words the same differently."],
  [".lv-whatif:not([hidden]), .lv-table-section", "What if", "With the costs that this race measured, the formula says what other draft lengths, acceptance rates or hardware would bring. Now race a clip of your own."],
];

const remembered = {
  get: () => { try { return localStorage.getItem(TOUR_KEY); } catch { return "seen"; } },
  set: () => { try { localStorage.setItem(TOUR_KEY, "seen"); } catch { /* a page that may not remember asks again */ } },
};

function buildTour(opener, invite) {
  let step = -1;
  let spot = null;
  const count = h("p", { class: "lv-tour-count" });
  const title = h("h2", { id: "lv-tour-title", tabindex: -1 });
  const text = h("p", { id: "lv-tour-text" });
  const back = h("button", { class: "lv-button", type: "button", onclick: () => go(step - 1) }, "Back");
  const next = h("button", { class: "lv-button lv-primary", type: "button", onclick: () => (step === TOUR.length - 1 ? end() : go(step + 1)) });
  const skip = h("button", { class: "lv-button", type: "button", onclick: () => end() }, "Skip");
  const card = h("div", { class: "lv-tour-card", role: "dialog", "aria-modal": "false", "aria-labelledby": "lv-tour-title", "aria-describedby": "lv-tour-text", hidden: true },
    count, title, text, h("div", { class: "lv-row" }, skip, back, next));
  document.body.append(card);

  function go(place) {
    step = place;
    spot?.classList.remove("lv-tour-spot");
    const [where, headline, words] = TOUR[step];
    spot = where.split(", ").map((selector) => document.querySelector(selector)).find((node) => node && node.offsetParent) || null;
    setText(count, `Step ${step + 1} of ${TOUR.length}`);
    setText(title, headline);
    setText(text, words);
    setText(next, step === TOUR.length - 1 ? "Done" : "Next");
    show(skip, step < TOUR.length - 1);
    back.disabled = step === 0;
    card.hidden = false;
    if (spot) {
      spot.classList.add("lv-tour-spot");
      spot.scrollIntoView({ block: "center", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
    }
    // a screen reader hears the step; Tab goes on to its buttons
    title.focus({ preventScroll: true });
  }
  function end() {
    spot?.classList.remove("lv-tour-spot");
    card.hidden = true;
    step = -1;
    remembered.set();
    show(invite, false);
    opener.focus();
  }
  // A race that stands on the board stays; else a recorded one opens.
  async function start() {
    const done = () => document.querySelector(".lv-board[data-state=finished]");
    if (!done() && document.documentElement.dataset.race !== "on") window.lvspecExample?.();
    for (let tries = 0; tries < 60 && !done(); tries += 1) await new Promise((wait) => setTimeout(wait, 50));
    go(0);
  }
  document.addEventListener("keydown", (event) => {
    if (step < 0) return;
    if (event.key === "Escape") end();
  });
  opener.addEventListener("click", start);
  invite.addEventListener("click", start);
  show(invite, !remembered.get());
}

buildTour(element.querySelector(".lv-tour"), element.querySelector(".lv-invite"));
