"""Reading frames with PyAV: everything that decord cannot open, damaged files among it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import numpy as np
from av.video.frame import VideoFrame

from lvspec_core.video.orientation import square_pixels
from lvspec_core.video.pyav_source import Source
from lvspec_core.video.sampling import Span, Timeline, fit, fit_into, sample

MOST_FPS = 10_000  # more frames a second are none: the file's unit of time is nonsense
LARGE_BYTES = 2 << 30  # reading every packet of more than this takes too long
Render = Callable[[VideoFrame], np.ndarray]


def read(
    source: Source, timeline: Timeline, frames: int, max_pixels: int, span: Span | None = None
) -> tuple[np.ndarray, np.ndarray, Timeline]:
    """Frames [T, H, W, RGB], their instants [T] in seconds, and the timeline as decoding found it; VideoError if it finds no frame."""
    picture = source.picture
    width, height = picture.orientation.turn(*fit(picture.width, picture.height, max_pixels))

    def render(frame: VideoFrame) -> np.ndarray:
        # one whose size is another than the first one's stands undistorted in its middle
        inner = (width, height)
        if (frame.width, frame.height) != picture.recorded:
            inner = fit_into(*square_pixels(frame.width, frame.height, picture.aspect), width, height)
        pixels = frame.reformat(width=inner[0], height=inner[1], format="rgb24", interpolation="AREA").to_ndarray()
        if inner != (width, height):
            top, left = (height - inner[1]) // 2, (width - inner[0]) // 2
            pixels = np.pad(pixels, ((top, height - inner[1] - top), (left, width - inner[0] - left), (0, 0)))
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
        there = cursor.reached()
        if there is None or there >= 0.9 * (int(indices[-1]) + 1):
            return np.stack([pictures[int(index)] for index in indices]), instants, timeline
        # the rest is damaged, or the stream has two packets for a picture: sample what there is
        timeline = timeline.cut(there)


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
    if source.keeps_time and all(packet[0] is not None for packet in packets):
        # what comes before the first frame, as at a cut into an open group of pictures, cannot be decoded
        packets = [packet for packet in packets if packet[0] >= source.picture.origin] or packets
        shown = [packet[0] for packet in packets]
        # without a unit of time that makes sense, nothing can be reached by its time either
        source.keeps_time = len(packets) == 1 or (max(shown) - min(shown)) * base * MOST_FPS > len(packets)
        source.steady &= source.keeps_time
    else:
        source.keeps_time = False
    keys = np.array([packet[2] for packet in packets])
    if not source.keeps_time:
        return Timeline.from_starts(np.arange(len(packets)) / source.rate, np.flatnonzero(keys), 1 / source.rate)
    times = np.array([packet[0] for packet in packets], dtype=np.float64)
    order = np.argsort(times, kind="stable")
    # how long the last one stays, where that is not the time until the next one in order of decoding
    told = packets[order[-1]][1] * base if source.form.demuxer != "mov" or order[-1] == len(packets) - 1 else 0
    last = told or (0 if len(packets) > 1 else 1 / source.rate)
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
        self._from_start = True
        source.reopen()
        self._restart(0.0)

    def frame_at(self, time: float, key: float) -> VideoFrame | None:
        """The frame on screen at ``time``; ``key`` is when its key frame starts. None where nothing can be decoded."""
        if self._source.form.seekable and self._source.steady and key > self._position + self._slack and key > 0:
            self._jump(key)
        while self._position < time - self._slack:
            following = self._peek()
            if following is None:
                self._ended = True
                break
            if self._current is not None and following[0] > time + self._slack:
                break
            (self._position, self._current), self._next = following, None
        return self._current

    def reached(self) -> int | None:
        """How many frames of the timeline there are, where the stream ended before a frame that was asked for; None where it did not."""
        if not self._ended or self._current is None:
            return None
        if self._source.keeps_time:
            return int(np.searchsorted(self._timeline.starts, self._position + self._slack, side="right"))
        return self.decoded if self._from_start else None

    def _jump(self, key: float) -> None:
        self._from_start = False
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
        self._ended = False
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
