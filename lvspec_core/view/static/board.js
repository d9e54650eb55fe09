// The board: takes what is new of a race from the component's value and draws it in place.

const board = element.querySelector(".lv-board");
const page = { race: newRace(null), state: "empty", message: "", t: null, open: "lvspec", order: "", records: [], compare: null, charted: "", queue: null, watching: false, offered: "", asked: false };
const lanes = new Map();

const headline = h("p", { class: "lv-headline" });
// what a screen reader says: the state when it changes, not every figure
const announcement = h("p", { class: "lv-unseen", role: "status" });
const detail = h("p", { class: "lv-detail" });
const bar = h("div", { class: "lv-bar", role: "progressbar", "aria-label": "Prefill", "aria-valuemin": 0, "aria-valuemax": 100 }, h("span"));
const meanwhile = h("button", { class: "lv-link lv-meanwhile", type: "button", hidden: true, onclick: () => askExample() }, "Watch a recorded race meanwhile");
const replay = buildReplay((t) => { page.t = t; schedule(); });
const lanesNode = h("div", { class: "lv-lanes" });
const chartNode = h("div", { class: "lv-chart", role: "img", "aria-label": "Speedup against AR over own decoding time" });
const drawSpeedup = buildChart(chartNode, props.plotly, speedupFigure);
const roundsNode = h("div", { class: "lv-chart", role: "img", "aria-label": "Tokens written per round" });
const drawRounds = buildChart(roundsNode, props.plotly, roundsFigure);
const costsNode = h("div", { class: "lv-chart", role: "img", "aria-label": "Mean time of a round, split into drafting, verifying and overhead", "data-empty": "Each round’s time counts here." });
const drawCosts = buildChart(costsNode, props.plotly, costsFigure);
const relevanceNode = h("div", { class: "lv-chart", role: "img", "aria-label": "Relevance of every token to the video", "data-empty": "The scores of the words appear here." });
const drawRelevance = buildChart(relevanceNode, props.plotly, relevanceFigure);
const charts = h("div", { class: "lv-charts" },
  h("section", { class: "lv-section" }, h("h3", {}, "Speedup against AR over own time"),
    h("p", { class: "lv-note" }, "Tokens a lane has at a moment of its own clock ÷ tokens AR has at that moment."), chartNode),
  h("section", { class: "lv-section" }, h("h3", {}, "What a round brings"),
    h("p", { class: "lv-note" }, "A round is one pass of the target. AR’s rounds always write one token."), roundsNode),
  h("section", { class: "lv-section" }, h("h3", {}, "How relevant each token is to the video"),
    h("p", { class: "lv-note" }, "Tokens on or above the line are anchors and must match exactly; those below are fillers."), relevanceNode),
  h("section", { class: "lv-section" }, h("h3", {}, "Where a round’s time goes"),
    h("p", { class: "lv-note" }, "Overhead: the rules of acceptance and the caches, everything beside the two models."), costsNode));
const table = h("table", { class: "lv-table" });
const tableSection = h("section", { class: "lv-section lv-table-section", hidden: true }, h("h3", {}, "The race in numbers"), h("div", { class: "lv-scroll" }, table));
const steps = buildSteps((moment) => replay.go(moment));
replay.root.prepend(steps.button);
const compare = buildCompare();
const whatIf = buildWhatIf(props.plotly);
const share = buildShare(props.share || null, () => ({ start: page.race.start, name: page.race.start.video.name, value: feedOf(page) }));
const history = buildHistory(reopen);
board.replaceChildren(h("div", { class: "lv-status" }, h("div", { class: "lv-say" }, headline, detail, meanwhile, bar, announcement), replay.root), steps.root, lanesNode, charts, compare.root, whatIf.root, tableSection, share.root, history.root);
buildTips(board);
const inspector = buildInspector(board, (name) => ({ race: page.race, lane: page.race.lanes.get(name) }));

function laneNames() {
  const named = [...page.race.lanes.keys()];
  return named.length ? named : Object.keys(METHODS);
}

// Builds the lanes anew when a race with other methods begins; otherwise they stay where they are.
function arrange() {
  const names = laneNames();
  if (!names.includes(page.open)) page.open = names[names.length - 1];
  if (page.order !== names.join()) {
    page.order = names.join();
    lanes.clear();
    for (const name of names) lanes.set(name, buildLane(name, (picked) => { page.open = picked; arrange(); }));
    lanesNode.replaceChildren(...[...lanes.values()].map((dom) => dom.root));
    lanesNode.style.setProperty("--lanes", names.length);
  }
  for (const [name, dom] of lanes) {
    toggle(dom.root, "open", name === page.open);
    setAttribute(dom.pick, "aria-expanded", String(name === page.open));
  }
}

