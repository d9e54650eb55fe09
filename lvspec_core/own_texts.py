"""Calibrating a pair that knows no ground truth: on texts that its own target writes, judged by `contrast` [ours].

A position is visual where the target's next word changes when it is shown other clips. ``calibrate --clips FOLDER`` does so on a
user's clips; a pair that was never calibrated does it on the clip of its first race, before the race begins.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from lvspec_core.decoding import decode
from lvspec_core.errors import SettingsError, VideoError
from lvspec_core.pair_file import note_failure
from lvspec_core.pairs import Pair
from lvspec_core.prefill import open_lane
from lvspec_core.pruning import keep_count, uniform_keep
from lvspec_core.records import Preparing
from lvspec_core.registry import ASSETS
from lvspec_core.relevance import Calibration
from lvspec_core.relevance.fitting import FITTED_ON, RECALL, compare, fit, gather
from lvspec_core.relevance.reading import Reading
from lvspec_core.relevance.scorers import OTHER, SCORERS, contrast
from lvspec_core.settings import DEFAULT_QUESTION, RaceSettings
from lvspec_core.video import VideoClip, read_video

OTHERS = 3  # clips that are put in a clip's place
VISUAL_CONTRAST = 0.1  # bits from which `contrast` counts a position as visual; chosen on the shapes world (METHODS.md)
TRUTH = f"contrast of at least {VISUAL_CONTRAST} bits"
WORDS = 192  # tokens of a text
# what the target is asked about a first race's clip, beside the visitor's question: one text alone is too little to go by
QUESTIONS = (DEFAULT_QUESTION, "What is shown in the video?", "What happens in this clip?", "Please describe what you see.")

CALIBRATING = "Finding out which words this pair takes from the video (once per pair)"

log = logging.getLogger(__name__)
Labelled = tuple[Reading, np.ndarray]


@dataclass(frozen=True)
class Task:
    """A text to be written: about which clip, answering what, and which clips are put in its place to see what changes."""

    clip: VideoClip
    question: str
    others: tuple[VideoClip, ...]


def tasks_of(clips: Sequence[VideoClip], question: str) -> list[Task]:
    """One text about each clip; the clips that follow it are those that take its place."""
    return [
        Task(clip, question, tuple(clips[(number + further) % len(clips)] for further in range(1, min(OTHERS + 1, len(clips)))))
        for number, clip in enumerate(clips)
    ]


def labelled(pair: Pair, task: Task, settings: RaceSettings) -> Labelled:
    """What the target writes, read by both models, and where `contrast` calls it visual, [n] bool."""
    ids = own_caption(pair, task.clip, replace(settings, question=task.question))
    reading = reading_of(pair, task.clip, ids, settings.pruning_ratio, task.others, task.question)
    moved = contrast(reading)
    return reading, moved.get(OTHER, moved["no video"]).cpu().numpy() >= VISUAL_CONTRAST


def calibrate_on(
    pair: Pair,
    clips: Sequence[VideoClip],
    settings: RaceSettings,
    names: Iterable[str] = tuple(SCORERS),
    progress: Callable[[Iterable], Iterable] = lambda work: work,
) -> tuple[Calibration | None, list[dict]]:
    """On a user's clips, at least two: the best live scorer's calibration, None if none separates; one row per scorer variant."""
    sample = gather((labelled(pair, task, settings) for task in progress(tasks_of(clips, settings.question))), names)
    calibration, rows = fit(sample)
    return calibration, rows + compare(sample)


def calibrate_first(
    pair: Pair, clip: VideoClip, settings: RaceSettings, should_stop: Callable[[], bool] = lambda: False
) -> Iterator[Preparing]:
    """Calibrates a pair that never was on its first race's clip, and keeps the result beside the pair; yields one record before
    each text and one at the end. Where it fails the pair stays without: LVSpec then verifies strictly, and says so."""
    questions = list(dict.fromkeys((settings.question, *QUESTIONS)))[: len(QUESTIONS)]
    tasks = [Task(clip, question, sample_clips(settings.frames)) for question in questions]
    found: list[Labelled] = []
    try:
        for done, task in enumerate(tasks):
            yield Preparing(CALIBRATING, done, len(tasks))
            if should_stop():
                return
            found.append(labelled(pair, task, replace(settings, max_new_tokens=WORDS, temperature=0.0)))
        sample = gather(found, ("draft_attention",), one_clip=True)
        calibration, rows = fit(sample)
    except SettingsError:
        return  # the texts do not fit beside this video; another race may do better, and this one says itself what is wrong
    except Exception as error:
        log.error("The pair could not be calibrated.", exc_info=error)
        calibration = None
    yield Preparing(CALIBRATING, len(tasks), len(tasks))
    pair.calibration_failed = calibration is None
    if calibration:
        pair.calibration = calibration
        keep(pair, calibration, rows, {"truth": TRUTH, "clips": 1, "texts": len(tasks), "fitted_on": 0})
    else:
        try:
            note_failure(pair.info.calibration)
        except OSError as error:
            log.warning("That no scorer separates could not be kept: %s", error)


def keep(pair: Pair, calibration: Calibration, rows: list[dict], measured: dict) -> None:
    """Writes the choice beside the pair, with what it was measured on; where that cannot be written, it lasts as long as the process."""
    measured = {"fitted_on": FITTED_ON, "recall": RECALL, "pruning_ratio": RaceSettings.pruning_ratio, "scorers": rows, **measured}
    try:
        calibration.save(pair.info.calibration, measured)
    except OSError as error:
        log.warning("The calibration could not be kept: %s", error)


@cache
def sample_clips(frames: int) -> tuple[VideoClip, ...]:
    """A few of the bundled sample videos, to be put in a clip's place; none where the samples are not there."""
    clips = []
    for path in sorted((ASSETS / "samples").glob("*.mp4"))[:OTHERS]:
        try:
            clips.append(read_video(path, frames))
        except VideoError as error:
            log.warning("%s", error)
    return tuple(clips)


def reading_of(
    pair: Pair, clip: VideoClip, ids: list[int], pruning_ratio: float, others: Iterable[VideoClip] = (), question: str = DEFAULT_QUESTION
) -> Reading:
    """A text about a clip as the pair reads it, the draft seeing what LVSpec's draft sees; ``others``: clips to compare with."""
    prompt = pair.target.encode(clip, question)
    keep = uniform_keep(prompt.grid, keep_count(prompt.video_tokens, pruning_ratio))
    shown = [pair.target.encode(in_the_shape_of(clip, other), question) for other in others]
    return Reading(pair.target, pair.draft, prompt, ids, keep, shown)


def in_the_shape_of(clip: VideoClip, other: VideoClip) -> VideoClip:
    """The first clip with the other's pictures, stretched to its size: so that it takes as many video tokens."""
    count, height, width = clip.frames.shape[:3]
    which, rows, columns = (
        np.arange(wanted) * given // wanted for wanted, given in zip((count, height, width), other.frames.shape[:3], strict=True)
    )
    return replace(clip, frames=np.ascontiguousarray(other.frames[which][:, rows][:, :, columns]))


def own_caption(pair: Pair, clip: VideoClip, settings: RaceSettings) -> list[int]:
    """What the target alone writes about a clip."""
    asked = RaceSettings(question=settings.question, max_new_tokens=settings.max_new_tokens)
    lane = open_lane(pair, clip, asked, "ar", f"The target could not read {clip.name}")
    for _ in decode(lane):
        pass
    return lane.token_ids
