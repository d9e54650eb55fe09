"""Everything before the first round: the models read the prompt once, each lane gets its own caches."""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from lvspec_core.clock import wait
from lvspec_core.decoding import METHODS, Lane
from lvspec_core.drafting import NoDrafter
from lvspec_core.errors import PairError, SettingsError, UserError
from lvspec_core.families import graphs
from lvspec_core.families.base import Prompt, VideoLM
from lvspec_core.families.stream import Stream
from lvspec_core.graph_plan import draft_rows, target_rows
from lvspec_core.pairs import Pair
from lvspec_core.proposals import open_drafter, proposal_depth, sampling_of, spare_rows
from lvspec_core.pruning import VideoTokenAttention, keep_count, specvlm_keep, uniform_keep
from lvspec_core.records import Prefill
from lvspec_core.relevance import Annotator
from lvspec_core.sampling import Sampler
from lvspec_core.settings import METHODS as NAMES
from lvspec_core.settings import RaceSettings
from lvspec_core.verification import Rules
from lvspec_core.verifiers import LooseVerifier, StrictVerifier
from lvspec_core.video import VideoClip

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Part:
    """A piece of work and the lanes that pay for it. ``sight``: whether it settles what a lane's draft sees."""

    title: str
    lanes: tuple[str, ...]
    work: Callable[[], None]
    sight: bool = False


