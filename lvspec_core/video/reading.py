"""Choosing the reader: decord first, PyAV for what it cannot open, Pillow for pictures."""

from __future__ import annotations

import os

import numpy as np

from lvspec_core.video import decord_reader, picture_reader, pyav_reader
from lvspec_core.video.clip import VideoClip
from lvspec_core.video.formats import inspect, name_of
from lvspec_core.video.pyav_source import Source
from lvspec_core.video.sampling import Span, Timeline, sample, within

READERS = ("decord", "PyAV")


def read_here(
    path: str | os.PathLike, frames: int, max_pixels: int, readers: tuple[str, ...] = READERS, span: Span | None = None
) -> VideoClip:
    """Reads in this process, where a broken file may crash it or take for ever: see :func:`lvspec_core.video.process.read_video`."""
    location, form = inspect(path)
    name, quoted = os.path.basename(location), name_of(location)
    if not form.demuxer:
        return _clip(name, *picture_reader.read(location, quoted, frames, max_pixels, span), "Pillow", span)
    with Source(location, form, quoted) as source:
        size = (source.picture.width, source.picture.height)
        timeline = pyav_reader.timeline_of(source)
        if "decord" in readers and decord_reader.suits(source, timeline):
            indices, instants = sample(timeline, frames, source.picture.recorded[0] * source.picture.recorded[1], span)
            try:
                return _clip(name, decord_reader.read(source, timeline, indices, max_pixels), instants, timeline, size, "decord", span)
            except decord_reader.Unsuitable:
                pass
        return _clip(name, *pyav_reader.read(source, timeline, frames, max_pixels, span), size, "PyAV", span)


def _clip(
    name: str,
    frames: np.ndarray,
    instants: np.ndarray,
    timeline: Timeline,
    size: tuple[int, int],
    reader: str,
    span: Span | None = None,
) -> VideoClip:
    start, end = within(span, timeline.seconds)
    times = tuple(float(instant - start) for instant in instants)
    count = len(timeline.starts) if span is None else int(((timeline.starts >= start) & (timeline.starts < end)).sum())
    return VideoClip(name, frames, times, end - start, timeline.fps, *size, count, reader)
