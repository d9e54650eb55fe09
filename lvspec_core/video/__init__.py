"""From a file to a few upright frames with their times, whatever the container; every bad file ends in a VideoError."""

from lvspec_core.video.clip import VideoClip, describe, film_strip, thumbnails
from lvspec_core.video.process import read_video

__all__ = ["VideoClip", "describe", "film_strip", "read_video", "thumbnails"]
