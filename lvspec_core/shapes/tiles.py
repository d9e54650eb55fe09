"""Dense supervision for a vision tower in training: what stands in every video token's tile.

A linear head reads, from each video token, whether an object's centre lies in its tile, and the object's attributes. Words
about a shape or a motion reach the tower only once the language model has learnt where to look; this reaches it at once. The
head is thrown away after training.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from lvspec_core.shapes.scene import ATTRIBUTES, Scene

READ = ("size", "colour", "shape", "motion")
TILES = 4  # tiles along a side: 112 pixels, 28 a tile


class TileReader(nn.Module):
    """Video token embeddings [B, T * TILES², hidden] -> logits of presence and of each attribute's words."""

    def __init__(self, hidden: int):
        super().__init__()
        self.sizes = [1, *(len(ATTRIBUTES[name]) for name in READ)]
        self.linear = nn.Linear(hidden, sum(self.sizes))

    def loss(self, features: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        """``truth``: [B, T * TILES², 1 + len(READ)], presence first, then the index of each attribute's word."""
        present, *words = self.linear(features).split(self.sizes, dim=-1)
        there = truth[..., 0] > 0
        loss = functional.binary_cross_entropy_with_logits(present[..., 0], there.float())
        for index, logits in enumerate(words, start=1):
            loss = loss + functional.cross_entropy(logits[there], truth[..., index][there])
        return loss


def tile_truth(scenes: list[Scene], shares: np.ndarray, temporal: int) -> torch.Tensor:
    """The truth for :class:`TileReader`; ``shares``: moments of the frames, ``temporal`` of which make one token's depth."""
    grids = len(shares) // temporal
    truth = torch.zeros(len(scenes), grids, TILES, TILES, 1 + len(READ), dtype=torch.long)
    for row, scene in enumerate(scenes):
        for thing in scene.things:
            words = [ATTRIBUTES[name].index(getattr(thing, name)) for name in READ]
            for grid in range(grids):
                x, y = thing.centre(float(np.mean(shares[grid * temporal : (grid + 1) * temporal])))
                truth[row, grid, min(TILES - 1, int(y * TILES)), min(TILES - 1, int(x * TILES))] = torch.tensor([1, *words])
    return truth.view(len(scenes), grids * TILES * TILES, -1)
