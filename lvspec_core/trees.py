"""The shape of a proposal: which draft token follows which.

Nodes are draft tokens, numbered so that a token stands after the one it follows. *Rows* are what the target reads: row 0 is
the last committed token, row i + 1 is node i; what the target says at a row follows that row's token.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch

from lvspec_core.transfer import upload_mask


@dataclass(frozen=True)
class Tree:
    """``parents``: for each node the node before it, -1 for the committed text."""

    parents: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def chain(self) -> bool:
        """Whether every token follows the one before it, so that nothing of a tree need be minded."""
        return self.parents == tuple(range(-1, len(self.parents) - 1))

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """For each row the nodes that follow it, in order."""
        below: list[list[int]] = [[] for _ in range(len(self) + 1)]
        for node, parent in enumerate(self.parents):
            below[parent + 1].append(node)
        return tuple(map(tuple, below))

    @cached_property
    def inner(self) -> dict[int, int]:
        """The rows that something follows -> their place among these rows."""
        return {row: place for place, row in enumerate(row for row, below in enumerate(self.children) if below)}

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """For each node how many nodes stand before it."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(depths[parent] + 1 if parent >= 0 else 0)
        return tuple(depths)

    @cached_property
    def paths(self) -> tuple[tuple[int, ...], ...]:
        """Every way from the root to a leaf, as nodes."""
        return tuple(self.path(node) for node in range(len(self)) if not self.children[node + 1])

    def path(self, node: int) -> tuple[int, ...]:
        """The nodes from the root to this one."""
        way: list[int] = []
        while node >= 0:
            way.append(node)
            node = self.parents[node]
        return tuple(reversed(way))

    @cached_property
    def sees(self) -> torch.Tensor:
        """[n + 1, n + 1] bool: which rows a row may look at, itself included."""
        sees = torch.eye(len(self) + 1, dtype=torch.bool)
        for node, parent in enumerate(self.parents):
            sees[node + 1] |= sees[parent + 1]
        return sees

    def sees_on(self, device: torch.device) -> torch.Tensor:
        """The same on a device; copied there once."""
        if device not in self._placed:
            self._placed[device] = upload_mask(self.sees, device)
        return self._placed[device]

    @cached_property
    def _placed(self) -> dict[torch.device, torch.Tensor]:
        return {}


@lru_cache(maxsize=512)
def tree_of(parents: tuple[int, ...]) -> Tree:
    """The tree of these parents; those that come again and again are worked out once."""
    return Tree(parents)


def accepted_first(parents: tuple[int, ...], path: tuple[int, ...]) -> tuple[list[int], tuple[int, ...]]:
    """An order of the nodes in which an accepted path comes first, and the parents in that order."""
    order = [*path, *(node for node in range(len(parents)) if node not in path)]
    place = {node: index for index, node in enumerate(order)} | {-1: -1}
    return order, tuple(place[parents[node]] for node in order)
