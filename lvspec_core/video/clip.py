"""The clip that the rest of the product works on, and how it is shown."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

import numpy as np
from PIL import Image

JPEG_QUALITY = 82
THUMBNAIL_HEIGHTS = (96, 72, 54, 40, 28, 16)
THUMBNAIL_CHARACTERS = 200_000  # of all thumbnails of a clip


@dataclass(frozen=True)
class VideoClip:
    """Frames sampled uniformly by time over a whole video.

    ``frames``: uint8 [T, height, width, RGB], upright, undistorted, scaled down; shared between callers, so never written to.
    ``timestamps``: T instants in seconds from the first frame; frame i is what is on screen at instant i, so a clip with fewer
    frames than were asked for repeats some. ``seconds``: length of the whole video, above 0. ``fps``: its mean frame rate.
    ``width``, ``height``: of the upright original in square pixels. ``frame_count``: frames in the file. ``reader``: who read it
    ("decord", "PyAV" or "Pillow").
    """

    name: str
    frames: np.ndarray
    timestamps: tuple[float, ...]
    seconds: float
    fps: float
    width: int
    height: int
    frame_count: int | None
    reader: str


def describe(clip: VideoClip) -> dict:
    """The clip as the ``video`` of a Start record: plain values, no pixels."""
    return {
        "name": clip.name,
        "seconds": round(clip.seconds, 3),
        "fps": round(clip.fps, 3),
        "width": clip.width,
        "height": clip.height,
        "frames": len(clip.frames),
        "timestamps": [round(time, 3) for time in clip.timestamps],
        "reader": clip.reader,
    }


def film_strip(clip: VideoClip, height: int = 96) -> list[dict]:
    """The sampled frames as small pictures: ``{"time": seconds, "image": "data:image/jpeg;base64,…"}`` per frame, never enlarged."""
    return [{"time": round(time, 3), "image": _data_url(frame, height)} for time, frame in zip(clip.timestamps, clip.frames, strict=True)]


def thumbnails(clip: VideoClip) -> tuple[str, ...]:
    """The sampled frames as JPEG data URLs for a race's first record, as tall as 200 KB for all of them allow."""
    pictures: list[str] = []
    for height in THUMBNAIL_HEIGHTS:
        pictures = [_data_url(frame, height) for frame in clip.frames]
        if sum(map(len, pictures)) <= THUMBNAIL_CHARACTERS:
            break
    return tuple(pictures) if sum(map(len, pictures)) <= THUMBNAIL_CHARACTERS else ()


def _data_url(frame: np.ndarray, height: int) -> str:
    picture = Image.fromarray(frame)
    if picture.height > height:
        picture = picture.resize((max(1, round(picture.width * height / picture.height)), height), Image.Resampling.BILINEAR)
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=JPEG_QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
