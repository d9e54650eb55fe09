"""Which passes of a race are recorded as CUDA graphs, if they are: how many rows each, for which models. No library for models is
needed, so that memory and time can be told before anything is loaded."""

from __future__ import annotations

import os
from collections.abc import Iterable

from lvspec_core.settings import RaceSettings

VARIABLE = "LVSPEC_GRAPHS"
MOST_ROWS = 128  # of a pass that is recorded [ours]
STATIC_TREE = 25  # nodes of SpecVLM's tree
STATIC_READ = 4  # nodes of it that its draft reads at once, at most


def wanted() -> bool:
    return os.environ.get(VARIABLE, "").strip() == "1"


def padded(rows: int) -> int:
    """The next power of two. Decoding is bound by reading weights and cache, which padding does not add to."""
    return 1 << (rows - 1).bit_length()


def sizes(rows: Iterable[int]) -> list[int]:
    """Of the passes that are recorded for so many rows, the largest first."""
    return sorted({size for size in map(padded, rows) if size <= MOST_ROWS}, reverse=True)


def target_rows(method: str, settings: RaceSettings) -> int:
    """Rows of the target's pass: the most that a round scores. One size serves all of a lane's rounds, as padding costs little."""
    if method == "ar":
        return 1
    width, deeper = settings.tree_width, settings.tree_depth - 1
    tree = min(settings.tree_nodes, width + deeper * width**2)
    return 1 + {"chain": settings.draft_length, "static_tree": STATIC_TREE, "dynamic_tree": tree}[settings.proposal]


def draft_rows(method: str, settings: RaceSettings) -> set[int]:
    """Rows of the draft's passes: one or two tokens of the text, or what a tree expands at once."""
    if method == "ar":
        return set()
    return {1, 2, {"chain": 1, "static_tree": STATIC_READ, "dynamic_tree": settings.tree_width}[settings.proposal]}
