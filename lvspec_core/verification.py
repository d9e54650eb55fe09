"""Which draft tokens enter the text: strict and loose rules as pure functions, no model and no cache.

Positions: draft token i stands at position i of a proposal of n tokens; the target's choice at position i is what it says
after the first i draft tokens, so there are n + 1 choices, and the last one follows a fully accepted proposal.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from lvspec_core.drafting import Proposal

ENTROPY_OVER = 3  # FLy's entropy gate looks at the target's three best choices


@dataclass(frozen=True)
class Verdict:
    """``kinds``: how each accepted draft token entered (``exact``, ``loose``, ``shifted``); then the target's ``own`` token follows:
    a ``correction`` after a rejection, a ``bonus`` after full acceptance."""

    kinds: tuple[str, ...]
    own: int
    own_kind: str

    @property
    def accepted(self) -> int:
        return len(self.kinds)


@dataclass(frozen=True)
class Rules:
    """LVSpec's knobs, as in RaceSettings. ``threshold``: relevance from which a position is an anchor."""

    threshold: float
    plausibility: float = 0.1
    top_k: int = 5
    window: int = 1
    entropy_gate: float = 0.1
    shift: int = 3


@dataclass(frozen=True)
class Scores:
    """What verification reads of the target at its n + 1 positions.

    ``choices``: [n + 1] greedy tokens. ``top_ids``, ``top_logits``: [n + 1][k], best first; k is at least 3 where the
    vocabulary allows it.
    """

    choices: Sequence[int]
    top_ids: Sequence[Sequence[int]]
    top_logits: Sequence[Sequence[float]]

    def plausible(self, position: int, token: int, rules: Rules) -> bool:
        """Typical acceptance (Medusa): among the target's k best, with at least ε of the best one's probability."""
        best = self.top_ids[position][: rules.top_k]
        if token not in best:
            return False
        logits = self.top_logits[position]
        return math.exp(logits[best.index(token)] - logits[0]) >= rules.plausibility

    def entropy(self, position: int) -> float:
        """Entropy over the three best choices, scaled to [0, 1] (FLy, arXiv 2511.22972)."""
        logits = self.top_logits[position][:ENTROPY_OVER]
        if len(logits) < 2:
            return 0.0
        weights = [math.exp(value - logits[0]) for value in logits]
        total = sum(weights)
        return -sum(w / total * math.log(w / total) for w in weights if w > 0) / math.log(len(logits))


def verify_strict(draft: Sequence[int], choices: Sequence[int]) -> Verdict:
    """Draft tokens enter as long as they are the target's own choice: greedy decoding stays lossless."""
    accepted = 0
    while accepted < len(draft) and draft[accepted] == choices[accepted]:
        accepted += 1
    return _verdict(["exact"] * accepted, draft, choices)


def verify_loose(
    draft: Sequence[int],
    scores: Scores,
    relevance: Sequence[float],
    rules: Rules,
    said: Collection[int] = (),
    insertions: Collection[int] = (),
) -> Verdict:
    """LVSpec [ours where METHOD says so]: anchors strictly, fillers loosely, shifts tolerated.

    At a mismatch the draft token may still enter

    * *loose*: its position is a filler (or both its token and the target's are known ``insertions``), the target finds it
      plausible, hesitates itself (entropy gate) and agrees again on the next ``window`` draft tokens;
    * *shifted*, inserted: the draft puts up to ``shift`` tokens before what the target wants. The proof is the target's own:
      after them it still makes the same choice. Had they taken its place, it would go on instead. They must be plausible or
      fillers, and may not repeat an anchor; the delayed choice itself is then matched strictly, so that it is never lost;
    * *shifted*, dropped: the target would first insert a known insertion, and the draft's token is the target's own best
      choice once insertions are set aside.

    Where several of these apply, the way that accepts most is taken: so loosening a knob never shortens a round.
    ``said``: anchors of the text just before, which no insertion may repeat. ``insertions``: see :func:`find_insertions`.
    """
    count = len(draft)
    best: dict[int, list[str]] = {}

    def follow(position: int) -> list[str]:
        """The longest list of kinds from this position on."""
        if position not in best:
            best[position] = _follow(position)
        return best[position]

    def _follow(position: int) -> list[str]:
        if position >= count:
            return []
        if draft[position] == scores.choices[position]:
            return ["exact", *follow(position + 1)]
        ways: list[list[str]] = [[]]
        if _loose(position, draft, scores, relevance, rules, insertions):
            ways.append(["loose", *follow(position + 1)])
        delay = _delay(position, draft, scores, relevance, rules, said)
        if delay:
            then = position + delay
            settled = then < count and draft[then] == scores.choices[then]
            ways.append(["shifted"] * delay + (follow(then) if settled else []))
        if _dropped(position, draft, scores, rules, insertions):
            ways.append(["shifted", *follow(position + 1)])
        return max(ways, key=len)

    return _verdict(follow(0), draft, scores.choices)


