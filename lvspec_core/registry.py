"""The target/draft pairs that can race, by name. Plain data: the page lists pairs without loading any library for models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lvspec_core.checkpoints import CHECKPOINTS
from lvspec_core.errors import PairError

ASSETS = Path(__file__).resolve().parent.parent / "assets"
SHAPES_NOTICE = (
    "This small pair understands clips of moving shapes only; on any other video its words will not describe what is shown. "
    "Load a real pair for other videos."
)
QUANTISATIONS = ("", "8bit", "4bit")


@dataclass(frozen=True)
class PairInfo:
    """A pair before it is loaded. ``target`` and ``draft``: folder or hub name. ``notice``: one sentence a user must know, or "".

    ``folder``: where the pair's calibration (``pair.json``) lies. ``precision``: a torch dtype by name, None for what suits the
    device. ``max_frames``: more frames are not worth asking of this pair. ``family``: "" for a pair of one's own, whose
    configurations tell it. ``target_revision``, ``draft_revision``: commit, branch or tag on the hub, "" for the newest.
    ``quantise``: one of QUANTISATIONS. ``spread``: over all GPUs, as accelerate places it. ``own``: the user's, not the registry's.
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
    target_revision: str = ""
    draft_revision: str = ""
    quantise: str = ""
    spread: bool = False
    own: bool = False

    @property
    def calibration(self) -> Path:
        return Path(self.folder or ASSETS / self.name) / "pair.json"

    @property
    def alone(self) -> bool:
        """Whether the target drafts for itself."""
        return self.draft == self.target and self.draft_revision == self.target_revision

    def revision(self, role: str) -> str:
        return self.target_revision if role == "target" else self.draft_revision


def _shapes(name: str, title: str, family: str) -> PairInfo:
    """A bundled pair, trained on the shapes world."""
    roles = {role: str(ASSETS / name / role) for role in ("target", "draft")}
    return PairInfo(
        name, f"Shapes · {title} (bundled)", family, **roles, notice=SHAPES_NOTICE, bundled=True, max_frames=32, precision="float32"
    )


def _real(name: str, title: str, target: str, draft: str) -> PairInfo:
    """A pair of public checkpoints at the revisions that are known."""
    first, second = CHECKPOINTS[target], CHECKPOINTS[draft]
    return PairInfo(name, title, first.family, target, draft, target_revision=first.revision, draft_revision=second.revision)


def _alone(name: str, title: str, target: str) -> PairInfo:
    """Self-speculation: the target drafts for itself, on a pruned video."""
    return _real(f"{name}-self", f"{title} with itself", target, target)


QWEN, LLAVA = "Qwen/Qwen2.5-VL-{}-Instruct", "llava-hf/llava-onevision-qwen2-{}-ov-hf"

PAIRS = {
    pair.name: pair
    for pair in (
        _shapes("shapes-qwen", "Qwen2.5-VL", "qwen2_5_vl"),
        _shapes("shapes-llava", "LLaVA-OneVision", "llava_onevision"),
        _real("qwen2.5-vl-7b", "Qwen2.5-VL 7B with 3B", QWEN.format("7B"), QWEN.format("3B")),
        _real("qwen2.5-vl-32b", "Qwen2.5-VL 32B with 7B", QWEN.format("32B"), QWEN.format("7B")),
        _real("qwen2.5-vl-72b", "Qwen2.5-VL 72B with 7B", QWEN.format("72B"), QWEN.format("7B")),
        _real("llava-onevision-7b", "LLaVA-OneVision 7B with 0.5B", LLAVA.format("7b"), LLAVA.format("0.5b")),
        _real("llava-onevision-72b", "LLaVA-OneVision 72B with 7B", LLAVA.format("72b"), LLAVA.format("7b")),
        _alone("qwen2.5-vl-7b", "Qwen2.5-VL 7B", QWEN.format("7B")),
        _alone("qwen2.5-vl-32b", "Qwen2.5-VL 32B", QWEN.format("32B")),
        _alone("qwen2.5-vl-72b", "Qwen2.5-VL 72B", QWEN.format("72B")),
        _alone("llava-onevision-7b", "LLaVA-OneVision 7B", LLAVA.format("7b")),
        _alone("llava-onevision-72b", "LLaVA-OneVision 72B", LLAVA.format("72b")),
    )
}


def pair_info(name: str) -> PairInfo:
    """The pair of this name; PairError naming the known ones."""
    if name not in PAIRS:
        raise PairError(f"Unknown pair {name!r}; choose among {', '.join(PAIRS)}.")
    return PAIRS[name]
