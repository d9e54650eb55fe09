"""Scorers that look at attention: how much of a position's attention goes to the video."""

from __future__ import annotations

import torch

from lvspec_core.families.attention import Watch


class AttentionShare(Watch):
    """A watch: the share of each watched query's attention that goes to the video tokens, of one layer.

    ``head``: one head's share; None: the mean over heads.
    """

    def __init__(self, layer: int, video: slice, head: int | None = None):
        self.layer = layer
        self.video = video
        self.head = head
        self.shares: list[torch.Tensor] = []  # one [n] per call

    def wants(self, layer: int) -> bool:
        return layer == self.layer

    def see(self, layer: int, weights: torch.Tensor) -> None:
        shares = weights[..., self.video].sum(-1).flatten(0, 1)  # [heads, n]
        self.shares.append(shares.mean(0) if self.head is None else shares[self.head])

    def take(self) -> list[torch.Tensor]:
        shares, self.shares = self.shares, []
        return shares

    def last(self) -> torch.Tensor:
        return self.shares[-1][-1:]
