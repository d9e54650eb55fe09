"""The ways to propose, by the name of the setting: how deep, how much room they take, and their drafters."""

from __future__ import annotations

import torch

from lvspec_core.drafting import ChainDrafter, Drafter
from lvspec_core.families.stream import Stream
from lvspec_core.relevance import Calibration
from lvspec_core.sampling import Sampling
from lvspec_core.settings import RaceSettings
from lvspec_core.tree_drafting import STATIC_DEPTH, STATIC_PATHS, DynamicTreeDrafter, StaticTreeDrafter, static_levels, static_size


def proposal_depth(settings: RaceSettings) -> int:
    """How many draft tokens may follow one another in a round."""
    return {"chain": settings.draft_length, "static_tree": STATIC_DEPTH, "dynamic_tree": settings.tree_depth}[settings.proposal]


def spare_rows(settings: RaceSettings) -> int:
    """How many tokens of branches that are not taken a cache must hold for the length of a round."""
    wide = settings.tree_width * settings.tree_depth
    return {"chain": 0, "static_tree": len(STATIC_PATHS), "dynamic_tree": max(settings.tree_nodes, wide)}[settings.proposal]


def round_shapes(settings: RaceSettings) -> set[int]:
    """How many tokens a forward pass of a round may read at once, target or draft."""
    depth, nodes, width = proposal_depth(settings), settings.tree_nodes, settings.tree_width
    depths = range(1, depth + 1)  # the last rounds have no room for more
    if settings.proposal == "chain":
        scored = set(range(2, depth + 2))
    elif settings.proposal == "static_tree":
        scored = {static_size(deep) + 1 for deep in depths}
    else:
        scored = {min(nodes, width + (deep - 1) * width**2) + 1 for deep in depths}
    return draft_shapes(settings) | scored


def draft_shapes(settings: RaceSettings) -> set[int]:
    """How many tokens a draft's forward pass may read at once."""
    few = {1, 2}  # what it reads of the text: the target's own token, and before it a token that was accepted unread
    if settings.proposal == "chain":
        return few
    if settings.proposal == "dynamic_tree":
        return few | {settings.tree_width}
    levels = static_levels(STATIC_DEPTH, torch.device("cpu"))
    return few | {len(level.read) for level in levels if len(level.read)}


def sampling_of(settings: RaceSettings) -> Sampling | None:
    """How the lanes sample; None: greedily."""
    return Sampling(settings.temperature, settings.top_p) if settings.temperature > 0 else None


def open_drafter(
    settings: RaceSettings,
    stream: Stream,
    last: torch.Tensor,
    vocabulary: int,
    calibration: Calibration | None,
    generator: torch.Generator | None,
) -> Drafter:
    """The drafter that the settings ask for; see ChainDrafter for the arguments."""
    sampling = sampling_of(settings)
    if settings.proposal == "dynamic_tree":
        nodes, width = settings.tree_nodes, settings.tree_width
        drafter = DynamicTreeDrafter(stream, last, vocabulary, calibration, nodes, width, settings.adaptive)
    elif settings.proposal == "static_tree":
        drafter = StaticTreeDrafter(stream, last, vocabulary, calibration, sampling, generator)
    else:
        line = calibration.threshold_for(settings.anchor_quantile) if calibration else 0.0
        drafter = ChainDrafter(stream, last, vocabulary, calibration, settings.adaptive, sampling, generator, line)
    drafter.keeps = settings.details
    return drafter
