"""Drafters whose proposals branch: one forward pass of the draft per level of the tree."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch

from lvspec_core.drafting import Proposal, Source
from lvspec_core.families.stream import Stream
from lvspec_core.relevance import Calibration
from lvspec_core.sampling import Sampling, draw
from lvspec_core.trees import tree_of

# The tree of SpecVLM's code, as paths of child ranks: 25 tokens, five deep. "02" is the third best after the best.
STATIC_PATHS = tuple("0 1 2 3 00 01 02 10 11 20 21 30 000 001 002 010 011 020 021 100 0000 0001 0002 00000 00001".split())
STATIC_DEPTH = 5


class TreeDrafter(ABC):
    """What all branching drafters share: a draft's cache that holds a tree's inner tokens until one path of it is committed.

    ``last``: the last prompt token, [1], not yet read; ``vocabulary``: ids that both models share.
    """

    keeps = False  # whether proposals carry their source

    def __init__(self, stream: Stream, last: torch.Tensor, vocabulary: int, calibration: Calibration | None = None):
        self.stream = stream
        self.unread = last  # committed tokens that the draft has not read, at least one
        self.cut = None if vocabulary == stream.model.vocabulary else vocabulary
        self.watch = calibration.watch(stream) if calibration else None
        self.start = stream.length
        self.rows: Sequence[int] = ()  # for each proposed token, where it stands after ``start`` in the draft's cache, -1: unread

    def propose(self, length: int) -> Proposal:
        if length == 0:
            return Proposal(self.unread[:0], ())
        self.start = self.stream.length + len(self.unread)
        self._kept: list[torch.Tensor] = []
        return self._grow(length)

    @abstractmethod
    def _grow(self, length: int) -> Proposal:
        """A tree of at most this depth; sets ``rows``."""

    def learn(self, proposal: Proposal, accepted: Sequence[int], own: torch.Tensor) -> None:
        if not len(proposal):
            self.unread = torch.cat([self.unread, own])
            return
        # a token is read when others are to follow it, so what was read of a path is its beginning
        rows = [self.rows[node] for node in accepted if self.rows[node] >= 0]
        self.stream.keep(self.start, rows)
        fresh = [proposal.ids[node : node + 1] for node in accepted[len(rows) :]]
        self.unread = torch.cat([*fresh, own]) if fresh else own

    def _read(self, ids: torch.Tensor, sees: torch.Tensor | None = None) -> torch.Tensor:
        """The draft's logits [n, shared vocabulary] after tokens of one level; after the last one only, where they are a chain."""
        hidden = self.stream.append(ids, self.watch, sees)[0]
        logits = self.stream.model.head(hidden if sees is not None else hidden[-1:])[:, : self.cut]
        if self.keeps:
            self._kept.append(logits)
        return logits

    def _source(self, rows: torch.Tensor) -> Source | None:
        return Source(self._kept, rows) if self.keeps else None

    def _relevance(self) -> torch.Tensor | None:
        """[rows read] how much the token after each depends on the video: the root first, then level by level."""
        if self.watch is None:
            return None
        root, *levels = self.watch.take()
        return torch.cat([root[-1:], *levels])


@dataclass(frozen=True)
class Level:
    """One level of a static tree. ``after``: [n], which of the distributions just read each token is taken from; ``ranks``:
    [n], the how manieth it is there; ``read``: which tokens the draft then reads; ``sees``: their rows, for ``Stream.append``."""

    after: torch.Tensor
    ranks: torch.Tensor
    wide: int
    read: torch.Tensor
    sees: torch.Tensor


class StaticTreeDrafter(TreeDrafter):
    """A tree of fixed shape: the best few tokens, after the best of these more than after the others.

    ``sampling`` with a ``generator``: tokens are drawn without replacement instead, and a rank is the order of the draws.
    """

    def __init__(
        self,
        stream: Stream,
        last: torch.Tensor,
        vocabulary: int,
        calibration: Calibration | None = None,
        sampling: Sampling | None = None,
        generator: torch.Generator | None = None,
    ):
        super().__init__(stream, last, vocabulary, calibration)
        self.sampling = sampling
        self.generator = generator

    def _grow(self, length: int) -> Proposal:
        levels, parents, self.rows, after = static_plan(min(length, STATIC_DEPTH), self.unread.device)
        tokens, guesses, logits = [], [], self._read(self.unread)
        for level in levels:
            if self.sampling is None:
                best = logits.topk(level.wide).indices
            else:
                guesses.append(self.sampling.probabilities(logits))
                best = draw(guesses[-1], level.wide, self.generator)
            tokens.append(best[level.after, level.ranks])
            if len(level.read):
                logits = self._read(tokens[-1][level.read], level.sees)
        relevance = self._relevance()
        relevance = relevance[after] if relevance is not None else None
        return Proposal(torch.cat(tokens), parents, relevance, torch.cat(guesses) if guesses else None, self._source(after))


def static_size(depth: int) -> int:
    """How many tokens the static tree has when it is cut off below this depth."""
    return sum(len(path) <= depth for path in STATIC_PATHS)


