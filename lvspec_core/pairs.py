"""The target/draft pairs that can race, and how one is loaded."""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError

from lvspec_core.errors import PairError
from lvspec_core.families import FAMILIES
from lvspec_core.families.base import VideoLM
from lvspec_core.relevance import Calibration

ASSETS = Path(__file__).resolve().parent.parent / "assets"
SHAPES_NOTICE = (
    "This small pair understands clips of moving shapes only; on any other video its words will not describe what is shown. "
    "Load a real pair for other videos."
)


@dataclass(frozen=True)
class PairInfo:
    """A pair before it is loaded. ``target`` and ``draft``: folder or hub name. ``notice``: one sentence a user must know, or "".

    ``folder``: where the pair's calibration (``pair.json``) lies. ``precision``: a torch dtype by name, None for float32 on a
    CPU and bfloat16 on a GPU. ``max_frames``: more frames are not worth asking of this pair.
    """

    name: str
    title: str
    family: str
    target: str
    draft: str
    notice: str = ""
    bundled: bool = False
    max_frames: int = 128
    precision: str | None = None
    folder: str = ""

    @property
    def calibration(self) -> Path:
        return Path(self.folder or ASSETS / self.name) / "pair.json"


PAIRS = {
    pair.name: pair
    for pair in (
        PairInfo(
            name="shapes-qwen",
            title="Shapes · Qwen2.5-VL (bundled)",
            family="qwen2_5_vl",
            target=str(ASSETS / "shapes-qwen" / "target"),
            draft=str(ASSETS / "shapes-qwen" / "draft"),
            notice=SHAPES_NOTICE,
            bundled=True,
            max_frames=32,
            precision="float32",
        ),
        PairInfo(
            name="qwen2.5-vl-7b",
            title="Qwen2.5-VL 7B with 3B",
            family="qwen2_5_vl",
            target="Qwen/Qwen2.5-VL-7B-Instruct",
            draft="Qwen/Qwen2.5-VL-3B-Instruct",
            notice="This pair needs a GPU with about 32 GB of memory.",
        ),
        PairInfo(
            name="qwen2.5-vl-32b",
            title="Qwen2.5-VL 32B with 7B",
            family="qwen2_5_vl",
            target="Qwen/Qwen2.5-VL-32B-Instruct",
            draft="Qwen/Qwen2.5-VL-7B-Instruct",
            notice="This pair needs a GPU with about 100 GB of memory.",
        ),
    )
}


@dataclass
class Pair:
    """A loaded pair. ``vocabulary``: token ids below it exist in both models. ``calibration`` None: LVSpec verifies strictly."""

    info: PairInfo
    target: VideoLM
    draft: VideoLM
    vocabulary: int
    calibration: Calibration | None
    warmed: set[int] = field(default_factory=set)

    @property
    def strict_notice(self) -> str:
        if self.calibration is not None:
            return ""
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
    def warm(self, draft_length: int) -> None:
        """Runs every shape of a round once, so that no lane pays for what a library sets up on first use."""
        missing = set(range(1, draft_length + 2)) - self.warmed
        if not missing:
            return
        for model in (self.target, self.draft):
            cache = model.new_cache(64 + max(missing))
            ids = torch.ones(32, dtype=torch.long, device=model.device)
            model.run(model.embed(ids)[None], model.rotary(torch.arange(32).expand(3, -1)), cache)
            for rows in sorted(missing):
                cos, sin = model.rotary(torch.arange(32, 32 + rows).expand(3, -1))
                mask = model.causal_mask(rows, cache) if rows > 1 else None
                hidden = model.run(model.embed(ids[:1].expand(rows))[None], (cos, sin), cache, mask)
                model.head(hidden[0]).topk(min(5, model.vocabulary))
                cache.rollback(32)
        self.warmed |= missing


_loaded: dict[PairInfo, Pair] = {}


def pair_info(name: str) -> PairInfo:
    """The pair of this name; PairError naming the known ones."""
    if name not in PAIRS:
        raise PairError(f"Unknown pair {name!r}; choose among {', '.join(PAIRS)}.")
    return PAIRS[name]


def load_pair(pair: str | PairInfo) -> Pair:
    """Loads a pair, once per process. PairError with one sentence if a model is missing, broken, or does not fit the other."""
    info = pair if isinstance(pair, PairInfo) else pair_info(pair)
    if info not in _loaded:
        _loaded[info] = _load(info)
        # Everything loaded lives as long as the process: a full collection in the middle of a race need not walk it.
        gc.collect()
        gc.freeze()
    return _loaded[info]


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
    return Pair(info, target, draft, min(target.vocabulary, draft.vocabulary), calibration)


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
