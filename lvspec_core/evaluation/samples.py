"""A sample of a data set: a clip, a question about it, and what the data set holds for the right answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lvspec_core.evaluation.choices import asked
from lvspec_core.settings import DEFAULT_QUESTION

if TYPE_CHECKING:
    from lvspec_core.shapes.scene import Scene
    from lvspec_core.video import VideoClip


@dataclass(frozen=True)
class Sample:
    """``name``: the clip for a reader of the results. ``path``: the video, None for a clip of the shapes world, whose ``number`` it is.

    ``question``: as the data set puts it; ``options``: of a multiple-choice question, without letters; ``answer``: the right option's
    letter where there are options, else a text, "" where the data set gives none. ``span``: the part of the video that is asked about,
    in seconds, None for all of it. ``index``: its place in the data set.
    """

    name: str
    path: Path | None = None
    question: str = DEFAULT_QUESTION
    answer: str = ""
    options: tuple[str, ...] = ()
    span: tuple[float, float] | None = None
    number: int | None = None
    index: int = 0

    @property
    def prompt(self) -> str:
        """The question as the models get it: with its options, where it has any."""
        return asked(self.question, self.options)


def open_clip(sample: Sample, frames: int) -> tuple[VideoClip, Scene | None]:
    """The sample's clip, and what it shows where that is known; VideoError with one sentence if it cannot be read."""
    # only now: they import torch, which a report does without
    from lvspec_core.shapes.clips import world_clip
    from lvspec_core.video import read_video

    if sample.path is None:
        scene, clip = world_clip(sample.number, frames)
        return clip, scene
    return read_video(sample.path, frames, span=sample.span), None
