// The race as the page knows it: records folded into lanes, and questions about any moment of the lanes' own clocks.
// A moment `t` is in seconds of own decode time; null means "everything that has arrived".

const METHODS = {
  ar: { title: "AR", line: "The target alone, one word per pass" },
  naive_sd: { title: "naive SD", line: "A draft guesses ahead, the target checks" },
  specvlm: { title: "SpecVLM", line: "The draft sees a pruned video" },
  lvspec: { title: "LVSpec", line: "Only the words about the video must match" },
};

// A lane's title and line; a file may name lanes that nobody knows.
function methodOf(name) {
  return Object.hasOwn(METHODS, name) ? METHODS[name] : { title: name, line: "" };
}

// How a token entered a lane, as the five kinds of the key. Every token is of exactly one kind.
const KINDS = ["anchor", "exact", "loose", "shifted", "own"];

function kindOf(token) {
  if (token.verdict === "exact") return token.anchor ? "anchor" : "exact";
  if (token.verdict === "loose" || token.verdict === "shifted") return token.verdict;
  return "own";
}

function newRace(id) {
  return { id, start: null, prefill: [], lanes: new Map(), end: null, known: 0 };
}

function laneOf(race, name) {
  if (!race.lanes.has(name)) {
    race.lanes.set(name, { name, rounds: [], seconds: [], tokens: [], proposed: [], accepted: [], ids: [], all: [], end: null, sight: null, evidence: null });
  }
  return race.lanes.get(name);
}

const lanesOf = (race, record) => record.lanes.flatMap((name) => race.lanes.get(name) || []);

function last(list, otherwise) {
  return list.length ? list[list.length - 1] : otherwise;
}

// Adds the records from number `at` on; those already known are left out, so that a batch may arrive twice.
function takeRecords(race, at, records) {
  if (at > race.known) console.error(`records ${race.known} to ${at} of the race are missing`);
  for (const record of records.slice(Math.max(0, race.known - at))) {
    if (record.type === "start") {
      race.start = record;
      for (const method of record.settings.methods) laneOf(race, method);
    } else if (record.type === "prefill") {
      race.prefill.push(record);
      if (record.grid) for (const lane of lanesOf(race, record)) lane.sight = { grid: record.grid, kept: record.kept };
    } else if (record.type === "evidence") for (const lane of lanesOf(race, record)) lane.evidence = record;
    else if (record.type === "round") takeRound(laneOf(race, record.lane), record);
    else if (record.type === "lane") laneOf(race, record.lane).end = record;
    else if (record.type === "end") race.end = record;
  }
  race.known = Math.max(race.known, at + records.length);
}

function takeRound(lane, round) {
  lane.rounds.push(round);
  lane.seconds.push(round.seconds);
  lane.tokens.push(last(lane.tokens, 0) + round.tokens.length);
  lane.proposed.push(last(lane.proposed, 0) + round.proposed.length);
  lane.accepted.push(last(lane.accepted, 0) + round.accepted);
  for (const token of round.tokens) {
    lane.ids.push(token.id);
    lane.all.push(token);
  }
}

// How many of the lane's rounds were over at `t`.
function roundsAt(lane, t) {
  if (t === null) return lane.rounds.length;
  let low = 0;
  let high = lane.seconds.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane.seconds[middle] <= t + 1e-9) low = middle + 1;
    else high = middle;
  }
  return low;
}

function laneSeconds(lane) {
  return last(lane.seconds, 0);
}

// The longest own time of all lanes.
function raceSeconds(race) {
  return Math.max(0, ...[...race.lanes.values()].map(laneSeconds));
}

function raceTokens(race) {
  return Math.max(1, ...[...race.lanes.values()].map((lane) => last(lane.tokens, 0)));
}

// Tokens that the lane has at `x` seconds, linear within a round; null while the lane has not come that far.
function tokensWhen(lane, x) {
  const after = roundsAt(lane, x);
  const before = after ? lane.tokens[after - 1] : 0;
  if (after === lane.rounds.length) return lane.end || x <= laneSeconds(lane) + 1e-9 ? before : null;
  const from = after ? lane.seconds[after - 1] : 0;
  const span = lane.seconds[after] - from;
  return span > 0 ? before + ((lane.tokens[after] - before) * (x - from)) / span : before;
}

function prefillSeconds(race, name) {
  return race.prefill.filter((part) => part.lanes.includes(name)).reduce((sum, part) => sum + part.seconds, 0);
}

// True when, as far as both have come, the lane's tokens are AR's; `at` is the first that is not.
function comparison(lane, ar, shown, shownAr) {
  const common = Math.min(shown, shownAr);
  for (let index = 0; index < common; index += 1) {
    if (lane.ids[index] !== ar.ids[index]) return { same: false, at: index };
  }
  return { same: true, at: null };
}

// Seconds per token; the lane's summary knows it exactly, before that its clock does.
function pace(seconds, tokens) {
  return tokens > 0 && seconds > 0 ? seconds / tokens : null;
}

