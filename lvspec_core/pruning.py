"""Which video tokens a draft keeps: pure functions from a count, a grid or scores to sorted indices."""

from __future__ import annotations

import torch

from lvspec_core.families.attention import Watch

ATTENTION_MASS = 0.4  # SpecVLM: the most attended tokens are kept until they hold this share of the video's attention


def keep_count(total: int, ratio: float) -> int:
    """How many of ``total`` video tokens stay when the share ``ratio`` is pruned; at least one."""
    return max(1, min(total, round(total * (1 - ratio))))


def evenly(items: list[int], count: int) -> list[int]:
    """``count`` of the items at uniform spacing, the middles of equal parts."""
    return [items[int((part + 0.5) * len(items) / count)] for part in range(count)]


def uniform_keep(grid: tuple[int, int, int], count: int) -> list[int]:
    """LVSpec's pruning: ``count`` tokens at uniform spacing over (time, rows, columns), sorted.

    Every row starts one column further than the row before it [ours]: a spacing that divides the row length would otherwise
    keep the same columns of every row and never show the others.
    """
    time, rows, columns = grid
    order = [(t * rows + r) * columns + (c + r + t) % columns for t in range(time) for r in range(rows) for c in range(columns)]
    return sorted(evenly(order, count))


def specvlm_keep(scores: torch.Tensor, grid: tuple[int, int, int], count: int, mass: float = ATTENTION_MASS) -> list[int]:
    """SpecVLM's two stages (arXiv 2508.16201): the most attended tokens up to ``mass`` of all video attention, never more
    than ``count``; the rest of the budget at uniform spacing from the remaining tokens.

    ``scores``: [video tokens], the text's attention to each. Returns sorted indices.
    """
    best = scores.double().sort(descending=True, stable=True)
    total = float(best.values.sum())
    before = (best.values.cumsum(0) - best.values) / total if total > 0 else torch.ones_like(best.values)
    first = best.indices[: min(count, int((before < mass).sum()))].tolist()
    taken = set(first)
    remaining = [token for token in uniform_keep(grid, len(scores)) if token not in taken]
    return sorted(first + evenly(remaining, count - len(first)))


class VideoTokenAttention(Watch):
    """A watch: attention of the watched queries to every video token, averaged over layers, heads and queries."""

    def __init__(self, video: slice):
        self.video = video
        self.total: torch.Tensor | None = None
        self.layers = 0

    def wants(self, layer: int) -> bool:
        return True

    def see(self, layer: int, weights: torch.Tensor) -> None:
        mean = weights[..., self.video].mean(dim=(0, 1, 2))  # [video tokens]
        self.total = mean if self.total is None else self.total + mean
        self.layers += 1

    @property
    def scores(self) -> torch.Tensor:
        return (self.total / self.layers).cpu()
