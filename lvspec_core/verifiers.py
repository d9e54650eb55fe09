"""The verifiers of the lanes: what the models left on the device is read once, then the rules of :mod:`lvspec_core.verification` judge."""

from __future__ import annotations

import torch

from lvspec_core.drafting import Proposal
from lvspec_core.sampling import Sampler
from lvspec_core.trees import Tree, tree_of
from lvspec_core.verification import (
    ENTROPY_OVER,
    Rules,
    Scores,
    Verdict,
    find_insertions,
    rows_of,
    verify_loose,
    verify_loose_tree,
    verify_strict,
    verify_strict_tree,
    why_rejected,
)


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
