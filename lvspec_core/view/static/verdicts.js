// Why a word stands where it stands: what the records know of one token, and that in one plain sentence.

// Everything that is known of the lane's token `index`; `row` is where it stands in its round's lists.
function tokenFacts(race, lane, index) {
  const at = roundOf(lane, index);
  const round = lane.rounds[at];
  const row = index - (at ? lane.tokens[at - 1] : 0);
  const token = lane.all[index];
  const target = round.target_top?.[row] || [];
  const guess = row < round.accepted ? round.proposed[row] : null;
  const [draftChance, targetChance] = guess ? round.chances?.[row] || [] : [];
  // as the models' lists spell it: there a text's first word has its space
  const first = index ? null : target.find(([text]) => text.trim() === token.text.trim());
  const spelled = guess ? guess[1] : first ? first[0] : token.text;
  return {
    race, lane, index, at, round, row, token, target, guess, spelled,
    draft: round.draft_top?.[row] || [],
    draftChance: draftChance ?? chanceOf(round.draft_top?.[row], spelled),
    chance: targetChance ?? chanceOf(target, spelled),
    rejected: guess ? [] : rejectedAt(round, row),
    strict: isStrict(race, lane),
    drawn: (race.start?.settings.temperature || 0) > 0,
  };
}

// The round in which the lane's token `index` was written.
function roundOf(lane, index) {
  let low = 0;
  let high = lane.tokens.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane.tokens[middle] > index) high = middle;
    else low = middle + 1;
  }
  return low;
}

// Indices of the draft tokens that follow row `row` and were not kept.
function followers(round, row) {
  const tree = round.parents?.length > 0;
  if (!tree) return row < round.proposed.length ? [row] : [];
  return round.parents.flatMap((parent, node) => (parent === row - 1 ? [node] : []));
}

function rejectedAt(round, row) {
  return followers(round, row).filter((node) => node >= round.accepted)
    .map((node) => ({ text: round.proposed[node][1], draft: round.chances?.[node]?.[0] ?? null, target: round.chances?.[node]?.[1] ?? null }));
}

function chanceOf(top, text) {
  return top?.find(([word]) => word === text)?.[1] ?? null;
}

function isStrict(race, lane) {
  return lane.name !== "lvspec" || Boolean(race.start?.pair?.strict_notice);
}

// The word as it may be quoted in a sentence.
const wordOf = (text) => text.trim() || "the end of the text";
// a sign on its own is put in quotation marks, or nobody sees it
const said = (text) => h("i", { class: "lv-said" }, /[\p{L}\p{N}]/u.test(wordOf(text)) ? wordOf(text) : `“${wordOf(text)}”`);
const shareText = (chance) => (chance === null || chance === undefined ? "" : chance > 0 && chance < 0.01 ? "less than 1\u00a0%" : `${Math.round(chance * 100)}\u00a0%`);
const inBrackets = (chance) => (shareText(chance) ? ` (${shareText(chance)})` : "");

