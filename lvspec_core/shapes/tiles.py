"""Dense supervision in training: what stands in every video token's tile, and where in it.

A linear head reads, from each video token, whether an object's centre lies in its tile, the object's attributes, and how far from the
tile's middle it is. Words about a shape or a motion reach the tower only once the language model has learnt where to look; this
reaches it at once. A token of a single frame cannot show a motion: there the head reads it from the language model's states half-way
up, where a token has seen the frames before it. The heads are thrown away after training.
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
    """Video token states [B, tokens, hidden] -> logits of presence, of each attribute's words, and two numbers that say where.

    ``read``: the attributes to read, among READ."""

    def __init__(self, hidden: int, read: tuple[str, ...] = READ):
        super().__init__()
        self.read = read
        self.sizes = [1, *(len(ATTRIBUTES[name]) for name in read), 2]
        self.linear = nn.Linear(hidden, sum(self.sizes))

    def loss(self, states: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        """``truth``: :func:`tile_truth` of the same tokens."""
        present, *words, place = self.linear(states).split(self.sizes, dim=-1)
        there = truth[..., 0] > 0
        loss = functional.binary_cross_entropy_with_logits(present[..., 0], there.float())
        for name, logits in zip(self.read, words, strict=True):
            loss = loss + functional.cross_entropy(logits[there], truth[..., 1 + READ.index(name)][there].long())
        return loss + functional.mse_loss(place[there], truth[..., -2:][there])


def tile_truth(scenes: list[Scene], shares: np.ndarray, temporal: int) -> torch.Tensor:
    """[B, T · TILES², 1 + len(READ) + 2]: presence, the index of each attribute's word, and how far right and down of its tile's middle the
    object's centre is, in tiles. ``shares``: moments of the frames, ``temporal`` of which make one token's depth."""
    grids = len(shares) // temporal
    truth = torch.zeros(len(scenes), grids, TILES, TILES, 1 + len(READ) + 2)
    for row, scene in enumerate(scenes):
        for thing in scene.things:
            words = [ATTRIBUTES[name].index(getattr(thing, name)) for name in READ]
            for grid in range(grids):
                x, y = thing.centre(float(np.mean(shares[grid * temporal : (grid + 1) * temporal])))
                across, down = min(TILES - 1, int(x * TILES)), min(TILES - 1, int(y * TILES))
                place = x * TILES - across - 0.5, y * TILES - down - 0.5
                truth[row, grid, down, across] = torch.tensor([1, *words, *place])
    return truth.view(len(scenes), grids * TILES * TILES, -1)
