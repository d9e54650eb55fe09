"""Which draft tokens enter the text: strict and loose rules as pure functions, no model and no cache.

Positions: draft token i stands at position i of a proposal of n tokens; the target's choice at position i is what it says
after the first i draft tokens, so there are n + 1 choices, and the last one follows a fully accepted proposal. A choice is
the target's best token, or the one it drew where it samples. In a proposal that branches every path from root to leaf is
such a chain, and the rules of chains are applied along it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from lvspec_core.trees import Tree

ENTROPY_OVER = 3  # FLy's entropy gate looks at the target's three best choices


@dataclass(frozen=True)
class Verdict:
    """``kinds``: how each accepted draft token entered (``exact``, ``loose``, ``shifted``); then the target's ``own`` token follows:
    a ``correction`` after a rejection, a ``bonus`` after full acceptance. ``path``: the accepted nodes of a proposal that
    branches, None: the first ones of a chain."""

    kinds: tuple[str, ...]
    own: int
    own_kind: str
    path: tuple[int, ...] | None = None

    @property
    def accepted(self) -> int:
        return len(self.kinds)

    @property
    def nodes(self) -> Sequence[int]:
        """The accepted draft tokens, by their index in the proposal."""
        return range(len(self.kinds)) if self.path is None else self.path


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

    def along(self, rows: Sequence[int]) -> Scores:
        """The same of these rows only: a path of a tree as a chain."""
        return Scores([self.choices[row] for row in rows], [self.top_ids[row] for row in rows], [self.top_logits[row] for row in rows])

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


def verify_strict_tree(tree: Tree, draft: Sequence[int], choices: Sequence[int]) -> Verdict:
    """The longest path of the target's own choices; ``choices``: one per row of the tree."""
    right = [-1]  # nodes that are reached by the target's own choices, the root among them
    for node, parent in enumerate(tree.parents):
        # a row whose token is not reached is never asked for its choice: sampled ones are only drawn where they are needed
        if parent in right and draft[node] == choices[parent + 1]:
            right.append(node)
    path = tree.path(max(right, key=lambda node: tree.depths[node] if node >= 0 else -1))
    last = path[-1] + 1 if path else 0
    return Verdict(("exact",) * len(path), choices[last], "correction" if tree.children[last] else "bonus", path)


def verify_loose_tree(
    tree: Tree,
    draft: Sequence[int],
    scores: Scores,
    relevance: Sequence[float],
    rules: Rules,
    said: Collection[int] = (),
    insertions: Collection[int] = (),
) -> Verdict:
    """LVSpec's rules along every path from root to leaf; the one that accepts most, of equals the one with most exact tokens."""
    verdicts = []
    for path in tree.paths:
        along, shares = [draft[node] for node in path], [relevance[node] for node in path]
        verdict = verify_loose(along, scores.along(rows_of(path)), shares, rules, said, insertions)
        verdicts.append(replace(verdict, path=path[: verdict.accepted]))
    return max(verdicts, key=lambda verdict: (verdict.accepted, verdict.kinds.count("exact")))


def why_rejected(
    draft: Sequence[int], scores: Scores, relevance: Sequence[float], position: int, rules: Rules, insertions: Collection[int] = ()
) -> str:
    """The first of the loose rules that the draft token at this position, not the target's choice, breaks: "anchor",
    "implausible", "sure" (the target does not hesitate), "window" (it does not agree again right after); "" if none."""
    known = draft[position] in insertions and scores.choices[position] in insertions and rules.shift > 0
    if relevance[position] >= rules.threshold and not known:
        return "anchor"
    if not scores.plausible(position, draft[position], rules):
        return "implausible"
    if rules.entropy_gate > 0 and scores.entropy(position) < rules.entropy_gate:
        return "sure"
    # the judgement is deferred to the tokens that follow; without any, there is no evidence
    after = range(position + 1, min(len(draft), position + 1 + rules.window))
    settled = rules.window == 0 or (len(after) > 0 and all(draft[place] == scores.choices[place] for place in after))
    return "" if settled else "window"


def rows_of(path: Sequence[int]) -> list[int]:
    """The rows of the target's scores along a path: the root's, then each node's."""
    return [0, *(node + 1 for node in path)]


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
    return not why_rejected(draft, scores, relevance, position, rules, insertions)


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
