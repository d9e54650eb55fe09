// What rounds cost, as measured, and what other settings would bring by the formula of Leviathan et al. (arXiv 2211.17192).
// Seconds throughout.

// A lane's costs up to `t`: means per round, split as its clock was.
function laneCosts(lane, t) {
  const count = roundsAt(lane, t);
  const costs = { rounds: count, draft: 0, verify: 0, other: 0, round: 0, perRound: 0, guesses: 0, kept: 0, rejections: 0, chain: true };
  if (!count) return costs;
  for (const round of lane.rounds.slice(0, count)) {
    costs.draft += round.draft_seconds / count;
    costs.verify += round.verify_seconds / count;
    if (round.accepted < round.proposed.length) costs.rejections += 1;
    if (round.parents && round.parents.length) costs.chain = false;
  }
  costs.round = lane.seconds[count - 1] / count;
  costs.other = Math.max(0, costs.round - costs.draft - costs.verify);
  costs.perRound = lane.tokens[count - 1] / count;
  costs.guesses = lane.proposed[count - 1];
  costs.kept = lane.accepted[count - 1];
  return costs;
}

// The inputs of the formula as this race measured them; null where it does not apply: no AR, no guesses, or guesses that branch.
// `alpha`: the chance that a guess is kept if all before it were. A round tells it for its kept guesses and the first one it
// rejects; what stands behind that one was never judged. So it is kept ÷ (kept + rounds that rejected one).
function measuredInputs(race, lane) {
  const ar = race.lanes.get("ar");
  if (!ar || !lane || lane === ar) return null;
  const costs = laneCosts(lane, null);
  const reference = laneCosts(ar, null);
  if (!costs.guesses || !costs.chain || !reference.perRound || !reference.round) return null;
  const end = lane.end;
  const inputs = {
    token: reference.round / reference.perRound,
    pass: reference.verify,
    draft: (costs.draft * costs.rounds) / costs.guesses,
    verify: costs.verify,
    other: costs.other,
    otherAr: reference.other,
    gamma: costs.guesses / costs.rounds,
    alpha: costs.kept + costs.rejections ? costs.kept / (costs.kept + costs.rejections) : 1,
    speedup: (reference.round / reference.perRound) / (costs.round / costs.perRound),
  };
  if (end && typeof end.speedup_decode === "number") inputs.speedup = end.speedup_decode;
  return Object.values(inputs).every((value) => isFinite(value) && value >= 0) && inputs.gamma > 0 ? inputs : null;
}

// Expected tokens of a round with draft length γ: (1 − α^(γ+1)) ÷ (1 − α) [paper, equation 1].
function expectedTokens(alpha, gamma) {
  return alpha >= 1 ? gamma + 1 : (1 - alpha ** (gamma + 1)) / (1 - alpha);
}

// One verification of γ guesses. Measured for γ = 0 (AR's pass) and for this race's γ; a straight line between and beyond, never falling.
function verifySeconds(inputs, gamma) {
  return inputs.pass + Math.max(0, (inputs.verify - inputs.pass) / inputs.gamma) * gamma;
}

// The same inputs on other hardware, if one pass takes as long as reading the weights once. An assumption: it ignores the KV
// cache and arithmetic, and keeps what this race measured beside the passes. Sizes in weights, bandwidth in bytes per second.
function onHardware(inputs, { target, draft, bytes, bandwidth }) {
  const pass = (target * bytes) / bandwidth;
  return { ...inputs, token: pass + inputs.otherAr, pass, verify: pass, draft: (draft * bytes) / bandwidth };
}

// Expected speedup over AR: tokens of a round × AR's seconds per token ÷ seconds of the round. With a verification as long as
// one AR token and no overhead it is (1 − α^(γ+1)) ÷ ((1 − α)(γc + 1)) [paper, theorem 3.8], c = draft step ÷ AR token.
function expectedSpeedup(inputs, alpha, gamma) {
  const round = gamma * inputs.draft + verifySeconds(inputs, gamma) + inputs.other;
  return round > 0 ? (expectedTokens(alpha, gamma) * inputs.token) / round : null;
}

// The draft length from 1 to `most` at which the expected speedup is highest.
function bestGamma(inputs, alpha, most) {
  let best = 1;
  for (let gamma = 2; gamma <= most; gamma += 1) {
    if (expectedSpeedup(inputs, alpha, gamma) > expectedSpeedup(inputs, alpha, best)) best = gamma;
  }
  return best;
}

// The relevance from which a token of this race is an anchor: calibrated, or the asked share of fillers as a quantile of the
// calibration. A file may not say it; then it lies between the highest filler and the lowest anchor. Null if nothing was scored.
function thresholdOf(race) {
  if (race.start && typeof race.start.threshold === "number") return race.start.threshold;
  const relevance = race.start && race.start.pair.relevance;
  const share = race.start ? race.start.settings.anchor_quantile : null;
  if (relevance && typeof share !== "number" && typeof relevance.threshold === "number") return relevance.threshold;
  let below = -Infinity;
  let above = Infinity;
  for (const lane of race.lanes.values()) {
    for (const token of lane.all) {
      if (typeof token.relevance !== "number" || typeof token.anchor !== "boolean") continue;
      if (token.anchor) above = Math.min(above, token.relevance);
      else below = Math.max(below, token.relevance);
    }
  }
  if (below === -Infinity && above === Infinity) return null;
  if (below === -Infinity) return above;
  return above === Infinity ? below : (below + above) / 2;
}