function phase() {
  if (page.queue) return "waiting";
  if (page.state !== "running") return page.state;
  return [...page.race.lanes.values()].some((lane) => lane.rounds.length) ? "running" : "prefill";
}

const words = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

function say(now, figures) {
  const best = [...figures].filter(([name, each]) => name !== "ar" && each.decode).sort((one, other) => other[1].decode - one[1].decode)[0];
  const title = best ? methodOf(best[0]).title : "";
  const prefill = prefillText();
  const lines = {
    empty: ["Pick a clip or drop a video, then press Race.", "The same video and question go to all lanes; each writes the answer its own way, on a clock of its own."],
    waiting: page.queue ? queueLines() : ["Starting …", page.message || "Reading the video and waking the models."],
    prefill: ["Prefill: the models read the video and the question.", prefill || "Reading the video …"],
    running: [best ? `${title} ${best[1].decode >= 1.02 ? "leads with" : "is at"} ${digits(best[1].decode, "×")}` : "Racing", prefill],
    stopped: page.stopped ? ["Stopped. What was written so far is kept.", prefill] : ["Stopped before anything was written.", "Race starts it again."],
    failed: [page.message || "The race failed.", "Nothing else is lost: change the input or the settings and race again."],
    finished: finishLines(best, title, figures, prefill),
  }[now];
  setText(headline, lines[0]);
  if (board.dataset.said !== now) setText(announcement, lines[0]);
  board.dataset.said = now;
  setText(detail, lines[1] || " ");
  const parts = page.race.prefill.map((part) => `${part.part}: ${secondsText(part.seconds)}`).join("\n");
  if (parts) setAttribute(detail, "data-tip", parts);
  else detail.removeAttribute("data-tip");
}

function queueLines() {
  const meantime = `Meanwhile a recorded race, of ${page.race.start?.video.name}. Yours takes its place when its turn comes.`;
  const plain = "Races run one at a time, so that no lane takes another’s time. Yours starts by itself.";
  return [`Waiting: ${words(page.queue.place, "race")} before yours.`, page.watching ? meantime : plain];
}

// The prefill by model; its parts are the detail's tip.
function prefillText() {
  const sums = new Map();
  for (const part of page.race.prefill) {
    const model = part.part.split(" · ").pop();
    sums.set(model, (sums.get(model) || 0) + part.seconds);
  }
  const list = [...sums].map(([model, seconds]) => `${model} ${secondsText(seconds)}`);
  const strict = page.race.start?.pair.strict_notice || "";
  // another clip may be chosen while a race runs, and the board stays with its own
  return list.length && page.race.start ? `${page.race.start.video.name} · Prefill: ${list.join(", ")}${strict ? `. ${strict}` : ""}` : "";
}

function finishLines(best, title, figures, prefill) {
  const ar = figures.get("ar");
  if (!best || !ar || !ar.rate) return ["Finished.", prefill];
  const one = best[1];
  const free = page.race.lanes.get(best[0]).all.filter((token) => token.verdict === "loose" || token.verdict === "shifted").length;
  const gift = free ? ` ${free} of its ${one.tokens} tokens came for free.` : "";
  return [`${title} was ${digits(one.decode, "×")} as fast as AR.${gift}`, prefill];
}

function drawBar(now) {
  const part = last(page.race.prefill, null);
  const share = part ? Math.round((part.done / part.total) * 100) : 0;
  show(bar, (now === "prefill" || now === "waiting") && !page.watching);
  toggle(bar, "unknown", !part);
  bar.firstChild.style.width = part ? `${share}%` : "";
  if (part) setAttribute(bar, "aria-valuenow", String(share));
  else bar.removeAttribute("aria-valuenow");
}

const ROWS = [
  ["Decoding speedup", DECODE_TIP, (one) => digits(one.decode, "×"), "most"],
  ["End-to-end speedup", FIGURES[1][2], (one) => digits(one.total, "×"), "most"],
  ["Tokens per second", FIGURES[0][2], (one) => digits(one.rate), "most"],
  ["Tokens", FIGURES[5][2], (one) => one.tokens],
  ["Rounds", FIGURES[4][2], (one) => one.rounds],
  ["Tokens per round", FIGURES[2][2], (one) => digits(one.perRound), "most"],
  ["Guesses accepted", FIGURES[3][2], (one) => percent(one.acceptance)],
  ["Prefill", "Seconds until the first token could be written: the parts of the prefill that this lane needs.", (one) => secondsText(one.prefill)],
  ["Decoding", "Seconds on this lane's own clock.", (one) => secondsText(one.seconds)],
  ["Text against AR", "Token ids compared with AR's: the same from first to last, or different from this token on; “rounding”: two words equally probable to the target but for rounding.", (one, name) => (name === "ar" || one.same === null ? "–" : one.same ? "same" : `≠ at ${one.differsAt + 1}${one.nearTie ? " (rounding)" : ""}`)],
];