def find_insertions(draft: Sequence[int], scores: Scores, rules: Rules) -> set[int]:
    """Draft tokens that proved to be mere insertions: something the target found plausible in their place, it chooses right
    after them. So they left the slot open ("a rather small": "small" was possible before "rather" and is the choice after it)."""
    return {
        draft[place]
        for place in range(len(draft))
        if draft[place] != scores.choices[place + 1]
        and scores.plausible(place, draft[place], rules)
        and scores.plausible(place, scores.choices[place + 1], rules)
    }


def _loose(position, draft, scores: Scores, relevance, rules: Rules, insertions: Collection[int]) -> bool:
    known = draft[position] in insertions and scores.choices[position] in insertions and rules.shift > 0
    if (relevance[position] >= rules.threshold and not known) or not scores.plausible(position, draft[position], rules):
        return False
    if rules.entropy_gate > 0 and scores.entropy(position) < rules.entropy_gate:
        return False
    # the judgement is deferred to the tokens that follow; without any, there is no evidence
    after = range(position + 1, min(len(draft), position + 1 + rules.window))
    return rules.window == 0 or (len(after) > 0 and all(draft[place] == scores.choices[place] for place in after))


def _delay(position, draft, scores: Scores, relevance, rules: Rules, said: Collection[int]) -> int:
    """By how many tokens the draft delays the target's choice at this position; 0 if it does not, or not allowedly."""
    wanted = scores.choices[position]
    for delay in range(1, rules.shift + 1):
        place = position + delay - 1  # the last inserted token
        if place >= len(draft) or draft[place] == wanted or draft[place] in said:
            return 0
        # Relevance belongs to the slot, and the first slot is the delayed token's own: there the token itself must be plausible.
        if not scores.plausible(place, draft[place], rules) or (delay > 1 and relevance[place] >= rules.threshold):
            return 0
        if scores.choices[place + 1] == wanted:
            return delay
    return 0


def _dropped(position, draft, scores: Scores, rules: Rules, insertions: Collection[int]) -> bool:
    """Whether the target would only insert something before saying what the draft says."""
    if rules.shift == 0 or scores.choices[position] not in insertions or not scores.plausible(position, draft[position], rules):
        return False
    return next((token for token in scores.top_ids[position] if token not in insertions), None) == draft[position]


def _verdict(kinds: list[str], draft: Sequence[int], choices: Sequence[int]) -> Verdict:
    return Verdict(tuple(kinds), choices[len(kinds)], "bonus" if len(kinds) == len(draft) else "correction")


class StrictVerifier:
    """Strict verification of what the models left on the device."""

    def judge(self, proposal: Proposal, logits: torch.Tensor) -> tuple[list[int], Verdict, list[float] | None]:
        """``logits``: [n + 1, shared vocabulary]. Returns the draft tokens, the verdict and no relevance."""
        count = len(proposal)
        numbers = torch.cat([proposal.ids, logits.argmax(-1)]).tolist()  # the round's one read by the host
        draft = numbers[:count]
        return draft, verify_strict(draft, numbers[count:]), None


class LooseVerifier:
    """Loose verification of what the models left on the device; remembers its lane's last anchors and all its insertions."""

    def __init__(self, rules: Rules):
        self.rules = rules
        self.said: list[int] = []
        self.insertions: set[int] = set()

    def judge(self, proposal: Proposal, logits: torch.Tensor) -> tuple[list[int], Verdict, list[float]]:
        """``logits``: [n + 1, shared vocabulary]. Returns the draft tokens, the verdict and the proposal's relevance."""
        count, rows = len(proposal), len(proposal) + 1
        top = logits.topk(min(max(self.rules.top_k, ENTROPY_OVER), logits.shape[-1]))
        relevance = proposal.relevance if count else logits.new_empty(0)
        # Token ids are exact in float64, and so everything comes to the host in one read.
        parts = (proposal.ids, logits.argmax(-1), top.indices.flatten(), top.values.flatten(), relevance)
        numbers = torch.cat([part.double() for part in parts]).tolist()
        draft, choices = [int(x) for x in numbers[:count]], [int(x) for x in numbers[count : count + rows]]
        wide = top.values.shape[-1]
        ids, values, shares = _split(numbers[count + rows :], rows * wide, rows * wide)
        scores = Scores(choices, _rows([int(x) for x in ids], wide), _rows(values, wide))
        # rows past a rejection count as well: they tell what the target says after that draft text
        self.insertions |= find_insertions(draft, scores, self.rules)
        verdict = verify_loose(draft, scores, shares, self.rules, self.said, self.insertions)
        self.said += [token for token, share in zip(draft[: verdict.accepted], shares, strict=False) if share >= self.rules.threshold]
        self.said = self.said[-self.rules.shift - 1 :]
        return draft, verdict, shares


def _split(numbers: list[float], *lengths: int) -> list[list[float]]:
    parts = []
    for length in lengths:
        parts.append(numbers[:length])
        numbers = numbers[length:]
    return [*parts, numbers]


def _rows(numbers: list, wide: int) -> list[list]:
    return [numbers[start : start + wide] for start in range(0, len(numbers), wide)]
