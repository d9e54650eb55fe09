"""How the families' processors turn frames into video tokens: arithmetic on plain values, so that it needs no library for models.

Tests compare it with the processors themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

# the largest frame that the video reader hands on, in pixels
LARGEST = (448, 448)


@dataclass(frozen=True)
class Sight:
    """``step``: frames that share their tokens. ``factor``: a token stands for factor × factor pixels of a frame scaled to between
    ``least`` and ``most`` pixels; 0: every frame is scaled to the same size and takes ``fixed`` tokens. ``extra``: tokens after all.
    ``patches``: that the vision tower reads per token, or per step where ``factor`` is 0; ``values``: pixel values of a patch.
    ``held``: hidden states that the tower keeps to its end, beside the one in work. ``inner``: tensors as wide as its MLP that are
    alive at once; ``single``: bytes that a hidden value takes in single precision while queries and keys are rotated.
    """

    step: int
    factor: int
    least: int
    most: int
    fixed: int
    extra: int
    patches: int
    values: int
    held: int
    inner: int
    single: int

    def tokens(self, frames: int, height: int = LARGEST[0], width: int = LARGEST[1]) -> int:
        """Video tokens of so many frames of this size, in pixels."""
        steps = math.ceil(frames / self.step)
        return steps * (self._per_step(height, width) if self.factor else self.fixed) + self.extra

    def patch_count(self, frames: int, height: int = LARGEST[0], width: int = LARGEST[1]) -> int:
        """Patches of so many frames of this size."""
        steps = math.ceil(frames / self.step)
        return steps * self.patches * (self._per_step(height, width) if self.factor else 1)

    def _per_step(self, height: int, width: int) -> int:
        rows, columns = smart_size(height, width, self.factor, self.least, self.most)
        return (rows // self.factor) * (columns // self.factor)


def smart_size(height: int, width: int, factor: int, least: int, most: int) -> tuple[int, int]:
    """Qwen's smart_resize [code]: the nearest multiples of ``factor`` with between ``least`` and ``most`` pixels, the proportions kept."""
    rows, columns = round(height / factor) * factor, round(width / factor) * factor
    if rows * columns > most:
        scale = math.sqrt(height * width / most)
        return tuple(max(factor, math.floor(side / scale / factor) * factor) for side in (height, width))
    if rows * columns < least:
        scale = math.sqrt(least / (height * width))
        return tuple(math.ceil(side * scale / factor) * factor for side in (height, width))
    return rows, columns


def qwen2_5_vl(config: dict, processor: dict) -> Sight:
    """Two frames share their tokens; 2 × 2 patches are merged into one."""
    patch, merge, step = (processor.get(name, given) for name, given in (("patch_size", 14), ("merge_size", 2), ("temporal_patch_size", 2)))
    size = processor.get("size") or {}
    least = processor.get("min_pixels") or size.get("shortest_edge") or 128 * 28 * 28
    most = processor.get("max_pixels") or size.get("longest_edge") or 768 * 28 * 28
    return Sight(step, patch * merge, least, most, 0, 0, merge**2, 3 * step * patch**2, 0, 3, 27)


def llava_onevision(config: dict, processor: dict) -> Sight:
    """Every frame is 27 × 27 patches, pooled to 14 × 14 tokens; one newline after the video. The model picks among all hidden states
    of the tower, so that all of them are kept."""
    vision = config.get("vision_config") or {}
    patch = vision.get("patch_size", 14)
    side = vision.get("image_size", 384) // patch
    return Sight(1, 0, 0, 0, math.ceil(side / 2) ** 2, 1, side**2, 3 * patch**2, vision.get("num_hidden_layers", 26), 2, 0)


SIGHTS: dict[str, Callable[[dict, dict], Sight]] = {"qwen2_5_vl": qwen2_5_vl, "llava_onevision": llava_onevision}
