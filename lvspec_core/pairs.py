"""Loading a target/draft pair, and what makes two models a pair."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from lvspec_core.errors import PairError
from lvspec_core.families.base import VideoLM
from lvspec_core.loading import Plan, device_and_type, load_models, plan
from lvspec_core.memory import Demand, Estimate, known_models
from lvspec_core.pair_file import calibration_due
from lvspec_core.proposals import round_shapes
from lvspec_core.registry import PAIRS, PairInfo, pair_info
from lvspec_core.relevance import Calibration
from lvspec_core.room import require, room_here
from lvspec_core.settings import RaceSettings
from lvspec_core.video import VideoClip

__all__ = ["PAIRS", "Pair", "PairInfo", "load_pair", "pair_info"]


@dataclass
class Pair:
    """A loaded pair. ``vocabulary``: token ids below it exist in both models. ``calibration`` None: LVSpec verifies strictly;
    ``calibration_failed``: it was tried, and no scorer separates. ``plan``: what was known of it before it was loaded."""

    info: PairInfo
    target: VideoLM
    draft: VideoLM
    vocabulary: int
    calibration: Calibration | None
    warmed: set[int] = field(default_factory=set)
    calibration_failed: bool = False
    plan: Plan | None = None

    def require(self, settings: RaceSettings, clip: VideoClip) -> Estimate | None:
        """PairError with one sentence if a race over this clip does not fit into what the device has left beside the weights."""
        if self.plan is None or self.info.bundled:
            return None
        count, height, width = clip.frames.shape[:3]
        demand = Demand(replace(settings, frames=count), height, width)
        return require(self.info, self.plan.models, demand, room_here(self.plan.dtype.itemsize), loaded=True)

    @property
    def notice(self) -> str:
        """One sentence that a user must know, or ""."""
        models = self.plan.models if self.plan else ()
        if models and models[1].parameters > models[0].parameters:
            return "The draft is larger than the target, so a guess costs more than the token that it saves."
        return self.info.notice

    @property
    def uncalibrated(self) -> bool:
        """Whether it was never calibrated, here or by another process meanwhile."""
        if self.calibration is None and not self.calibration_failed:
            found = Calibration.read(self.info.calibration)
            self.calibration = found if found and self.suits(found) else None
            self.calibration_failed = found is None and not calibration_due(self.info.calibration)
        return self.calibration is None and not self.calibration_failed

    def suits(self, calibration: Calibration) -> bool:
        """Whether it was made for a draft of this shape."""
        decoder = self.draft.decoder.config
        return calibration.fits(decoder.hidden_size, decoder.num_hidden_layers)

    @property
    def strict_notice(self) -> str:
        if self.calibration is not None:
            return ""
        if self.calibration_failed:
            return "No relevance scorer tells this pair’s anchors from its fillers, so LVSpec verifies every token strictly."
        return "No relevance scorer is calibrated for this pair, so LVSpec verifies every token strictly."

    def describe(self) -> dict:
        """The pair as the Start record tells it."""
        info = self.info
        return {
            "name": info.name,
            "title": info.title,
            "family": info.family,
            "target": short(info.target),
            "draft": short(info.draft),
            "revisions": {role: info.revision(role) for role in ("target", "draft") if info.revision(role)},
            "quantised": info.quantise,
            "notice": self.notice,
            "bundled": info.bundled,
            "relevance": self.calibration.to_dict() if self.calibration else None,
            "strict_notice": self.strict_notice,
        }

    @torch.inference_mode()
    def warm(self, shapes: Iterable[int]) -> None:
        """Runs every shape of a round (tokens in one pass) once, so that no lane pays for what a library sets up on first use."""
        missing = set(shapes) - self.warmed
        if not missing:
            return
        if not self.warmed:
            self._warm_prefill()
        for model in (self.target, self.draft):
            cache = model.new_cache(64 + max(missing))
            ids = torch.ones(32, dtype=torch.long, device=model.device)
            model.run(model.embed(ids)[None], model.rotary(model.row_of_positions(0, 32)), cache)
            for rows in sorted(missing):
                cos, sin = model.rotary(model.row_of_positions(32, 32 + rows))
                mask = model.causal_mask(rows, cache) if rows > 1 else None
                hidden = model.run(model.embed(ids[:1].expand(rows))[None], (cos, sin), cache, mask)
                model.head(hidden[0]).topk(min(5, model.vocabulary))
                cache.rollback(32)
        self.warmed |= missing

    def _warm_prefill(self) -> None:
        grey = np.full((2, 112, 112, 3), 128, np.uint8)
        prompt = self.target.encode(VideoClip("grey", grey, (0.0, 1.0), 2.0, 1.0, 112, 112, 2, "none"), "What?")
        for model in (self.target, self.draft):
            model.prefill(prompt, model.video_features(prompt), len(prompt.tail)).append(prompt.tail.to(model.device))


_loaded: dict[PairInfo, Pair] = {}


def load_pair(pair: str | PairInfo, settings: RaceSettings | None = None, warm: bool = True) -> Pair:
    """Loads a pair, or hands out the loaded one. PairError with one sentence if a model is missing, broken, does not fit the other, or
    if a race with these settings would not fit into memory: that is told before any weights are loaded. Bundled pairs stay in
    memory; of the others only the last one does, as two may not fit. ``warm`` False: without a pass through it. Without
    settings too, its weights are placed where there is no GPU yet: then the device is not asked what it has."""
    info = pair if isinstance(pair, PairInfo) else pair_info(pair)
    if info not in _loaded:
        demand = Demand(settings or RaceSettings()) if settings or warm else None
        known = None if info.own else known_models(info)
        if known and demand:  # not even the hub need be asked
            room = room_here(device_and_type(info)[1].itemsize)
            require(info, known, demand, room.with_more(sum(_weights(pair) for pair in _loaded.values() if not pair.info.bundled)))
        made = plan(info)
        if not info.bundled:
            _forget_others()
        pair = _load(info, made, demand)
        if warm:
            pair.warm(round_shapes(RaceSettings()))
        _loaded[info] = pair
        # Everything loaded lives as long as the process: a full collection in the middle of a race need not walk it.
        gc.collect()
        gc.freeze()
    return _loaded[info]


def forget(info: PairInfo) -> None:
    """Frees a pair's memory, once nobody else holds it; bundled pairs stay."""
    _forget([each for each in _loaded if each.name == info.name and not each.bundled])


