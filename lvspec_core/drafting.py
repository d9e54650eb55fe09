"""The proposing side: what a draft suggests, and how it learns what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from lvspec_core.families.stream import Stream
from lvspec_core.relevance import Calibration


@dataclass(frozen=True)
class Proposal:
    """Draft tokens [n] on the device. ``parents``: for each token the index of the one before it, -1 for the committed text.

    ``relevance``: [n], how much each position depends on the video, None where the drafter does not look.
    """

    ids: torch.Tensor
    parents: tuple[int, ...]
    relevance: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.parents)


class Drafter(Protocol):
    """Proposes, and is told what was committed."""

    def propose(self, length: int) -> Proposal: ...

    def learn(self, proposal: Proposal, accepted: int, own: torch.Tensor) -> None:
        """The first ``accepted`` draft tokens were committed, then the target's ``own`` token, [1]."""


class NoDrafter:
    """AR: nothing is ever proposed."""

    def __init__(self, device: torch.device):
        self.empty = Proposal(torch.empty(0, dtype=torch.long, device=device), ())

    def propose(self, length: int) -> Proposal:
        return self.empty

    def learn(self, proposal: Proposal, accepted: int, own: torch.Tensor) -> None:
        pass


class ChainDrafter:
    """Greedy chains from a draft model. ``last``: the last prompt token, [1], not yet read; ``vocabulary``: ids that both models share."""

    def __init__(self, stream: Stream, last: torch.Tensor, vocabulary: int, calibration: Calibration | None = None):
        self.stream = stream
        self.unread = last  # committed tokens that the draft has not read, at least one
        self.cut = None if vocabulary == stream.model.vocabulary else vocabulary
        self.watch = calibration.watch(stream) if calibration else None
        self.start = stream.length

    def propose(self, length: int) -> Proposal:
        if length == 0:
            return Proposal(self.unread[:0], ())
        stream, head, watch = self.stream, self.stream.model.head, self.watch
        self.start = stream.length + len(self.unread)
        ids, chain = self.unread, []
        for _ in range(length):
            # the token stays on the device: the host learns the whole chain after verification
            ids = head(stream.append(ids, watch)[0, -1:])[:, : self.cut].argmax(-1)
            chain.append(ids)
        relevance = torch.cat([share[-1:] for share in watch.take()]) if watch else None
        return Proposal(torch.cat(chain), tuple(range(-1, length - 1)), relevance)

    def learn(self, proposal: Proposal, accepted: int, own: torch.Tensor) -> None:
        if not len(proposal):
            self.unread = torch.cat([self.unread, own])
            return
        # the last draft token was never read by the draft itself
        read = min(accepted, len(proposal) - 1)
        self.stream.rollback(self.start + read)
        self.unread = torch.cat([proposal.ids[read:accepted], own]) if read < accepted else own
