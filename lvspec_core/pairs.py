"""Loading a target/draft pair, and what makes two models a pair."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError

from lvspec_core.errors import PairError
from lvspec_core.families import FAMILIES
from lvspec_core.families.base import VideoLM
from lvspec_core.proposals import round_shapes
from lvspec_core.registry import PAIRS, PairInfo, pair_info
from lvspec_core.relevance import Calibration
from lvspec_core.settings import RaceSettings
from lvspec_core.video import VideoClip

__all__ = ["PAIRS", "Pair", "PairInfo", "load_pair", "pair_info"]


@dataclass
class Pair:
    """A loaded pair. ``vocabulary``: token ids below it exist in both models. ``calibration`` None: LVSpec verifies strictly;
    ``calibration_failed``: it was tried, and no scorer separates."""

    info: PairInfo
    target: VideoLM
    draft: VideoLM
    vocabulary: int
    calibration: Calibration | None
    warmed: set[int] = field(default_factory=set)
    calibration_failed: bool = False

    @property
    def uncalibrated(self) -> bool:
        """Whether it was never calibrated, here or by another process meanwhile."""
        if self.calibration is None and not self.calibration_failed:
            found = Calibration.read(self.info.calibration)
            self.calibration = found if found and self.suits(found) else None
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
            "target": self._short(info.target),
            "draft": self._short(info.draft),
            "notice": info.notice,
            "bundled": info.bundled,
            "relevance": self.calibration.to_dict() if self.calibration else None,
            "strict_notice": self.strict_notice,
        }

    def _short(self, source: str) -> str:
        """A hub name as it is; of a folder only the end, so that no machine's paths reach a race file."""
        return "/".join(Path(source).parts[-2:])

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


def load_pair(pair: str | PairInfo, warm: bool = True) -> Pair:
    """Loads a pair, or hands out the loaded one. PairError with one sentence if a model is missing, broken, or does not fit
    the other. Bundled pairs stay in memory; of the others only the last one does, as two may not fit. ``warm`` False: without a
    pass through it, where there is no GPU yet."""
    info = pair if isinstance(pair, PairInfo) else pair_info(pair)
    if info not in _loaded:
        if not info.bundled:
            _forget_others()
        pair = _load(info)
        if warm:
            pair.warm(round_shapes(RaceSettings()))
        _loaded[info] = pair
        # Everything loaded lives as long as the process: a full collection in the middle of a race need not walk it.
        gc.collect()
        gc.freeze()
    return _loaded[info]


def _forget_others() -> None:
    others = [info for info in _loaded if not info.bundled]
    for info in others:
        del _loaded[info]
    if others:
        gc.unfreeze()
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _load(info: PairInfo) -> Pair:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    precision = info.precision or ("bfloat16" if device.type == "cuda" else "float32")
    calibration = Calibration.read(info.calibration)
    target = _load_model(info, "target", getattr(torch, precision), device)
    draft = target if info.draft == info.target else _load_model(info, "draft", getattr(torch, precision), device)
    if target.tokenizer.get_vocab() != draft.tokenizer.get_vocab():
        raise PairError(f"The target and the draft of {info.name} have different tokenizers; a pair must share one.")
    if not target.same_sight(draft):
        raise PairError(f"The target and the draft of {info.name} cut videos into different patches; a pair must share them.")
    pair = Pair(info, target, draft, min(target.vocabulary, draft.vocabulary), calibration)
    if calibration and not pair.suits(calibration):
        raise PairError(f"The calibration of {info.name} was made for another draft; delete {info.calibration.name} or calibrate again.")
    return pair


def _load_model(info: PairInfo, role: str, dtype: torch.dtype, device: torch.device) -> VideoLM:
    source = getattr(info, role)
    folder = Path(source)
    if (info.bundled or folder.is_absolute()) and not (folder / "config.json").is_file():
        raise PairError(f"The {role} of {info.name} is missing; get the complete project again, its weights included.")
    try:
        return FAMILIES[info.family].load(source, dtype, device)
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise PairError(f"The {role} of {info.name} does not fit into memory; choose a smaller pair.") from error
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, SafetensorError) as error:
        if folder.is_absolute():
            raise PairError(f"The {role} of {info.name} cannot be read; its files are damaged or incomplete.") from error
        raise PairError(f"The {role} {source} cannot be loaded; is it in the hub's cache, or the hub within reach?") from error
