"""How a recorded picture must be turned and stretched to stand upright and undistorted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Orientation:
    """First ``transpose`` (swap the axes), then flip. A phone held upright: transpose and one flip; a mirrored selfie: one flip."""

    transpose: bool = False
    flip_x: bool = False
    flip_y: bool = False

    @classmethod
    def from_matrix(cls, matrix: bytes | None) -> Orientation:
        """From FFmpeg's display matrix (nine native int32: a b u c d v x y w), which maps the recorded x to (a, b), y to (c, d)."""
        if matrix is None or len(matrix) < 36:
            return cls()
        a, b, _, c, d = (int(value) for value in np.frombuffer(matrix[:20], dtype=np.int32))
        if abs(a) + abs(d) >= abs(b) + abs(c):
            return cls(False, a < 0, d < 0)
        return cls(True, c < 0, b < 0)

    @property
    def upright(self) -> bool:
        return self == Orientation()

    def apply(self, frame: np.ndarray) -> np.ndarray:
        """The upright picture of a recorded one, [H, W, RGB] to [H or W, W or H, RGB]."""
        if self.transpose:
            frame = frame.transpose(1, 0, 2)
        if self.flip_x:
            frame = frame[:, ::-1]
        if self.flip_y:
            frame = frame[::-1]
        return np.ascontiguousarray(frame)

    def turn(self, width: int, height: int) -> tuple[int, int]:
        """The upright size of a recorded one, or the other way round."""
        return (height, width) if self.transpose else (width, height)


def square_pixels(width: int, height: int, aspect: float) -> tuple[int, int]:
    """The size in square pixels of a picture whose pixels are ``aspect`` times as wide as high; nothing is thrown away."""
    if not 0.01 < aspect < 100 or abs(aspect - 1) < 0.005:
        return width, height
    return (round(width * aspect), height) if aspect > 1 else (width, round(height / aspect))