function drawTable(figures) {
  const names = [...figures.keys()];
  const ends = new Map(names.map((name) => [name, figures.get(name)]));
  const head = h("tr", {}, h("td"), ...names.map((name) => h("th", { scope: "col", class: `lane-${Object.hasOwn(METHODS, name) ? name : "other"}` }, methodOf(name).title)));
  const rows = ROWS.map(([label, tip, value, best]) => {
    const cells = names.map((name) => String(name === "ar" && label.includes("speedup") ? "1.00×" : value(ends.get(name), name)));
    const numbers = cells.map((cell) => parseFloat(cell));
    const top = best ? Math.max(...numbers.filter((number) => !isNaN(number))) : null;
    return h("tr", {}, h("th", { scope: "row", "data-tip": tip, tabindex: 0 }, label), ...cells.map((cell, index) => h("td", { class: best && numbers[index] === top ? "best" : null }, cell)));
  });
  const kinds = KINDS.map((kind) => h("tr", { class: kind === KINDS[0] ? "first-kind" : null },
    h("th", { scope: "row", "data-tip": KEY[kind][1], tabindex: 0 }, h("span", { class: `lv-swatch tk k-${kind}${kind === "anchor" ? " anchor" : ""}`, "aria-hidden": "true" }, "Ab"), KEY[kind][0]),
    ...names.map((name) => h("td", {}, String(countsAt(page.race.lanes.get(name), null)[kind])))));
  table.replaceChildren(h("thead", {}, head), h("tbody", {}, ...rows, ...kinds));
}

function drawCharts(over) {
  const race = page.race;
  const running = raceSeconds(race) > 0;
  const pause = over ? 80 : 250;
  setAttribute(chartNode, "data-empty", race.lanes.size && !race.lanes.has("ar") ? "Tick AR to see speedups: it is what the others are measured against." : "The curves appear as the lanes write.");
  setAttribute(roundsNode, "data-empty", "Each round counts here.");
  if ((race.lanes.has("ar") && running) || chartNode.classList.contains("drawn")) drawSpeedup(race, page.t, pause);
  if (running || roundsNode.classList.contains("drawn")) drawRounds(race, page.t, pause * 2);
  // these two are of the whole race: a replay leaves them alone
  const now = [race.id, race.known, document.body.classList.contains("dark")].join();
  if (now === page.charted) return;
  page.charted = now;
  if (running || costsNode.classList.contains("drawn")) drawCosts(race, null, pause * 2);
  if (running || relevanceNode.classList.contains("drawn")) drawRelevance(race, null, pause * 2);
  whatIf.redraw();
}

// A race in progress may be drawn a third of the time at most: however long its text grows, a click on Stop is heard at once.
let scheduled = false;
let rest = 0;
function schedule() {
  if (scheduled) return;
  scheduled = true;
  if (rest > 16 && page.state === "running") setTimeout(() => requestAnimationFrame(drawNow), rest);
  else requestAnimationFrame(drawNow);
}

function drawNow() {
  scheduled = false;
  const began = performance.now();
  draw();
  rest = phase() === "running" ? 2 * (performance.now() - began) : 0;
}

function draw() {
  arrange();
  const now = phase();
  const race = page.race;
  const scale = { seconds: raceSeconds(race) || 1, tokens: raceTokens(race) };
  const figures = new Map();
  for (const dom of lanes.values()) noteScroll(dom);
  for (const dom of lanes.values()) holdRoom(dom, page.t !== null);
  for (const [name, dom] of lanes) figures.set(name, drawLane(dom, race, race.lanes.get(name) || laneOf(newRace(null), name), page.t, scale));
  for (const dom of lanes.values()) settleScroll(dom);
  setAttribute(board, "data-state", now);
  toggle(board, "stale", Boolean(page.stale));
  document.documentElement.dataset.race = ["waiting", "prefill", "running"].includes(now) ? "on" : "off";
  const over = page.watching || ["finished", "stopped"].includes(now) || (now === "failed" && raceSeconds(race) > 0);
  if (page.t === null || page.queue || board.dataset.said !== now) say(now, figures);
  show(meanwhile, Boolean(page.queue && !page.watching && window.lvspecExample));
  drawBar(now);
  replay.offer(over ? raceSeconds(race) : 0);
  show(tableSection, over && raceSeconds(race) > 0);
  if (over && raceSeconds(race) > 0 && page.t === null) drawTable(figures);
  drawCharts(over);
  steps.offer(race, over);
  steps.mark(lanes);
  inspector.refresh(race, [...lanes.values()].map((dom) => dom.text));
  const whole = over && raceSeconds(race) > 0;
  compare.draw(whole ? page.compare : null);
  whatIf.draw(whole ? race : null);
  share.draw(whole);
}

