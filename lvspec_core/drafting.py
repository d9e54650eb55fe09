"""The proposing side: what a draft suggests, and how it learns what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from lvspec_core.families.stream import Stream
from lvspec_core.relevance import Calibration
from lvspec_core.sampling import Sampling, draw


@dataclass(frozen=True)
class Source:
    """What draft tokens were taken from. ``parts``: logits, [rows, vocabulary] each; ``rows``: for each draft token its row in
    all of them together."""

    parts: Sequence[torch.Tensor]
    rows: Sequence[int] | torch.Tensor


@dataclass(frozen=True)
class Proposal:
    """Draft tokens [n] on the device. ``parents``: for each token the index of the one before it, -1 for the committed text.

    ``relevance``: [n], how much each position depends on the video, None where the drafter does not look. ``guesses``: [m,
    vocabulary], the distributions that the tokens were drawn from, of every row that tokens follow; None: they were not drawn.
    ``source``: only of a drafter that was told to keep it (``keeps``).
    """

    ids: torch.Tensor
    parents: tuple[int, ...]
    relevance: torch.Tensor | None = None
    guesses: torch.Tensor | None = None
    source: Source | None = None

    def __len__(self) -> int:
        return len(self.parents)


class Drafter(Protocol):
    """Proposes, and is told what was committed."""

    def propose(self, length: int) -> Proposal:
        """Draft tokens, at most ``length`` one after another."""

    def learn(self, proposal: Proposal, accepted: Sequence[int], own: torch.Tensor) -> None:
        """The ``accepted`` draft tokens, a path from the root, were committed, then the target's ``own`` token, [1]."""


class NoDrafter:
    """AR: nothing is ever proposed."""

    def __init__(self, device: torch.device):
        self.empty = Proposal(torch.empty(0, dtype=torch.long, device=device), ())

    def propose(self, length: int) -> Proposal:
        return self.empty

    def learn(self, proposal: Proposal, accepted: Sequence[int], own: torch.Tensor) -> None:
        pass


class ChainDrafter:
    """Chains from a draft model, greedy or drawn. ``last``: the last prompt token, [1], not yet read; ``vocabulary``: ids that
    both models share.

    ``adaptive``: a chain ends with the first token to which the draft gives less probability than this; 0: never. It makes
    the host wait for every draft step, which costs nothing on a CPU and a little on a GPU. That token is still proposed, as
    dropping it because of what it is would bias a drawn chain. ``line``: positions whose relevance is lower end no chain: where
    fillers are verified loosely, only a doubtful anchor is likely to be rejected [ours]. ``sampling`` with a ``generator``: tokens
    are drawn.
    """

    keeps = False  # whether proposals carry their source

    def __init__(
        self,
        stream: Stream,
        last: torch.Tensor,
        vocabulary: int,
        calibration: Calibration | None = None,
        adaptive: float = 0.0,
        sampling: Sampling | None = None,
        generator: torch.Generator | None = None,
        line: float = 0.0,
    ):
        self.stream = stream
        self.unread = last  # committed tokens that the draft has not read, at least one
        self.cut = None if vocabulary == stream.model.vocabulary else vocabulary
        self.watch = calibration.watch(stream) if calibration else None
        self.start = stream.length
        self.adaptive = adaptive
        self.sampling = sampling
        self.generator = generator
        self.line = line

    def propose(self, length: int) -> Proposal:
        if length == 0:
            return Proposal(self.unread[:0], ())
        stream, head, watch = self.stream, self.stream.model.head, self.watch
        self.start = stream.length + len(self.unread)
        ids, chain, guesses, kept = self.unread, [], [], []
        for _ in range(length):
            # the token stays on the device: the host learns the whole chain after verification
            logits = head(stream.append(ids, watch)[0, -1:])[:, : self.cut]
            if self.keeps:
                kept.append(logits)
            if self.sampling is None:
                ids = logits.argmax(-1)
            else:
                guesses.append(self.sampling.probabilities(logits))
                ids = draw(guesses[-1], 1, self.generator)[0]
            chain.append(ids)
            if self.adaptive and self._doubtful(guesses[-1] if guesses else logits.softmax(-1), ids):
                break
        relevance = torch.cat([share[-1:] for share in watch.take()]) if watch else None
        source = Source(kept, range(len(kept))) if kept else None
        return Proposal(torch.cat(chain), tuple(range(-1, len(chain) - 1)), relevance, torch.cat(guesses) if guesses else None, source)

    def _doubtful(self, spread: torch.Tensor, token: torch.Tensor) -> bool:
        """Whether the draft is unsure of the token that it just took from ``spread`` [1, vocabulary], at a position that counts."""
        chance = spread[0, token]
        if chance.is_cuda and self.watch is not None:  # one wait for both
            return bool((chance < self.adaptive) & (self.watch.last() >= self.line))
        unsure = float(chance) < self.adaptive
        return unsure and (self.watch is None or float(self.watch.last()) >= self.line)

    def learn(self, proposal: Proposal, accepted: Sequence[int], own: torch.Tensor) -> None:
        if not len(proposal):
            self.unread = torch.cat([self.unread, own])
            return
        # the last draft token was never read by the draft itself
        count = len(accepted)
        read = min(count, len(proposal) - 1)
        self.stream.rollback(self.start + read)
        self.unread = torch.cat([proposal.ids[read:count], own]) if read < count else own
