"""Clips of the shapes world as the video reader would hand them over, by number: the same number is the same clip, always."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from lvspec_core.shapes.captions import Word, write_caption
from lvspec_core.shapes.data import HELD_OUT_SEED
from lvspec_core.shapes.render import render
from lvspec_core.shapes.scene import Scene, sample_scene
from lvspec_core.video import VideoClip

CALIBRATION_SEED = 3_000_017  # apart from training and from the held-out clips that results are reported on
SIDE, RATE = 224, 24


def captioned_clips(numbers: Iterable[int], seed: int) -> Iterator[tuple[Scene, VideoClip, list[Word]]]:
    """Clips of a seed, each with the scene it shows and one caption, the same always."""
    for number in numbers:
        scene, clip = world_clip(number, seed=seed)
        yield scene, clip, write_caption(scene, np.random.default_rng((seed, number, 1)))


def world_clip(number: int, frames: int = 8, seed: int = HELD_OUT_SEED) -> tuple[Scene, VideoClip]:
    """Clip ``number`` of a seed, and the scene it shows; frames stand in the middles of equal parts, as the reader samples."""
    scene = sample_scene(np.random.default_rng((seed, number)))
    shares = (np.arange(frames) + 0.5) / frames
    clip = VideoClip(
        name=f"shapes-{number}",
        frames=render(scene, shares, SIDE),
        timestamps=tuple(float(share * scene.seconds) for share in shares),
        seconds=scene.seconds,
        fps=float(RATE),
        width=SIDE,
        height=SIDE,
        frame_count=round(scene.seconds * RATE),
        reader="rendered",
    )
    return scene, clip
