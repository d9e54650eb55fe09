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

import torch

from lvspec_core.drafting import Proposal
from lvspec_core.sampling import Sampler
from lvspec_core.trees import Tree, tree_of

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


class StrictVerifier:
    """Strict verification of what the models left on the device. ``sampler`` None: the target's choices are its best tokens."""

    def __init__(self, sampler: Sampler | None = None):
        self.sampler = sampler

    def why(self, tree: Tree, verdict: Verdict) -> str:
        """Nothing to explain: what is not the target's own choice is rejected."""
        return ""

    def judge(self, proposal: Proposal, logits: torch.Tensor) -> tuple[list[int], Verdict, list[float] | None]:
        """``logits``: [n + 1, shared vocabulary]. Returns the draft tokens, the verdict and no relevance."""
        count, tree = len(proposal), tree_of(proposal.parents)
        if self.sampler is None:
            numbers = torch.cat([proposal.ids, logits.argmax(-1)]).tolist()  # the round's one read by the host
            draft, choices = numbers[:count], numbers[count:]
        else:
            draft = proposal.ids.tolist()
            choices = self.sampler.choices(tree, draft, logits, proposal.guesses)
        return draft, verify_strict(draft, choices) if tree.chain else verify_strict_tree(tree, draft, choices), None


class LooseVerifier:
    """Loose verification of what the models left on the device; remembers its lane's last anchors and all its insertions.

    With a ``sampler`` the target's choices are drawn, coupled with the draft's as in the strict methods, and then treated as
    greedy choices are: what speculative sampling accepts enters as ``exact``, what it rejects may still enter loosely or
    shifted, and otherwise the token drawn from what remains corrects it. So the text is not distributed as the target's, as
    the greedy text is not the target's [ours]; with every position an anchor and no shifts it is.
    """

    def __init__(self, rules: Rules, sampler: Sampler | None = None):
        self.rules = rules
        self.sampler = sampler
        self.said: list[int] = []
        self.insertions: set[int] = set()
        self._last: tuple[list[int], Scores, list[float]] = ([], Scores([], [], []), [])

    def why(self, tree: Tree, verdict: Verdict) -> str:
        """Why the draft's (first) token after the accepted ones was rejected in the round just judged: see :func:`why_rejected`."""
        draft, scores, shares = self._last
        nodes = tuple(verdict.nodes)
        way = next((path for path in tree.paths if path[: len(nodes)] == nodes and len(path) > len(nodes)), None)
        if way is None:
            return ""
        along, relevance = [draft[node] for node in way], [shares[node] for node in way]
        return why_rejected(along, scores.along(rows_of(way)), relevance, len(nodes), self.rules, self.insertions)

    def judge(self, proposal: Proposal, logits: torch.Tensor) -> tuple[list[int], Verdict, list[float]]:
        """``logits``: [n + 1, shared vocabulary]. Returns the draft tokens, the verdict and the proposal's relevance."""
        count, rows, tree = len(proposal), len(proposal) + 1, tree_of(proposal.parents)
        top = logits.topk(min(max(self.rules.top_k, ENTROPY_OVER), logits.shape[-1]))
        relevance = proposal.relevance if count else logits.new_empty(0)
        # Token ids are exact in float64, and so everything comes to the host in one read.
        parts = (proposal.ids, logits.argmax(-1), top.indices.flatten(), top.values.flatten(), relevance)
        numbers = torch.cat([part.double() for part in parts]).tolist()
        draft, choices = [int(x) for x in numbers[:count]], [int(x) for x in numbers[count : count + rows]]
        wide = top.values.shape[-1]
        ids, values, shares = _split(numbers[count + rows :], rows * wide, rows * wide)
        if self.sampler is not None:
            choices = list(self.sampler.choices(tree, draft, logits, proposal.guesses))
        scores = Scores(choices, _rows([int(x) for x in ids], wide), _rows(values, wide))
        self._last = draft, scores, shares
        if tree.chain:
            # rows past a rejection count as well: they tell what the target says after that draft text
            self.insertions |= find_insertions(draft, scores, self.rules)
            verdict = verify_loose(draft, scores, shares, self.rules, self.said, self.insertions)
        else:
            for path in tree.paths:
                self.insertions |= find_insertions([draft[node] for node in path], scores.along(rows_of(path)), self.rules)
            verdict = verify_loose_tree(tree, draft, scores, shares, self.rules, self.said, self.insertions)
        self.said += [draft[node] for node in verdict.nodes if shares[node] >= self.rules.threshold]
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