def _weights(pair: Pair) -> int:
    """Bytes of a loaded pair, which are free once it is forgotten."""
    models = dict.fromkeys((pair.target.model, pair.draft.model))
    return sum(parameter.nbytes for model in models for parameter in model.parameters())


def _forget_others() -> None:
    _forget([info for info in _loaded if not info.bundled])


def _forget(others: list[PairInfo]) -> None:
    for info in others:
        del _loaded[info]
    if others:
        gc.unfreeze()
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _load(info: PairInfo, made: Plan, demand: Demand | None) -> Pair:
    calibration = Calibration.read(info.calibration)
    target, draft = load_models(info, made, demand)
    if not target.same_sight(draft):
        raise PairError(f"The target and the draft of {info.name} cut videos into different patches; a pair must share them.")
    if target.tokenizer.get_vocab() != draft.tokenizer.get_vocab():
        raise PairError(f"The target and the draft of {info.name} have different tokenizers; a pair must share one.")
    told = replace(info, family=made.family)
    pair = Pair(told, target, draft, min(target.vocabulary, draft.vocabulary), calibration, plan=made)
    if calibration and not pair.suits(calibration):
        raise PairError(f"The calibration of {info.name} was made for another draft; delete {info.calibration.name} or calibrate again.")
    return pair


def short(source: str) -> str:
    """A hub name as it is; of a folder only the end, so that no machine's paths reach a race file."""
    return "/".join(Path(source).parts[-2:])
