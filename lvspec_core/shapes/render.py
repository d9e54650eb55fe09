"""Scenes -> pixels. Shapes are signed distance functions, so that edges are smooth at any size."""

from __future__ import annotations

import numpy as np

from lvspec_core.shapes.scene import BACKGROUNDS, COLOURS, Scene, Thing


def render(scene: Scene, shares: np.ndarray, side: int = 112) -> np.ndarray:
    """Frames of a scene: uint8 [len(shares), side, side, 3]; ``shares``: moments of the clip, 0 = start, 1 = end."""
    frames = np.empty((len(shares), side, side, 3), np.float32)
    frames[:] = BACKGROUNDS[scene.background]
    for thing in scene.things:
        colour = np.asarray(COLOURS[thing.colour], np.float32)
        for index, share in enumerate(shares):
            _paint(frames[index], thing, float(share), side, colour)
    return np.clip(frames + 0.5, 0, 255).astype(np.uint8)


def _paint(frame: np.ndarray, thing: Thing, share: float, side: int, colour: np.ndarray) -> None:
    cx, cy = (value * side for value in thing.centre(share))
    radius = thing.radius * side
    reach = radius * 1.5 + 2
    left, right = max(0, int(cx - reach)), min(side, int(cx + reach) + 1)
    top, bottom = max(0, int(cy - reach)), min(side, int(cy + reach) + 1)
    x = np.arange(left, right, dtype=np.float32)[None, :] + 0.5 - cx
    y = np.arange(top, bottom, dtype=np.float32)[:, None] + 0.5 - cy
    cos, sin = np.cos(thing.turn), np.sin(thing.turn)
    distance = _DISTANCES[thing.shape](x * cos + y * sin, y * cos - x * sin, radius)
    cover = np.clip(0.5 - distance, 0, 1)[..., None]
    frame[top:bottom, left:right] += cover * (colour - frame[top:bottom, left:right])


def _square(x: np.ndarray, y: np.ndarray, r: float) -> np.ndarray:
    return np.maximum(np.abs(x), np.abs(y)) - r * 0.92


def _cross(x: np.ndarray, y: np.ndarray, r: float) -> np.ndarray:
    x, y = np.abs(x), np.abs(y)
    arm = r * 0.36
    return np.minimum(np.maximum(x - r, y - arm), np.maximum(x - arm, y - r))


def _ring(x: np.ndarray, y: np.ndarray, r: float) -> np.ndarray:
    return np.abs(np.hypot(x, y) - r * 0.74) - r * 0.27


def _triangle(x: np.ndarray, y: np.ndarray, r: float) -> np.ndarray:
    slope = 2.0 / np.sqrt(5.0)
    side = (np.abs(x) * slope) + (y + r) * (-slope / 2)
    return np.maximum(side, y - r * 0.95)


_DISTANCES = {"square": _square, "triangle": _triangle, "cross": _cross, "ring": _ring}
