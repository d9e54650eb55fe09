"""The target/draft pairs that can race, by name. Plain data: the page lists pairs without loading any library for models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lvspec_core.errors import PairError

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


def pair_info(name: str) -> PairInfo:
    """The pair of this name; PairError naming the known ones."""
    if name not in PAIRS:
        raise PairError(f"Unknown pair {name!r}; choose among {', '.join(PAIRS)}.")
    return PAIRS[name]
