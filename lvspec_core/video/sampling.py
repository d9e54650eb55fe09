"""Which frames are taken, and how large: plain arithmetic, no decoder."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lvspec_core.errors import VideoError

MAX_SOURCE_PIXELS = 8192 * 8192
MAX_ASPECT = 200  # Qwen's processor refuses more
# Pixels that may be decoded to reach frames that are no key frames: some 15 s of 1080p work for one core
DECODE_BUDGET = 4_000_000_000
STILL_SECONDS = 1.0


@dataclass(frozen=True)
class Timeline:
    """When each frame of a video appears.

    ``starts``: seconds from the first frame, rising [N]. ``seconds``: end of the last. ``keys``: indices of key frames, where
    decoding can start; rising, never empty. ``closed``: no frame that is decoded after a key frame is shown before it (a reader
    that counts frames from a key frame on would miscount).
    """

    starts: np.ndarray
    seconds: float
    keys: np.ndarray
    closed: bool = True

    @classmethod
    def from_starts(cls, starts: np.ndarray, keys: np.ndarray, last: float = 0.0, closed: bool = True) -> Timeline:
        """``starts`` from any origin; ``last``: how long the last frame stays, 0 if unknown (then as long as the others do)."""
        starts = np.asarray(starts, dtype=np.float64)
        starts = starts - starts[0]
        if not last > 0:
            last = float(np.median(np.diff(starts))) if len(starts) > 1 else STILL_SECONDS
        seconds = float(starts[-1]) + last
        keys = np.asarray(keys, dtype=np.int64)
        return cls(starts, seconds if seconds > 0 else STILL_SECONDS, np.union1d(keys[keys < len(starts)], [0]), closed)

    @property
    def fps(self) -> float:
        return len(self.starts) / self.seconds

    def key_before(self, index: int) -> int:
        """The key frame from which frame ``index`` is decoded."""
        return int(self.keys[np.searchsorted(self.keys, index, side="right") - 1])

    def cut(self, frames: int) -> Timeline:
        """Only the first ``frames`` of it, one at least."""
        return Timeline.from_starts(self.starts[: max(1, frames)], self.keys, closed=self.closed)


Span = tuple[float, float]  # start and end in seconds from the first frame


def within(span: Span | None, seconds: float) -> Span:
    """The part of a video of this length that a span names: all of it where there is no span, or where nothing of it is in the video."""
    start, end = (0.0, seconds) if span is None else (max(0.0, span[0]), min(seconds, span[1]))
    return (start, end) if start < end else (0.0, seconds)


def sample(timeline: Timeline, frames: int, pixels: int, span: Span | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Indices and instants [frames] of what to take: the middle of each of ``frames`` equal parts of the video, or of a span of it.

    Middles, not ends: they are safe from rounding where the parts are as long as the frames, and one frame is the middle one.
    When reaching those frames would mean decoding too many of ``pixels`` each, an instant moves to the nearest key frame, less
    than half a part away; its instant is then that key frame's.
    """
    start, end = within(span, timeline.seconds)
    step = (end - start) / frames
    instants = start + (np.arange(frames) + 0.5) * step
    indices = np.clip(np.searchsorted(timeline.starts, instants + 1e-6, side="right") - 1, 0, None)
    if cost(timeline, indices) * pixels <= DECODE_BUDGET:
        return indices, instants
    key_starts = timeline.starts[timeline.keys]
    right = np.searchsorted(key_starts, instants)
    nearer_left = (right == len(key_starts)) | (
        (right > 0) & (instants - key_starts[right - 1] <= key_starts[np.minimum(right, len(key_starts) - 1)] - instants)
    )
    nearest = np.where(nearer_left, right - 1, right)
    # so that no two instants meet: a key frame midway between two, but for rounding, is neither's
    close = np.abs(key_starts[nearest] - instants) < step / 2 * (1 - 1e-6)
    return np.where(close, timeline.keys[nearest], indices), np.where(close, key_starts[nearest], instants)


def cost(timeline: Timeline, indices: np.ndarray) -> int:
    """Frames that must be decoded to see those of ``indices`` in order, starting over at a key frame where that is shorter."""
    total, position = 0, -1
    for index in np.unique(indices):
        total += int(index) - max(position, timeline.key_before(index) - 1)
        position = int(index)
    return total


def check_size(width: int, height: int, name: str) -> None:
    """Raises VideoError where the picture is too large to decode or too narrow for a video model."""
    if width < 1 or height < 1:
        raise VideoError(f"{name} has no picture; choose a video.")
    if width * height > MAX_SOURCE_PIXELS:
        raise VideoError(f"{name} has {width}×{height} pixels; scale it down to 8192×8192 or less.")
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise VideoError(f"{name} has {width}×{height} pixels; crop it to at most {MAX_ASPECT} times as long as wide.")


def fit(width: int, height: int, max_pixels: int) -> tuple[int, int]:
    """Width and height with the same ratio and at most ``max_pixels``; never enlarged."""
    scale = min(1.0, math.sqrt(max_pixels / (width * height)))
    scaled = max(1, round(width * scale)), max(1, round(height * scale))
    if scaled[0] * scaled[1] > max_pixels:
        scaled = max(1, math.floor(width * scale)), max(1, math.floor(height * scale))
    return scaled


def fit_into(width: int, height: int, wide: int, high: int) -> tuple[int, int]:
    """Width and height with the same ratio, as large as fit into ``wide`` × ``high``."""
    scale = min(wide / width, high / height)
    return min(wide, max(1, round(width * scale))), min(high, max(1, round(height * scale)))
