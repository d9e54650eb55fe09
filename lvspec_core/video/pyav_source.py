"""One file opened with PyAV: what its picture is like, its packets and its frames."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType

import av
from av.packet import Packet
from av.video.frame import VideoFrame

from lvspec_core.errors import VideoError
from lvspec_core.video.formats import ADVICE, Format
from lvspec_core.video.orientation import Orientation, square_pixels
from lvspec_core.video.sampling import check_size

DEFAULT_FPS = 25.0
DECODE_THREADS = 4
MAX_DAMAGES = 1000
DAMAGE = (av.FFmpegError, ValueError)

av.logging.set_level(av.logging.PANIC)


@dataclass(frozen=True)
class Picture:
    """``width``, ``height``: upright, in square pixels. ``recorded``: width and height as decoded, of the first frame, of pixels
    ``aspect`` times as wide as high. ``codec``: FFmpeg's name.
    ``origin``: presentation time of the first frame in units of the time base, None if the stream carries no times."""

    width: int
    height: int
    recorded: tuple[int, int]
    aspect: float
    orientation: Orientation
    codec: str
    origin: int | None


class Clock:
    """The times of a stream's packets, in order of decoding, as one clock: where files were joined, or a recorder began anew, it goes
    on from the packet before. ``restarts``: whether a long leap ahead is such a place too, as it is in what was made for broadcasting;
    elsewhere, and where it is shorter, a picture stands still.
    """

    BACK, AHEAD = 0.1, 60.0  # seconds; the first as FFmpeg's own program has it, which takes 10 s for the second [ours]

    def __init__(self, base: float, restarts: bool):
        self._base, self._restarts = base, restarts
        self._last: int | None = None  # time of decoding of the packet before, as the file has it
        self._step = 0  # from packet to packet, as far as is known
        self.offset = 0

    def correct(self, packet: Packet) -> None:
        """Sets the packet's times. In a container that keeps times of presentation only, a key frame's is looked at: none before it
        in the stream is shown after it."""
        now = packet.dts if packet.dts is not None else packet.pts if packet.is_keyframe else None
        if now is not None and not packet.is_discard:
            if self._last is not None:
                leap = (now - self._last) * self._base
                if leap < -self.BACK or (self._restarts and leap > self.AHEAD):
                    self.offset += self._last + (packet.duration or self._step) - now
                elif leap > 0:
                    self._step = now - self._last
            self._last = now
        if self.offset:
            packet.pts, packet.dts = (None if time is None else time + self.offset for time in (packet.pts, packet.dts))


class Source:
    """An open file, a context manager. Failures are VideoErrors with one sentence; damage inside the stream is passed over."""

    def __init__(self, location: str, form: Format, name: str):
        self.location, self.form, self.name = location, form, name
        self.steady = True  # whether its clock was never set anew, as far as it was read; where it was, no seek goes right
        self._container: av.container.InputContainer | None = None
        self._options: dict[str, str] = {}
        self.reopen()
        try:
            self.picture = self._look_again()
            # H.264 in AVI has times of decoding only; some raw streams have none
            ordered = form.demuxer == "avi" and self.picture.codec in ("h264", "hevc")
            self.keeps_time = self.picture.origin is not None and bool(self.stream.time_base) and not ordered
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Source:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        if self._container is not None:
            self._container.close()
            self._container = None

    def reopen(self) -> None:
        """Stands at the beginning again; the only way back for formats that cannot seek."""
        self.close()
        # only this file, through this demuxer: whatever the file names, nothing else is opened
        limits = {"protocol_whitelist": "file", "format_whitelist": self.form.demuxer}
        try:
            self._container = av.open(
                self.location, format=self.form.demuxer, container_options=self._options | limits, metadata_errors="replace"
            )
        except (*DAMAGE, OSError):
            raise VideoError(f"{self.name} is cut off or damaged and cannot be opened; save or download it again.") from None
        try:
            self._choose_stream()
        except BaseException:
            self.close()
            raise
        self._clock = Clock(float(self.stream.time_base or 0), self.form.restarts)

    def packets(self) -> Iterator[Packet]:
        """The packets of the video from where the file stands, an empty one at the end; damage between them is passed over.
        From the file's beginning on their times go on where its clock is set anew."""
        packets = self._container.demux(self.stream)
        for _ in range(MAX_DAMAGES):
            try:
                for packet in packets:
                    if self._clock is not None and packet.size:
                        self._clock.correct(packet)
                        self.steady &= not self._clock.offset
                    yield packet
                return
            except av.EOFError:
                return
            except (IndexError, *DAMAGE):  # IndexError: PyAV does not know streams that begin in the middle of a file
                packets = self._container.demux(self.stream)

    def frames(self) -> Iterator[VideoFrame]:
        """Decoded frames from where the file stands, in the order of presentation."""
        for packet in self.packets():
            try:
                yield from packet.decode()
            except DAMAGE:
                continue

    def seek(self, time: float) -> bool:
        """Goes to the key frame at or before ``time`` in seconds from the first frame; False where the file cannot."""
        self._clock = None  # a seek looks like a clock that was set anew
        try:
            origin = self.picture.origin if self.keeps_time else 0
            self._container.seek(round(time / self.stream.time_base) + origin, stream=self.stream, backward=True)
        except (*DAMAGE, OverflowError):
            return False
        return True

    def time(self, frame: VideoFrame) -> float | None:
        """When ``frame`` appears, in seconds from the first one."""
        return None if frame.pts is None else float((frame.pts - self.picture.origin) * self.stream.time_base)

    def changes_size(self, times: Iterable[float]) -> bool:
        """Whether the key frames at these times, in seconds from the first frame, are of different sizes. The file stands anywhere after
        that."""
        for time in times:
            frame = next(self.frames(), None) if self.seek(time) else None
            if frame is None or (frame.width, frame.height) != self.picture.recorded:
                return True
        return False

    @property
    def rate(self) -> float:
        """The frame rate that the header claims."""
        rate = float(self.stream.average_rate or self.stream.guessed_rate or 0)
        return rate if 0.001 < rate < 1000 else DEFAULT_FPS

    def undecodable(self) -> VideoError:
        context = self.stream.codec_context
        codec = f" ({context.name})" if context is not None else ""
        return VideoError(f"No picture of {self.name} can be decoded{codec}: it is cut off, damaged or of an unknown kind; {ADVICE}.")

    def _choose_stream(self) -> None:
        streams = self._container.streams
        videos = [stream for stream in streams.video if not stream.disposition & av.stream.Disposition.attached_pic]
        if not videos:
            if streams.audio:
                raise VideoError(f"{self.name} has sound but no picture; choose a video.")
            raise VideoError(f"{self.name} holds no video, or was cut off before its first frame; {ADVICE}.")
        best = streams.best("video")
        self.stream = best if best in videos else videos[0]
        self.only_stream = len(streams.video) == 1
        for stream in streams:
            if stream is not self.stream:
                stream.discard = av.stream.Discard.all
        if self.stream.codec_context is None:
            raise self.undecodable()
        self.stream.codec_context.thread_count = min(DECODE_THREADS, os.cpu_count() or 1)
        self.stream.codec_context.thread_type = "SLICE"  # frame threads would decode ahead of every seek

    def _look_again(self) -> Picture:
        try:
            return self._look()
        except VideoError:
            if self.form.demuxer != "mov":
                raise
        # an edit list may leave nothing of the pictures, as where a writer put 0 for its length
        self._options = {"ignore_editlist": "1"}
        self.reopen()
        return self._look()

    def _look(self) -> Picture:
        context = self.stream.codec_context
        if context.width and context.height:
            check_size(context.width, context.height, self.name)
        frame = next(self.frames(), None)
        if frame is None:
            raise self.undecodable()
        matrix = next((bytes(data) for data in frame.side_data if data.type.name == "DISPLAYMATRIX"), None)
        aspect = float(self.stream.sample_aspect_ratio or context.sample_aspect_ratio or 1)
        orientation = Orientation.from_matrix(matrix)
        width, height = orientation.turn(*square_pixels(frame.width, frame.height, aspect))
        check_size(width, height, self.name)
        return Picture(width, height, (frame.width, frame.height), aspect, orientation, context.name, frame.pts)
