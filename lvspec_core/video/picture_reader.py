"""A still picture under a video's name: one frame."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageOps

from lvspec_core.errors import VideoError
from lvspec_core.video.formats import ADVICE
from lvspec_core.video.sampling import check_size, fit


def read(location: str, name: str, max_pixels: int) -> tuple[np.ndarray, int, int]:
    """The upright picture [H, W, RGB] (the first one of an animation), and the width and height of the original."""
    try:
        with Image.open(location) as image:
            check_size(*image.size, name)
            upright = ImageOps.exif_transpose(image).convert("RGB")
            size = fit(*upright.size, max_pixels)
            return np.array(upright.resize(size, Image.Resampling.BICUBIC)), *upright.size
    except VideoError:
        raise
    except Exception:  # Pillow raises many kinds on damaged pictures
        raise VideoError(f"The picture {name} cannot be read; {ADVICE}.") from None
