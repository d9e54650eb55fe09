"""A request of lmms-eval as a race of one method: the same code and clock as the page's. Nothing here needs lmms-eval."""

from __future__ import annotations

import gc
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lvspec_core import __version__
from lvspec_core.decoding import METHODS
from lvspec_core.errors import DataError, SettingsError, VideoError
from lvspec_core.evaluation.racing import parts_of_race, warm_up
from lvspec_core.evaluation.results import Result, failed_result, sample_result
from lvspec_core.evaluation.samples import Sample
from lvspec_core.lmms.generation import Generation
from lvspec_core.own_texts import calibrate_first
from lvspec_core.pairs import Pair
from lvspec_core.race import environment, run_race
from lvspec_core.records import LaneEnd, Round, Start
from lvspec_core.settings import RaceSettings
from lvspec_core.video import VideoClip, read_video

log = logging.getLogger(__name__)
PLACEHOLDERS = ("<image>", "<video>")  # some tasks mark with them where a model's picture goes; the chat template knows that here
STOPPED = "stop string"


@dataclass(frozen=True)
class Asked:
    """A request: the question about one video of a task's data set. ``repeat``: 0, or how often it was asked before."""

    task: str
    split: str
    index: int
    question: str
    video: Path
    generation: Generation
    repeat: int = 0


def video_of(visuals: Any) -> Path:
    """The one video that a task hands over with a question; DataError with one sentence where it is anything else."""
    if visuals is None or (isinstance(visuals, Sequence) and not visuals):
        raise DataError("The task asks a question without a video; these models answer questions about one video.")
    visuals = [visuals] if isinstance(visuals, str | Path) else list(visuals)
    if len(visuals) > 1:
        raise DataError(f"The task hands over {len(visuals)} visuals with one question; these models take one video.")
    (visual,) = visuals
    if isinstance(visual, dict):
        raise DataError("The task asks about a part of a video, or about sound; these models take one whole video file.")
    if not isinstance(visual, str | Path):
        raise DataError(f"The task hands over a picture ({type(visual).__name__}); these models take one video file.")
    return Path(visual)


def plain_question(context: str) -> str:
    """A request's text without the marks for a picture."""
    for mark in PLACEHOLDERS:
        context = context.replace(mark, "")
    return context.strip()


class Watch:
    """Reads an answer as it grows; a stop string ends the race within a round of its appearing."""

    def __init__(self, generation: Generation) -> None:
        self.generation, self.text = generation, ""

    def read(self, record: Round) -> None:
        if self.generation.stops:
            self.text += "".join(token.text for token in record.tokens)

    def stopped(self) -> bool:
        return self.generation.cut(self.text)[1]


class Runner:
    """Races requests one after another. What a process does only once is paid for by a short race that is not counted; a pair that
    was never calibrated does that on the first clip where LVSpec needs it."""

    def __init__(self, pair: Pair, settings: RaceSettings) -> None:
        self.pair, self.settings = pair, settings
        (self.method,) = settings.methods
        self.environment = {"lvspec": __version__, **environment(pair)}
        self._warm = False

    def result(self, asked: Asked) -> Result:
        """The record of the race, with the answer as ``output``. A video that cannot be read, and a lane that fails, are records that
        say why; what would fail for every sample (a setting, memory) is raised as a UserError."""
        settings, about = self._settings(asked)
        sample = Sample(asked.video.name, asked.video, asked.question, index=asked.index)
        try:
            clip = read_video(asked.video, settings.frames)
        except VideoError as error:
            return failed_result(sample, self.method, str(error), about)
        self._prepare(clip, settings)
        start, lane, text, stopped = self._race(clip, settings, asked.generation)
        if stopped:
            lane = replace(lane, text=text, finish=STOPPED)
        # off every clock, as in the race process: what a race held goes here, not in the middle of the next one
        gc.collect()
        return sample_result(sample, lane, start.video, about, None, None)

    def _settings(self, asked: Asked) -> tuple[RaceSettings, dict]:
        """The race's settings, and what its record says of them; repeated questions draw with other random numbers."""
        wanted = asked.generation
        settings = replace(self.settings, max_new_tokens=wanted.max_new_tokens, temperature=wanted.temperature, top_p=wanted.top_p)
        told = settings.to_dict()
        del told["question"]
        place = {"task": asked.task, "split": asked.split, "repeat": asked.repeat}
        about = {**place, "pair": self.settings.pair, "settings": told, "environment": self.environment}
        seed = (settings.seed + asked.repeat) % 2**31
        return replace(settings, question=asked.question, seed=seed).validated(), about

    def _prepare(self, clip: VideoClip, settings: RaceSettings) -> None:
        if self._warm:
            return
        if METHODS[self.method].loose:
            if self.pair.uncalibrated:
                log.warning("The pair was never calibrated; that is done on the first clip.")
                for _ in calibrate_first(self.pair, clip, settings):
                    pass
            if self.pair.strict_notice:
                log.warning(self.pair.strict_notice)
        warm_up(self.pair, clip, settings)
        self._warm = True

    def _race(self, clip: VideoClip, settings: RaceSettings, generation: Generation) -> tuple[Start, LaneEnd, str, bool]:
        """The race's start and its lane's end, the answer, and whether a stop string ended it."""
        watch, records = Watch(generation), []
        for record in run_race(self.pair, clip, settings, watch.stopped):
            records.append(record)
            if isinstance(record, Round):
                watch.read(record)
        start, lanes, _ = parts_of_race(records)
        lane = lanes[self.method]
        answer, stopped = generation.cut(lane.text)
        return start, lane, answer, stopped


def check_calibrated(pair: Pair, settings: RaceSettings, processes: int) -> None:
    """SettingsError where several processes would each draw a line between anchors and fillers of their own."""
    if processes > 1 and METHODS[settings.methods[0]].loose and pair.uncalibrated:
        raise SettingsError(
            f"The pair {pair.info.name} was never calibrated, and several processes would not find the same line; run"
            " `python -m lvspec_core calibrate --pair NAME --clips FOLDER`, or one process, first."
        )