// The race on the board as one value, as a saved race would come from the server.
function feedOf({ race, state, message, compare: compared, records }) {
  return { race: race.id, at: 0, state, message, place: 0, records, compare: compared };
}

// A race of this tab once more; not while another one takes the board.
function reopen(entry) {
  if (document.documentElement.dataset.race === "on" && !page.queue) return false;
  page.asked = false;
  receiveFeed({ race: entry.id, at: 0, message: "", place: 0, recorded: true, ...JSON.parse(entry.text) });
  return true;
}

function receive(value) {
  if (!value) return;
  receiveFeed(JSON.parse(value[0]));
}

// Asks the server for a recorded race to watch while another one waits.
function askExample() {
  if (!window.lvspecExample) return;
  page.asked = true;
  window.lvspecExample();
}

// While a visitor waits in the queue a recorded race may stand on the board. True where there is nothing else to do with the feed.
function queued(feed) {
  // the one to watch meanwhile may come when the place in the queue has been given up, or the race has begun
  const late = page.asked || ["waiting", "running"].includes(page.state);
  if (feed.recorded) page.asked = false;
  if (feed.recorded && !page.queue && late) return true;
  const inQueue = feed.state === "waiting" && feed.place > 0;
  if (inQueue) page.queue = { race: feed.race, place: feed.place };
  else if (!feed.recorded) page.queue = null;
  if (inQueue && page.watching) {
    schedule();
    return true;
  }
  page.watching = Boolean(page.queue && feed.recorded);
  // an empty board is filled at once, and once
  if (inQueue && page.offered !== feed.race && !raceSeconds(page.race)) {
    page.offered = feed.race;
    setTimeout(() => { if (page.queue && !page.watching) askExample(); });
  }
  return false;
}

function receiveFeed(feed) {
  if (queued(feed)) return;
  // what stands on the board stays until the new race has something to show
  if (feed.race !== page.race.id && feed.records.length) {
    page.race = newRace(feed.race);
    Object.assign(page, { t: null, records: [], compare: null });
  }
  board.dataset.shown = page.race.id || "";
  page.state = feed.state;
  page.message = feed.message || "";
  page.stale = feed.race !== page.race.id && (page.state === "waiting" || page.state === "running");
  if (feed.records.length) {
    for (const record of feed.records.slice(Math.max(0, page.race.known - feed.at))) page.records.push(record);
    takeRecords(page.race, feed.at, feed.records);
  }
  if (feed.race === page.race.id && feed.compare) page.compare = feed.compare;
  remember(feed);
  page.stopped = feed.race === page.race.id && raceSeconds(page.race) > 0;
  // a phase is seen even if it is over before the next frame
  if (phase() === board.dataset.state) schedule();
  else drawNow();
  if (page.watching && page.offered === page.queue.race && !window.matchMedia("(prefers-reduced-motion: reduce)").matches) {
    drawNow();
    replay.play();
  }
}

// Once a race is over it can be opened again; the text of a long one is made when the page has time for it.
function remember(feed) {
  if (!props.share || ["waiting", "running"].includes(feed.state) || feed.race !== page.race.id || !raceSeconds(page.race) || history.has(feed.race)) return;
  const { race, state, message, compare: compared, records } = page;
  (window.requestIdleCallback || setTimeout)(() => { if (!history.has(race.id)) history.add(historyEntry(race, state, compared, message, records)); });
}

// The page answers a click on Race at once; the server's first word follows.
window.lvspecStarting = () => {
  Object.assign(page, { state: "waiting", message: "", t: null, stale: true, queue: null, watching: false, asked: false });
  schedule();
  const top = board.getBoundingClientRect().top;
  if (top > window.innerHeight * 0.55 || top < 0) board.scrollIntoView({ behavior: "smooth", block: "start" });
};

if (props.share) takeDrops();
watch("value", () => receive(props.value));
for (const root of [document.documentElement, document.body]) {
  new MutationObserver(schedule).observe(root, { attributes: true, attributeFilter: ["class"] });
}
receive(props.value);
draw();
setTimeout(() => warmUp(props.plotly).catch((error) => console.error(error)), 1500);
