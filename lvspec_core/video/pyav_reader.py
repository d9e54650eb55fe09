"""Reading frames with PyAV: everything that decord cannot open, damaged files among it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import numpy as np
from av.video.frame import VideoFrame

from lvspec_core.video.pyav_source import Source
from lvspec_core.video.sampling import Span, Timeline, fit, sample

LARGE_BYTES = 2 << 30  # reading every packet of more than this takes too long
Render = Callable[[VideoFrame], np.ndarray]


def read(
    source: Source, timeline: Timeline, frames: int, max_pixels: int, span: Span | None = None
) -> tuple[np.ndarray, np.ndarray, Timeline]:
    """Frames [T, H, W, RGB], their instants [T] in seconds, and the timeline as decoding found it; VideoError if it finds no frame."""
    picture = source.picture
    width, height = picture.orientation.turn(*fit(picture.width, picture.height, max_pixels))

    def render(frame: VideoFrame) -> np.ndarray:
        pixels = frame.reformat(width=width, height=height, format="rgb24", interpolation="AREA").to_ndarray()
        return picture.orientation.apply(pixels)

    while True:
        indices, instants = sample(timeline, frames, picture.recorded[0] * picture.recorded[1], span)
        cursor = _Cursor(source, timeline)
        pictures: dict[int, np.ndarray] = {}
        for index in np.unique(indices):
            frame = cursor.frame_at(float(timeline.starts[index]), float(timeline.starts[timeline.key_before(index)]))
            if frame is not None:
                pictures[int(index)] = render(frame)
        if not pictures:
            raise source.undecodable()
        if not cursor.decoded_all or cursor.decoded >= 0.9 * (int(indices[-1]) + 1):
            return np.stack([pictures[int(index)] for index in indices]), instants, timeline
        # a damaged stream, or one with two packets for a picture, holds fewer frames than packets: sample what there is
        timeline = timeline.cut(cursor.decoded)


def timeline_of(source: Source) -> Timeline:
    """When each frame appears.

    From the packets alone: nothing is decoded, and no header is believed, except that of an enormous file with an index.
    """
    source.reopen()
    base = float(source.stream.time_base or 0)
    entries = source.stream.index_entries
    if source.keeps_time and os.path.getsize(source.location) > LARGE_BYTES and len(entries) > 1:
        # times of decoding, which differ from those of presentation by next to nothing once the first is taken as zero
        starts = np.array([entry.timestamp for entry in entries], dtype=np.float64) * base
        return Timeline.from_starts(starts, np.flatnonzero([entry.is_keyframe for entry in entries]))
    packets = [
        (packet.pts, packet.duration or 0, packet.is_keyframe)
        for packet in source.packets()
        if packet.size and not packet.is_discard and not packet.is_corrupt
    ]
    if not packets:
        raise source.undecodable()
    keys = np.array([packet[2] for packet in packets])
    if not source.keeps_time or any(packet[0] is None for packet in packets):
        source.keeps_time = False
        return Timeline.from_starts(np.arange(len(packets)) / source.rate, np.flatnonzero(keys), 1 / source.rate)
    times = np.array([packet[0] for packet in packets], dtype=np.float64)
    order = np.argsort(times, kind="stable")
    last = packets[order[-1]][1] * base or (0 if len(packets) > 1 else 1 / source.rate)
    # in order of decoding, no frame may be shown before the last key frame that precedes it
    closed = bool((times >= np.maximum.accumulate(np.where(keys, times, times.min()))).all())
    return Timeline.from_starts(times[order] * base, np.flatnonzero(keys[order]), last, closed)


class _Cursor:
    """A place in the stream that moves forward by decoding, and jumps only where a key frame lies between.

    Frames are told apart by their time, or, in a file that keeps none, by counting from a key frame on.
    """

    def __init__(self, source: Source, timeline: Timeline):
        self._source, self._timeline = source, timeline
        self._slack = min(0.5 / timeline.fps, 0.02)
        self.decoded_all = True
        source.reopen()
        self._restart(0.0)

    def frame_at(self, time: float, key: float) -> VideoFrame | None:
        """The frame on screen at ``time``; ``key`` is when its key frame starts. None where nothing can be decoded."""
        if self._source.form.seekable and key > self._position + self._slack and key > 0:
            self._jump(key)
        while self._position < time - self._slack:
            following = self._peek()
            if following is None or (self._current is not None and following[0] > time + self._slack):
                break
            (self._position, self._current), self._next = following, None
        return self._current

    def _jump(self, key: float) -> None:
        self.decoded_all = False
        for earlier in (0.0, 1.0, 5.0) if self._source.keeps_time else (0.0,):
            if self._source.seek(max(0.0, key - earlier)):
                self._restart(key)
                landed = self._peek()
                if landed is not None and landed[0] <= key + self._slack:
                    return
        self._source.reopen()
        self._restart(0.0)

    def _restart(self, time: float) -> None:
        self._frames = self._timed_frames(time)
        self._current: VideoFrame | None = None
        self._next: tuple[float, VideoFrame] | None = None
        self._position = float("-inf")
        self.decoded = 0

    def _peek(self) -> tuple[float, VideoFrame] | None:
        if self._next is None:
            self._next = next(self._frames, None)
        return self._next

    def _timed_frames(self, start: float) -> Iterator[tuple[float, VideoFrame]]:
        for frame in self._source.frames():
            time = self._source.time(frame) if self._source.keeps_time else start + self.decoded / self._source.rate
            self.decoded += 1
            if time is not None:
                yield time, frame
