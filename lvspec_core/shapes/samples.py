"""The sample clips: eight scenes of the shapes world that no model was trained on, and one clip that is no shapes clip at all."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from lvspec_core.shapes.render import render
from lvspec_core.shapes.scene import Scene, sample_scene

SIDE, RATE = 448, 24
SAMPLE_SEED = 2_000_003
# what the eight clips must show: (objects, objects that move, background)
WANTED = (
    (1, 0, "white"),
    (1, 1, "black"),
    (2, 0, "grey"),
    (2, 1, "beige"),
    (2, 2, "black"),
    (3, 0, "white"),
    (3, 2, "grey"),
    (3, 3, "black"),
)


def write_samples(folder: Path) -> list[dict]:
    """Writes the clips and ``samples.json``: file, title, alt text and, for shapes clips, the facts to state."""
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for number, (objects, moving, background) in enumerate(WANTED, start=1):
        scene = _find_scene(objects, moving, background, np.random.default_rng(SAMPLE_SEED + number))
        file = f"shapes-{number}-{objects}-{'still' if not moving else 'moving'}.mp4"
        write_clip(folder / file, render(scene, np.linspace(0, 1, round(scene.seconds * RATE)), SIDE), RATE)
        entries.append({"file": file, "title": _title(scene), "alt": _alt(scene), "facts": scene.facts()})
    write_clip(folder / "sea.mp4", sea_at_dusk(), RATE)
    entries.append(
        {
            "file": "sea.mp4",
            "title": "A sea at dusk",
            "alt": "A painted sea at dusk with a sailing boat: not a clip of shapes, so the bundled pair's words will not describe it.",
            "facts": None,
        }
    )
    (folder / "samples.json").write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return entries


def _find_scene(objects: int, moving: int, background: str, rng: np.random.Generator) -> Scene:
    while True:
        scene = sample_scene(rng)
        looks = {(thing.colour, thing.shape) for thing in scene.things}
        moves = sum(thing.motion != "still" for thing in scene.things)
        if (len(scene.things), moves, scene.background) == (objects, moving, background) and len(looks) == objects:
            return scene


def _title(scene: Scene) -> str:
    return " · ".join(f"{thing.colour} {thing.shape}" for thing in scene.things)


def _alt(scene: Scene) -> str:
    things = [f"a {thing.size} {thing.colour} {thing.shape} ({thing.place}, {thing.motion})" for thing in scene.things]
    return f"On {scene.background}: " + ", ".join(things)


def write_clip(path: Path, frames: np.ndarray, rate: int, codec: str = "libx264", options: dict | None = None) -> None:
    """Encodes uint8 [T, H, W, 3] as an H.264 file that browsers play."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=Fraction(rate))
        stream.width, stream.height, stream.pix_fmt = frames.shape[2], frames.shape[1], "yuv420p"
        stream.options = options or {"crf": "20", "preset": "slow"}
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())


def sea_at_dusk(seconds: float = 5.0, width: int = 640, height: int = 360) -> np.ndarray:
    """A painted scene with sky, sun, waves and a boat: looks like a filmed clip to a model of shapes."""
    rng = np.random.default_rng(SAMPLE_SEED)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    x, y = x / width, y / height
    horizon = 0.58
    grain = rng.standard_normal((height, width)).astype(np.float32)
    phases = rng.uniform(0, 2 * np.pi, 24)
    frames = []
    for index in range(round(seconds * RATE)):
        time = index / RATE
        frame = _sky(x, y, horizon, time, phases)
        water = _water(x, y, horizon, time, phases)
        frame = np.where((y > horizon)[..., None], water, frame)
        _sail(frame, x, y, 0.24 + 0.03 * time, horizon + 0.035 + 0.004 * np.sin(2 * time))
        frame += (np.roll(grain, index * 7, axis=1) * 2.0)[..., None]
        frames.append(np.clip(frame, 0, 255).astype(np.uint8))
    return np.stack(frames)


def _sky(x, y, horizon, time, phases) -> np.ndarray:
    depth = np.clip(y / horizon, 0, 1)[..., None]
    sky = (1 - depth) * np.array([52, 68, 120]) + depth * np.array([246, 158, 96])
    glow = np.exp(-(((x - 0.66) * 1.78) ** 2 + (y - 0.5) ** 2) / 0.02)[..., None]
    disc = np.clip((0.045 - np.hypot((x - 0.66) * 1.78, y - 0.5)) * 400, 0, 1)[..., None]
    cloud = sum(np.sin(x * (3 + 2 * k) + y * (20 + 9 * k) + phases[k] + time * 0.12 * (k + 1)) / (k + 2) for k in range(8))
    cloud = np.clip(cloud - 0.35, 0, 1)[..., None] * (1 - depth) * 0.9
    sky = sky + glow * np.array([60, 50, 20])
    sky = sky * (1 - cloud) + cloud * np.array([226, 190, 190])
    return sky * (1 - disc) + disc * np.array([255, 240, 205])


def _water(x, y, horizon, time, phases) -> np.ndarray:
    depth = np.clip((y - horizon) / (1 - horizon), 0.002, 1)
    far = 1 / (depth + 0.06)
    ripple = sum(np.sin(far * (9 + 3 * k) + x * (8 - k) * far * 0.6 + phases[8 + k] + time * (1.2 + 0.3 * k)) / (k + 1.5) for k in range(8))
    base = (1 - depth)[..., None] * np.array([196, 128, 96]) + depth[..., None] * np.array([22, 44, 74])
    path = np.exp(-(((x - 0.66) / (0.05 + 0.16 * depth)) ** 2))[..., None]
    return base + ripple[..., None] * (10 + 34 * path) + path * np.array([60, 42, 10]) * (1 - depth[..., None] * 0.5)


def _sail(frame: np.ndarray, x, y, at: float, foot: float) -> None:
    height = 0.22
    rise = np.clip((foot - y) / height, 0, 1)
    sail = (y < foot) & (y > foot - height) & (x > at - 0.045 * (1 - rise)) & (x < at + 0.035 * (1 - rise))
    hull = (y >= foot) & (y < foot + 0.03) & (np.abs(x - at) < 0.055 - (y - foot) * 0.7)
    frame[sail] = (236, 226, 214)
    frame[hull] = (48, 30, 30)