class Prefilling:
    """Runs the parts one by one and leaves ``lanes`` ready to race, ``annotators`` off their clocks, and ``failures``.

    The vision tower and the target's prefill run once and are paid for by every lane, as each would have to run them alone.
    """

    def __init__(self, pair: Pair, clip: VideoClip, settings: RaceSettings):
        self.pair = pair
        self.clip = clip
        self.settings = settings
        self.lanes: dict[str, Lane] = {}
        self.annotators: dict[str, Annotator] = {}
        self.failures: dict[str, str] = {}
        self.prompt: Prompt | None = None
        self._features: dict[str, torch.Tensor] = {}
        self._keep: dict[str, list[int] | None] = {}
        self._read: Stream | None = None  # the target at the end of the video
        self._target: dict[str, Stream] = {}
        self._draft: dict[str, Stream] = {}
        self._racing: dict[str, Stream] = {}  # targets of lanes that were made ready before the lanes were
        self._devices = {*pair.target.devices, *pair.draft.devices}
        self._recordable: list[VideoLM] = []  # models whose passes become CUDA graphs

    def run(self, should_stop: Callable[[], bool] = lambda: False) -> Iterator[Prefill]:
        parts = self._parts()
        for done, part in enumerate(parts, 1):
            lanes = tuple(name for name in part.lanes if name not in self.failures)
            if not lanes:
                continue
            if should_stop():
                return
            began = self._now()
            try:
                with torch.inference_mode():
                    part.work()
            except UserError:
                raise
            except Exception as error:
                self.failures.update(dict.fromkeys(lanes, sentence_for(error)))
                continue
            seconds = self._now() - began
            yield Prefill(part.title, seconds, lanes, done, len(parts), *(self._sight(part.lanes[0]) if part.sight else ()))
        with torch.inference_mode():
            self._open_lanes()

    def _parts(self) -> list[Part]:
        every = self.settings.methods
        drafting = tuple(name for name in every if METHODS[name].draft_sees)
        attended = tuple(name for name in every if METHODS[name].draft_sees == "attended")
        others = tuple(name for name in every if name not in attended)
        parts = [
            Part("patches", every, self._encode),
            Part("vision · target", every, lambda: self._see("target")),
            Part("video · target", every, self._read_video),
        ]
        if others:
            parts.append(Part("question · target", others, lambda: self._read_question(others)))
        for name in attended:
            parts.append(Part("question with attention · target", (name,), lambda name=name: self._attend(name)))
        if drafting:
            parts.append(Part("vision · draft", drafting, lambda: self._see("draft")))
        for name in drafting:
            title = f"{METHODS[name].draft_sees} video · draft"
            parts.append(Part(title, (name,), lambda name=name: self._read_draft(name), sight=True))
        models = (self.pair.target, self.pair.draft) if drafting else (self.pair.target,)
        self._recordable = [model for model in dict.fromkeys(models) if graphs.usable(model)]
        if self._recordable:
            parts += [Part("CUDA graphs", (name,), lambda name=name: self._record(name)) for name in every]
        return parts

    def _sight(self, lane: str) -> tuple[tuple[int, int, int], str]:
        """A record's ``grid`` and ``kept`` of what a lane's draft sees."""
        keep = self._keep.get(lane)
        if keep is None:
            return self.prompt.grid, ""
        seen = np.zeros(self.prompt.video_tokens, np.uint8)
        seen[keep] = 1
        return self.prompt.grid, base64.b64encode(np.packbits(seen).tobytes()).decode("ascii")

    def _encode(self) -> None:
        self.prompt = self.pair.target.encode(self.clip, self.settings.question)
        context = min(self.pair.target.context, self.pair.draft.context)
        length, new = len(self.prompt.ids), self.settings.max_new_tokens
        if length + new > context:
            raise SettingsError(
                f"The video and the question take {length:,} tokens, and with {new:,} new tokens that is more than the"
                f" {context:,} this pair can hold; use fewer frames, a shorter question or fewer new tokens."
            )

    def _see(self, role: str) -> None:
        self._features[role] = getattr(self.pair, role).video_features(self.prompt)

    @property
    def _room(self) -> int:
        return len(self.prompt.tail) + self.settings.max_new_tokens + spare_rows(self.settings)

    def _read_video(self) -> None:
        self._read = self.pair.target.prefill(self.prompt, self._features["target"], self._room)

    def _read_question(self, lanes: tuple[str, ...]) -> None:
        stream = self._read.fork()
        stream.read_tail(self.prompt)
        self._target.update(dict.fromkeys(lanes, stream))

    def _attend(self, lane: str) -> None:
        """SpecVLM's target reads the question under watch. Every lane's target reads it; only this lane's pays for the watch."""
        stream = self._read.fork()
        watch = VideoTokenAttention(stream.video)
        stream.append(self.prompt.tail.to(self.pair.target.device), watch)
        stream.rollback(stream.length - 1)
        self._target[lane] = stream
        self._keep[lane] = specvlm_keep(watch.scores, self.prompt.grid, self._kept)

    @property
    def _kept(self) -> int:
        return keep_count(self.prompt.video_tokens, self.settings.pruning_ratio)

    def _read_draft(self, lane: str) -> None:
        if METHODS[lane].draft_sees == "uniform":
            self._keep[lane] = uniform_keep(self.prompt.grid, self._kept)
        self._draft[lane] = self._prefilled_draft(self._keep.get(lane))

    def _prefilled_draft(self, keep: list[int] | None) -> Stream:
        stream = self.pair.draft.prefill(self.prompt, self._features["draft"], self._room, keep)
        stream.read_tail(self.prompt)
        return stream

    def _record(self, name: str) -> None:
        """Records the passes of a lane's rounds, on the streams that it races with."""
        method, settings = METHODS[name], self.settings
        if self.pair.target in self._recordable:
            self._racing[name] = self._target[name].fork()
            graphs.open_passes(self._racing[name], {target_rows(name, settings)})
        if method.draft_sees and self.pair.draft in self._recordable:
            draft = self._draft[name]
            watch = self.pair.calibration.watch(draft) if method.loose and self.pair.calibration else None
            graphs.open_passes(draft, draft_rows(name, settings), graphs.watched_layers(watch, draft.model))

    def _open_lanes(self) -> None:
        names = [name for name in self.settings.methods if name not in self.failures]
        if not names:
            return
        calibration, last = self.pair.calibration, self.last
        if calibration:
            # Every lane's tokens are scored by the draft as LVSpec's draft sees the video, so that scores can be compared.
            if "draft" not in self._features:
                self._see("draft")
            base = self._draft.get("lvspec") or self._prefilled_draft(uniform_keep(self.prompt.grid, self._kept))
            self.annotators = {name: Annotator(calibration, base.fork(), last) for name in names}
        for name in names:
            self.lanes[name] = self._lane(name, last)
        self._features.clear()

    def _lane(self, name: str, last: torch.Tensor) -> Lane:
        method, settings, pair = METHODS[name], self.settings, self.pair
        calibration = pair.calibration if method.loose else None
        sampling, generator, sampler = sampling_of(settings), None, None
        if sampling:
            # a lane draws the same alone as in company, and not what another lane draws
            generator = torch.Generator(last.device).manual_seed(settings.seed * len(NAMES) + NAMES.index(name))
            sampler = Sampler(sampling, generator)
        drafter, verifier = NoDrafter(last.device), StrictVerifier(sampler)
        if method.draft_sees:
            drafter = open_drafter(settings, self._draft[name], last, pair.vocabulary, calibration, generator)
        if calibration:
            threshold = calibration.threshold_for(settings.anchor_quantile)
            verifier = LooseVerifier(
                Rules(threshold, settings.plausibility, settings.top_k, settings.window, settings.entropy_gate, settings.shift),
                sampler,
            )
        depth = proposal_depth(settings)
        target = self._racing.pop(name, None) or self._target[name].fork()
        lane = Lane(name, target, drafter, verifier, last, settings.max_new_tokens, depth, pair.vocabulary)
        lane.details = settings.details
        return lane

    def target_before(self, lane: str) -> Stream:
        """A copy of the lane's target as it stood before the first round."""
        return self._target[lane].fork()

    @property
    def last(self) -> torch.Tensor:
        """[1] the last prompt token, with which the first round begins."""
        return self.prompt.tail[-1:].to(self.pair.target.device)

    def _now(self) -> float:
        for device in self._devices:
            wait(device)
        return time.perf_counter()


def open_lane(pair: Pair, clip: VideoClip, settings: RaceSettings, method: str, blame: str) -> Lane:
    """A lane on its own, after its prefill and before its first round. Where it fails: PairError, ``blame`` and why."""
    prefilling = Prefilling(pair, clip, replace(settings, methods=(method,)))
    for _ in prefilling.run():
        pass
    if prefilling.failures:
        raise PairError(f"{blame}: {prefilling.failures[method]}")
    return prefilling.lanes[method]


def sentence_for(error: Exception) -> str:
    """What a user is told of a lane that failed; the details go to the log."""
    if isinstance(error, UserError):
        return str(error)
    log.error("A lane failed.", exc_info=error)
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return "The memory did not suffice for this lane; use fewer frames or fewer lanes."
    return f"This lane failed with an internal error ({type(error).__name__}); the other lanes are not affected."