// Everything the page shows of one lane at `t`.
function figuresAt(race, lane, t) {
  const count = roundsAt(lane, t);
  const whole = count === lane.rounds.length;
  const end = whole ? lane.end : null;
  const ar = race.lanes.get("ar");
  const tokens = count ? lane.tokens[count - 1] : 0;
  const seconds = count ? lane.seconds[count - 1] : 0;
  const proposed = count ? lane.proposed[count - 1] : 0;
  const accepted = count ? lane.accepted[count - 1] : 0;
  const shownAr = ar && t !== null ? (roundsAt(ar, t) ? ar.tokens[roundsAt(ar, t) - 1] : 0) : ar ? ar.ids.length : 0;
  const figures = {
    rounds: count, tokens, seconds, whole, finish: end ? end.finish : null, error: end ? end.error : null,
    rate: seconds > 0 ? tokens / seconds : null,
    perRound: count ? tokens / count : null,
    acceptance: proposed ? accepted / proposed : null,
    decode: null, total: null, same: null, differsAt: null, gap: null, nearTie: null,
    sameDistribution: Boolean(end?.same_distribution) && lane !== ar,
    prefill: end ? end.prefill_seconds : prefillSeconds(race, lane.name),
  };
  if (ar && count) {
    const arCount = roundsAt(ar, t === null ? null : Math.max(t, seconds));
    const arTokens = arCount ? ar.tokens[arCount - 1] : 0;
    const arSeconds = arCount ? ar.seconds[arCount - 1] : 0;
    figures.decode = ratio(pace(arSeconds, arTokens), pace(seconds, tokens));
    const arTotal = arSeconds + prefillSeconds(race, "ar");
    figures.total = ratio(pace(arTotal, arTokens), pace(seconds + figures.prefill, tokens));
    if (lane !== ar) {
      const compared = comparison(lane, ar, tokens, shownAr);
      figures.same = compared.same;
      figures.differsAt = compared.at;
    }
  }
  if (figures.finish === "failed") Object.assign(figures, { decode: null, total: null, same: null, differsAt: null, prefill: prefillSeconds(race, lane.name) });
  else if (end) {
    figures.rate = end.tokens_per_second || figures.rate;
    figures.perRound = end.mean_accepted_length || figures.perRound;
    figures.acceptance = end.acceptance_rate;
    figures.seconds = end.decode_seconds || seconds;
    figures.decode = end.speedup_decode ?? (end.finish === "stopped" ? figures.decode : null);
    figures.total = end.speedup_total ?? (end.finish === "stopped" ? figures.total : null);
    if (end.finish !== "stopped" && lane !== ar) {
      figures.same = end.same_as_ar;
      figures.differsAt = end.first_difference;
      figures.gap = end.departure_gap ?? null;
      figures.nearTie = end.near_tie ?? null;
    }
  }
  return figures;
}

function ratio(above, below) {
  return above && below ? above / below : null;
}

function countsAt(lane, t) {
  const counts = { anchor: 0, exact: 0, loose: 0, shifted: 0, own: 0, anchors: 0 };
  for (const round of lane.rounds.slice(0, roundsAt(lane, t))) {
    for (const token of round.tokens) {
      counts[kindOf(token)] += 1;
      if (token.anchor) counts.anchors += 1;
    }
  }
  return counts;
}

// Points of the speedup chart: tokens this lane has at its own time ÷ tokens AR has at that time.
// The first few AR tokens are left out: a ratio over one or two tokens says nothing.
function speedupCurve(race, lane, t) {
  const ar = race.lanes.get("ar");
  const curve = { x: [], y: [] };
  if (!ar) return curve;
  const count = roundsAt(lane, t);
  for (let index = 0; index < count; index += 1) {
    const x = lane.seconds[index];
    const reference = tokensWhen(ar, x);
    if (reference === null || reference < 3) continue;
    curve.x.push(x);
    curve.y.push(lane === ar ? 1 : lane.tokens[index] / reference);
  }
  return curve;
}

// How many of the lane's rounds wrote 1, 2, 3 … tokens.
function roundSizes(lane, t) {
  const sizes = [];
  for (const round of lane.rounds.slice(0, roundsAt(lane, t))) {
    while (sizes.length < round.tokens.length) sizes.push(0);
    if (round.tokens.length) sizes[round.tokens.length - 1] += 1;
  }
  return sizes;
}

// Numbers with at most three digits that matter.
function digits(value, unit = "") {
  if (value === null || value === undefined || !isFinite(value)) return "–";
  const text = value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
  return text + unit;
}
// Only all of it reads 100 %, and only none of it 0 %.
function percent(value) {
  if (value === null || value === undefined) return "–";
  const lowest = value > 0 ? 1 : 0, highest = value < 1 ? 99 : 100;
  return `${Math.min(Math.max(Math.round(value * 100), lowest), highest)} %`;
}
function secondsText(value) {
  if (value === null || value === undefined || !isFinite(value)) return "–";
  return value < 0.1 ? `${(value * 1000).toFixed(value < 0.01 ? 1 : 0)} ms` : `${digits(value)} s`;
}
