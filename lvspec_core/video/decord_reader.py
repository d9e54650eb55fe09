"""Reading frames with decord, where it can be trusted with the file."""

from __future__ import annotations

import os
import threading

import numpy as np

from lvspec_core.video.pyav_source import Source
from lvspec_core.video.sampling import Timeline, fit

SECONDS = 20.0  # then PyAV takes over
LARGE_BYTES = 1 << 30  # decord reads a file from end to end before its first frame
CODECS = set("h264 hevc vp8 vp9 mpeg4 msmpeg4v2 msmpeg4v3 mpeg1video mpeg2video mjpeg prores wmv2 vc1 theora".split())
CONTAINERS = {"mov", "matroska", "avi", "flv"}  # in MPEG-TS and -PS its seeks land on other frames
TIME_TOLERANCE = 0.002
PATTERN = set("%*?{[")  # in a name, FFmpeg may take it for that of a row of pictures, and open those instead
DAMAGED_SHARE = 0.001  # decord otherwise passes off neighbours as the frames it could not decode


class Unsuitable(Exception):
    """decord cannot read this file, or would read it wrongly."""


def suits(source: Source, timeline: Timeline) -> bool:
    """Whether decord may try: nothing for it to guess, a codec that its FFmpeg knows, nothing to be turned, no seek that it gets wrong."""
    return (
        source.form.guessable
        and not PATTERN & set(source.location)
        and source.form.demuxer in CONTAINERS
        and source.only_stream
        and source.picture.codec in CODECS
        and source.picture.orientation.upright
        and source.keeps_time
        and source.steady
        and timeline.closed
        and os.path.getsize(source.location) <= LARGE_BYTES
    )


def read(source: Source, timeline: Timeline, indices: np.ndarray, max_pixels: int) -> np.ndarray:
    """Frames [T, H, W, RGB] of ``indices``; raises Unsuitable where PyAV must try.

    decord can hang on damage, so it works in a thread that is left behind then.
    """
    # as in recordings of calls; it stretches all frames to the size of the first one
    keys = {timeline.key_before(int(index)) for index in indices} - {0}
    if source.changes_size(float(timeline.starts[key]) for key in sorted(keys)):
        raise Unsuitable("its frames are of different sizes")
    result: list = []

    def work() -> None:
        try:
            result.append(_read(source, timeline, indices, max_pixels))
        except Exception as error:  # decord raises many kinds, some of its own
            result.append(Unsuitable(str(error) or type(error).__name__))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(SECONDS)
    if not result:
        raise Unsuitable("too slow")
    if isinstance(result[0], Unsuitable):
        raise result[0]
    return result[0]


def _read(source: Source, timeline: Timeline, indices: np.ndarray, max_pixels: int) -> np.ndarray:
    import decord  # has no wheel on some machines; PyAV reads alone there

    decord.logging.set_level(decord.logging.QUIET)
    width, height = fit(source.picture.width, source.picture.height, max_pixels)
    video = decord.VideoReader(source.location, width=width, height=height, num_threads=2, fault_tol=DAMAGED_SHARE)
    # decord counts frames on its own: where the counts differ, its frame i is another one
    if len(video) != len(timeline.starts):
        raise Unsuitable(f"it counts {len(video)} frames instead of {len(timeline.starts)}")
    starts = np.asarray(video.get_frame_timestamp(range(len(video))), dtype=np.float64)[:, 0]
    if np.abs(starts - starts[0] - timeline.starts).max() > TIME_TOLERANCE:
        raise Unsuitable("it gives the frames other times")
    pictures = video.get_batch([int(index) for index in indices]).asnumpy()
    if pictures.shape != (len(indices), height, width, 3):
        raise Unsuitable("it gives the frames another size")
    return pictures
