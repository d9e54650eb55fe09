"""How the bundled models are trained: sizes, stages, and what a model starts from."""

from __future__ import annotations

from dataclasses import dataclass

from lvspec_core.shapes.architectures import Architecture
from lvspec_core.shapes.models import LLAVA, QWEN


@dataclass(frozen=True)
class Stage:
    """Part of a training. ``layers``: LM layers in this stage; ``through``: through how many of them a step runs, 0 for all (fewer: those
    that were there before the model was deepened; the others, which carry little, rest); ``visual_weight``: how much more a visual word's
    loss counts at the stage's start (it falls to 1 at its middle); ``pruned``: share of batches whose clips lose a random part of their
    video tokens; ``tiles``: weight of the tile reader's loss; ``deep``: of the one that reads the language model half-way up; ``taught``:
    weight of the distance to the teacher's video tokens; ``glances``: further scenes in a step, each seen for a moment only, whose tiles
    alone are read (a clip shows the same few objects in every frame, a glance new ones); ``words``: whether captions are trained, or the
    tower alone; ``short``: share of batches that ask for the facts alone; ``frames``: frame counts to draw from; ``counts``: of a scene's
    objects, to draw from; ``stressed``: attributes whose words' loss counts STRESS times as much."""

    layers: int
    steps: int
    batch: int
    learning_rate: float
    visual_weight: float = 1.0
    pruned: float = 0.0
    tiles: float = 0.0
    deep: float = 0.0
    taught: float = 0.0
    glances: int = 0
    words: bool = True
    short: float = 0.1
    frames: tuple[int, ...] = (8,)
    bfloat16: bool = True
    through: int = 0
    counts: tuple[int, ...] = (1, 2, 3)
    stressed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recipe:
    """A model's sizes and its stages. ``teacher``: name of a bundled pair whose model of the same role gives its language layers to
    start from, and teaches the tower; "" for a training from scratch."""

    architecture: Architecture
    vision_layers: int
    vision_hidden: int
    stages: tuple[Stage, ...]
    seed: int
    teacher: str = ""


STRESS = 3.0
ANY_FRAMES = (8, 8, 8, 6, 10, 12)
# a shape is said right of an object alone, and less often where others are there to be mixed up with it
CROWDED = {"counts": (1, 2, 3, 3, 3), "stressed": ("shape",)}
RECIPES = {
    "shapes-qwen": {
        "target": Recipe(
            QWEN,
            3,
            96,
            (
                Stage(4, 600, 32, 2e-3, tiles=1.0, words=False),
                Stage(4, 600, 32, 1e-3, tiles=0.3, short=1.0),
                Stage(4, 1800, 32, 1e-3, tiles=0.3, visual_weight=4),
                Stage(36, 400, 32, 6e-4, tiles=0.3, visual_weight=3, frames=ANY_FRAMES),
                Stage(36, 200, 24, 8e-4, tiles=1.0, visual_weight=4, bfloat16=False),
                Stage(36, 600, 32, 8e-4, tiles=1.0, visual_weight=4, frames=ANY_FRAMES, bfloat16=False, through=4),
                Stage(36, 40, 24, 3e-4, tiles=0.5, visual_weight=2, frames=ANY_FRAMES, bfloat16=False),
            ),
            seed=1,
        ),
        "draft": Recipe(
            QWEN,
            2,
            64,
            (
                Stage(2, 1000, 32, 1e-3, short=1.0),
                Stage(2, 2200, 32, 1e-3, visual_weight=4),
                Stage(2, 1000, 32, 5e-4, pruned=0.6, frames=ANY_FRAMES, bfloat16=False),
                Stage(2, 800, 32, 1e-3, tiles=0.5, visual_weight=3, pruned=0.4, frames=ANY_FRAMES),
                Stage(2, 1000, 32, 1.5e-3, tiles=1.0, visual_weight=4, pruned=0.4, frames=ANY_FRAMES),
            ),
            seed=2,
        ),
    },
    "shapes-llava": {
        "target": Recipe(
            LLAVA,
            3,
            96,
            (
                Stage(4, 500, 32, 2e-3, tiles=1.0, taught=1.0, words=False, bfloat16=False),
                Stage(4, 400, 32, 1e-3, tiles=0.5, visual_weight=4, frames=ANY_FRAMES, bfloat16=False),
                Stage(4, 1000, 32, 1e-3, tiles=0.5, deep=1.0, visual_weight=3, frames=ANY_FRAMES, bfloat16=False),
                Stage(36, 120, 24, 6e-4, tiles=0.5, visual_weight=3, frames=ANY_FRAMES, bfloat16=False),
                Stage(36, 500, 32, 1e-3, tiles=1.0, deep=1.0, visual_weight=4, frames=ANY_FRAMES, bfloat16=False, through=4),
                Stage(36, 60, 24, 3e-4, tiles=0.5, visual_weight=2, frames=ANY_FRAMES, bfloat16=False),
                Stage(36, 1200, 32, 1e-3, tiles=1.0, deep=1.0, visual_weight=4, frames=ANY_FRAMES, bfloat16=False, through=4),
                Stage(36, 60, 24, 3e-4, tiles=0.5, visual_weight=2, frames=ANY_FRAMES, bfloat16=False),
                Stage(
                    36,
                    1000,
                    32,
                    1e-3,
                    tiles=1.0,
                    deep=1.0,
                    glances=64,
                    visual_weight=4,
                    short=0.3,
                    frames=ANY_FRAMES,
                    bfloat16=False,
                    through=4,
                    **CROWDED,
                ),
                Stage(36, 60, 24, 3e-4, tiles=0.5, visual_weight=2, frames=ANY_FRAMES, bfloat16=False, **CROWDED),
            ),
            seed=3,
            teacher="shapes-qwen",
        ),
        "draft": Recipe(
            LLAVA,
            2,
            64,
            (
                Stage(2, 500, 32, 2e-3, tiles=1.0, taught=1.0, words=False, bfloat16=False),
                Stage(2, 800, 32, 1e-3, tiles=0.5, visual_weight=4, pruned=0.4, frames=ANY_FRAMES, bfloat16=False),
                Stage(2, 1000, 32, 1e-3, tiles=0.5, deep=1.0, visual_weight=3, pruned=0.4, frames=ANY_FRAMES, bfloat16=False),
            ),
            seed=4,
            teacher="shapes-qwen",
        ),
    },
}
