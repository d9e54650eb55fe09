"""Small clips for the tests, made with PyAV alone. The brightness of frame k is 40 + 4·k, so a frame tells which one it is."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import av
import numpy as np


def brightness(k: int) -> int:
    return 40 + 4 * k


def numbers(frames: np.ndarray) -> list[int]:
    """Which frame each of [T, H, W, RGB] is, from the brightness of its middle."""
    height, width = frames.shape[1:3]
    middle = frames[:, height // 4 : max(height // 4 + 1, height * 3 // 4), width // 4 : max(width // 4 + 1, width * 3 // 4)]
    return [round((float(frame.mean()) - 40) / 4) for frame in middle]


def picture(k: int, width: int, height: int) -> np.ndarray:
    return np.full((height, width, 3), brightness(k), dtype=np.uint8)


@contextmanager
def as_urgent_as_before() -> Iterator[None]:
    """SVT-AV1, where it may, makes whoever calls it a real-time process and leaves it so: everything else would have to wait for it, and
    whatever it starts inherits that."""
    policy, parameter = (os.sched_getscheduler(0), os.sched_getparam(0)) if hasattr(os, "sched_getscheduler") else (None, None)
    try:
        yield
    finally:
        if policy is not None:
            os.sched_setscheduler(0, policy, parameter)


def write(
    path: Path,
    frames: int | list[np.ndarray] = 30,
    *,
    codec: str = "libx264",
    size: tuple[int, int] = (64, 48),
    fps: int = 10,
    pixels: str = "yuv420p",
    times: list[float] | None = None,
    container: str | None = None,
    options: dict | None = None,
    muxer: dict | None = None,
    aspect: Fraction | None = None,
    sound: bool = False,
) -> Path:
    """Writes a clip: ``frames`` numbered by brightness, or given as pictures; ``times``: when each starts, in seconds."""
    pictures = frames if isinstance(frames, list) else [picture(k, *size) for k in range(frames)]
    with as_urgent_as_before(), av.open(str(path), "w", format=container, options=muxer or {}) as out:
        stream = out.add_stream(codec, rate=fps, options=options or {})
        stream.width, stream.height, stream.pix_fmt = *size, pixels
        stream.thread_count = 1
        if aspect:
            stream.codec_context.sample_aspect_ratio = aspect
        base = Fraction(1, 1000) if times and codec != "mpeg2video" else Fraction(1, fps)  # which wants a usual rate
        stream.codec_context.time_base = base
        if sound:
            add_sound(out)
        for k, pixels_ in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(pixels_, format="rgb24")
            frame.pts, frame.time_base = (round(times[k] / base), base) if times else (k, base)
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return path


def add_sound(out: av.container.OutputContainer, seconds: float = 1.0) -> None:
    stream = out.add_stream("aac", rate=16000, layout="mono")
    for start in range(0, int(16000 * seconds), 1024):
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), dtype=np.float32), format="fltp", layout="mono")
        frame.sample_rate, frame.pts = 16000, start
        out.mux(stream.encode(frame))
    out.mux(stream.encode(None))


def turn(path: Path, matrix: tuple[int, int, int, int]) -> Path:
    """Writes a display matrix (a, b, c, d: where the recorded x and y point) into an MP4's track header, as phones do."""
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd") + 4 + 40
    a, b, c, d = (value << 16 for value in matrix)
    data[at : at + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path.write_bytes(data)
    return path