// verdict -> the sentence, as pieces of text and quoted words
const SENTENCES = {
  ar: ({ token, spelled, chance, target, drawn }) => {
    const next = target.find(([text]) => text !== spelled);
    const beside = next && chance !== null ? ["; ", drawn ? "among the others was " : "next best was ", said(next[0]), inBrackets(next[1])] : [];
    return ["The target wrote ", said(token.text), inBrackets(chance), " by itself", ...beside, "."];
  },
  exact: (facts) => {
    const { token, chance, strict, drawn } = facts;
    const begin = drawn
      ? ["The draft drew ", said(token.text), inBrackets(facts.draftChance), " and the target, which gives it ", shareText(chance) || "its own chance", ", let it pass"]
      : ["Draft and target both said ", said(token.text), shareText(chance) ? ` (the target with ${shareText(chance)})` : ""];
    return [...begin, token.anchor && !strict ? "; its place counts as about the video, so nothing else would have been kept." : ", so it was kept."];
  },
  loose: ({ token, chance, target, drawn }) => {
    const other = drawn ? ["the target drew another word"] : target.length ? ["the target preferred ", said(target[0][0]), inBrackets(target[0][1])] : ["the target preferred another word"];
    const gave = shareText(chance) ? [" and the target gave ", said(token.text), ` ${shareText(chance)}`] : [" and the target finds this one plausible"];
    return ["The draft said ", said(token.text), ", ", ...other, token.anchor ? "; both only stand before what follows" : "; both are filler", ...gave, ", so it was kept."];
  },
  shifted: (facts) => {
    const { token, target, drawn } = facts;
    if (!target.length || drawn) return ["Draft and target say the same, one of them a little later; so ", said(token.text), " was kept."];
    return putBefore(facts)
      ? ["The draft put ", said(token.text), " before ", said(target[0][0]), ", which the target wanted here and still wanted after it; so it was kept."]
      : ["The target would first have put in ", said(target[0][0]), "; the draft left that out and went on with ", said(token.text), ", so it was kept."];
  },
  correction: (facts) => {
    const { token, chance, rejected, drawn } = facts;
    const guessed = rejected.length ? ["The draft said ", ...listed(rejected.map((each) => each.text)), "; "] : [];
    const chose = [drawn ? "the target drew " : "the target preferred ", said(token.text), inBrackets(chance)];
    return [...guessed, ...chose, ...(rejected.length ? [" and kept to it: ", ...whyNot(facts)] : []), "."];
  },
  bonus: ({ token, chance, round }) => {
    if (!round.proposed.length) return ["There was room for one word only; the target wrote ", said(token.text), inBrackets(chance), " by itself."];
    const all = round.accepted === round.proposed.length ? `all ${round.accepted} guesses` : `a branch of ${round.accepted} guesses to its end`;
    return ["The target kept ", round.accepted === 1 ? "the guess" : all, " and added ", said(token.text), inBrackets(chance), " of its own from the same pass."];
  },
};

function sentenceOf(facts) {
  return SENTENCES[facts.token.verdict](facts);
}

// Whether a shifted word was put in before what the target wanted, which it then still wanted.
function putBefore({ round, row, target }) {
  for (let later = row + 1; later <= round.accepted; later += 1) {
    if (round.target_top[later]?.[0]?.[0] === target[0][0]) return true;
    if (round.tokens[later]?.verdict !== "shifted") return false;
  }
  return false;
}

// Which rule kept the first rejected guess out, as a clause.
function whyNot({ round, rejected, strict, target }) {
  const first = rejected[0];
  if (strict) return ["this method keeps exact matches only"];
  return {
    anchor: ["a word about the video must match exactly"],
    implausible: shareText(first.target) ? ["it gave ", said(first.text), ` ${first.target >= 0.01 ? "only " : ""}${shareText(first.target)}, too little to let it pass`] : [said(first.text), " was too improbable to let it pass"],
    sure: ["it was too sure", inBrackets(target[0]?.[1]), " to let another word pass"],
    window: ["it did not agree with what the draft said next"],
  }[round.why] || ["the guess passed none of the loose rules"];
}

function listed(texts) {
  const shown = texts.slice(0, 4);
  const nodes = shown.flatMap((text, index) => [index ? (index === shown.length - 1 && texts.length <= 4 ? " or " : ", ") : "", said(text)]);
  return texts.length > 4 ? [...nodes, ` or ${texts.length - 4} others`] : nodes;
}

// What a whole round did, in one sentence of text and quoted words.
function roundExplained(race, lane, at) {
  const round = lane.rounds[at];
  const facts = tokenFacts(race, lane, lane.tokens[at] - 1);
  const own = round.tokens[round.tokens.length - 1];
  if (!round.proposed.length) return sentenceOf(facts);
  const count = (verdict) => round.tokens.filter((token) => token.verdict === verdict).length;
  const free = [count("loose") ? `${count("loose")} loosely` : "", count("shifted") ? `${count("shifted")} at a shifted place` : ""].filter(Boolean);
  const kept = round.accepted === 0 ? "none" : `${round.accepted === round.proposed.length ? "all " : ""}${round.accepted}`;
  const lead = [`The draft guessed ${round.proposed.length === 1 ? "1 word" : `${round.proposed.length} words`}; in one pass the target kept ${kept}${free.length ? ` (${free.join(", ")})` : ""}`];
  if (own.verdict === "bonus") return [...lead, " and added ", said(own.text), " of its own."];
  if (own.verdict !== "correction") return [...lead, ", and the text ended."];
  const guess = facts.rejected[0];
  return [...lead, " and wrote ", said(own.text), ...(guess ? [" instead of ", said(guess.text), ": ", ...whyNot(facts)] : []), "."];
}