@cache
def static_plan(depth: int, device: torch.device) -> tuple[list[Level], tuple[int, ...], tuple[int, ...], torch.Tensor]:
    """The static tree cut off below this depth: its levels, its parents, where the draft's cache holds each token (-1: it does
    not), and [n] which of the distributions read, the root's first, each token is taken from."""
    paths = [path for path in STATIC_PATHS if len(path) <= depth]
    parents = tuple(paths.index(path[:-1]) if len(path) > 1 else -1 for path in paths)
    inner = tree_of(parents).inner
    rows = tuple(inner.get(node + 1, 0) - 1 for node in range(len(paths)))
    after = torch.tensor([inner[parent + 1] for parent in parents], device=device)
    return static_levels(depth, device), parents, rows, after


def static_levels(depth: int, device: torch.device) -> list[Level]:
    """How to grow the static tree, level by level."""
    paths = [path for path in STATIC_PATHS if len(path) <= depth]
    inner = [path for path in paths if any(other[:-1] == path for other in paths)]  # in the order in which they are read
    levels = []
    for deep in range(1, depth + 1):
        here = [path for path in paths if len(path) == deep]
        before = [path for path in inner if len(path) == deep - 1] or [""]
        read = [path for path in here if path in inner]
        rows = inner[: inner.index(read[-1]) + 1] if read else []
        sees = [[path.startswith(row) for row in rows] for path in read]
        ranks = [int(path[-1]) for path in here]
        levels.append(
            Level(
                torch.tensor([before.index(path[:-1]) for path in here], device=device),
                torch.tensor(ranks, device=device),
                max(ranks) + 1,
                torch.tensor([here.index(path) for path in read], dtype=torch.long, device=device),
                torch.tensor(sees, dtype=torch.bool, device=device),
            )
        )
    return levels


class DynamicTreeDrafter(TreeDrafter):
    """A tree grown where the draft is sure (EAGLE-2, arXiv 2406.16858).

    The value of a token is the probability that the draft gives to the whole path to it. At each level the ``width`` most
    valuable tokens are expanded, each by its ``width`` best followers; of all tokens so found the ``nodes`` most valuable are
    proposed: with a token always the one before it, which is worth no less. ``adaptive``: a tree ends with the level on which
    no token is worth this much; 0: never (each level then costs the host one wait). Its tokens follow from the text alone,
    never drawn, so the target may be sampled without further care.
    """

    def __init__(
        self,
        stream: Stream,
        last: torch.Tensor,
        vocabulary: int,
        calibration: Calibration | None = None,
        nodes: int = 25,
        width: int = 4,
        adaptive: float = 0.0,
    ):
        super().__init__(stream, last, vocabulary, calibration)
        self.nodes = nodes
        self.width = min(width, vocabulary)
        self.least = torch.tensor(adaptive).log().item()

    def _grow(self, length: int) -> Proposal:
        device, wide = self.unread.device, self.width
        own = torch.eye(wide, dtype=torch.bool, device=device)
        best = self._read(self.unread).float().log_softmax(-1).topk(wide)
        ids, values = best.indices[0], best.values[0]
        # all tokens found: ids, values, the token before each, and where the draft read that one (0: the root)
        found = [(ids, values, torch.full_like(ids, -1), torch.zeros_like(ids))]
        front, sees = torch.arange(wide, device=device), own
        read = [front]
        for level in range(1, length):
            if self.least > float("-inf") and float(values.max()) < self.least:
                read.pop()
                break
            best = self._read(ids, sees).float().log_softmax(-1).topk(wide)
            next_ids, next_values = best.indices.flatten(), (best.values + values[:, None]).flatten()
            rows = torch.arange((level - 1) * wide + 1, level * wide + 1, device=device)
            found.append((next_ids, next_values, front.repeat_interleave(wide), rows.repeat_interleave(wide)))
            values, chosen = next_values.topk(wide)
            ids, front = next_ids[chosen], chosen + (wide + (level - 1) * wide * wide)
            sees = torch.cat([sees[chosen // wide], own], dim=1)
            read.append(front)
        else:
            read.pop()
        return self._cut(found, read)

    def _cut(self, found: list[tuple[torch.Tensor, ...]], read: list[torch.Tensor]) -> Proposal:
        """The most valuable tokens of all that were found. ``read``: those that the draft read, in order."""
        ids, values, before, after = (torch.cat(parts) for parts in zip(*found, strict=True))
        # a stable order prefers, among equals, the token found first: so no token comes without the one before it
        kept = values.sort(descending=True, stable=True).indices[: self.nodes].sort().values
        place = torch.full((len(ids) + 1,), -1, device=ids.device)  # its last entry stands for the root
        place[kept] = torch.arange(len(kept), device=ids.device)
        rows = torch.full_like(ids, -1)
        if read:
            order = torch.cat(read)
            rows[order] = torch.arange(len(order), device=ids.device)
        parents, self.rows = torch.stack([place[before[kept]], rows[kept]]).tolist()
        relevance = self._relevance()
        relevance = relevance[after[kept]] if relevance is not None else None
        return Proposal(ids[kept], tuple(parents), relevance, source=self._source(after[kept]))
