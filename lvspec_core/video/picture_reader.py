"""Still pictures and animations under a video's name, read with Pillow."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageOps, ImageSequence

from lvspec_core.errors import VideoError
from lvspec_core.video.formats import ADVICE
from lvspec_core.video.sampling import STILL_SECONDS, Span, Timeline, check_size, fit, sample

ANIMATIONS = {"WEBP", "AVIF"}  # where several pictures are no pages
SHORTEST, HASTY = 0.02, 0.1  # seconds: a picture that is to stay less than the first stays the second, as FFmpeg has it for GIFs


def read(
    location: str, name: str, frames: int, max_pixels: int, span: Span | None = None
) -> tuple[np.ndarray, np.ndarray, Timeline, tuple[int, int]]:
    """Frames [T, H, W, RGB], upright, their instants [T] in seconds, the timeline, and (width, height) of the original. What can be
    seen through stands on white, as on a page."""
    try:
        with Image.open(location) as image:
            check_size(*image.size, name)
            timeline = _timeline(image)
            indices, instants = sample(timeline, frames, image.width * image.height, span)
            size, pictures = image.size, {}
            for index in np.unique(indices):
                image.seek(int(index))
                upright = _on_white(ImageOps.exif_transpose(image))
                size = upright.size
                pictures[int(index)] = np.array(upright.resize(fit(*size, max_pixels), Image.Resampling.BICUBIC))
            return np.stack([pictures[int(index)] for index in indices]), instants, timeline, size
    except VideoError:
        raise
    except Exception:  # Pillow raises many kinds on damaged pictures
        raise VideoError(f"The picture {name} cannot be read; {ADVICE}.") from None


def _timeline(image: Image.Image) -> Timeline:
    stay = [STILL_SECONDS]
    if image.format in ANIMATIONS and getattr(image, "n_frames", 1) > 1:
        stay = [_stay(picture) for picture in ImageSequence.Iterator(image)]
    ends = np.cumsum(stay)
    return Timeline.from_starts(ends - stay, np.arange(len(stay)), stay[-1])


def _stay(picture: Image.Image) -> float:
    picture.load()  # only then it knows
    seconds = picture.info.get("duration", 0) / 1000
    return seconds if seconds >= SHORTEST else HASTY


def _on_white(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith(("I", "F")):  # more than 8 bits of grey, which Pillow would cut off
        values = np.asarray(picture, dtype=np.float64)
        top = 65535 if picture.mode.startswith("I;16") else max(float(values.max()), 1e-9)
        picture = Image.fromarray((values.clip(0, top) * 255 / top).round().astype(np.uint8))
    if not picture.has_transparency_data:
        return picture.convert("RGB")
    picture = picture.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")
