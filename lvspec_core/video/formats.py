"""What a file is, by its first bytes and before any reader sees it.

The name's ending is never believed. A reader left to guess would take a playlist, a concat script or a session description for
a video and open the files and hosts that it names, so only containers that hold their own pictures pass, each with the one
demuxer that may read it.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace

from lvspec_core.errors import VideoError

SNIFFED_BYTES = 1 << 20
ADVICE = "use MP4, MOV, WebM, MKV, AVI or GIF"


@dataclass(frozen=True)
class Format:
    """``demuxer``: FFmpeg's name of it ("" for a picture). ``seekable``: whether frames can be reached by their time.
    ``guessable``: whether a reader that guesses the format by itself can only come to the same one. ``restarts``: whether its clock
    may leap ahead without a picture that stands still."""

    demuxer: str
    seekable: bool = True
    guessable: bool = True
    restarts: bool = False


_BY_START = (
    (b"\x1a\x45\xdf\xa3", Format("matroska")),
    (b"FLV\x01", Format("flv")),
    (b"OggS", Format("ogg")),
    (b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", Format("asf")),
    (b"\x06\x0e\x2b\x34", Format("mxf")),
    (b"\x00\x00\x01\xba", Format("mpeg", restarts=True)),
    (b".RMF", Format("rm")),
    (b"GIF8", Format("gif", seekable=False)),
    (b"DKIF", Format("ivf", seekable=False)),
    (b"YUV4MPEG2", Format("yuv4mpegpipe", seekable=False)),
    (b"\x00\x00\x01\xb3", Format("mpegvideo", seekable=False)),
    (b"\x00\x00\x01\xb0", Format("m4v", seekable=False)),
    (b"\x12\x00\x0a", Format("obu", seekable=False)),
    (b"\x1f\x07\x00", Format("dv")),
)
_BOXES = {b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot", b"styp", b"moof", b"sidx", b"emsg"}
_PICTURE_BRANDS = {b"avif", b"avis", b"mif1", b"msf1", b"heic", b"heix", b"hevc", b"heim", b"heis"}
_PICTURES = (b"\xff\xd8\xff", b"BM", b"II*\x00", b"MM\x00*")
_SOUNDS = (b"ID3", b"fLaC", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2", b"\xff\xf1", b"\xff\xf9", b"#!AMR", b"MThd", b"FORM")
_SCRIPTS = tuple(b"#extm3u #extinf ffconcat v=0 [playlist] [reference] <asx <smil <mpd file rtsp: http".split())
# what a guessing reader looks for further down, in a file that starts like a video
_SCRIPT_MARKS = (b"#extm3u", b"ffconcat", b"\nc=in", b"\rc=in", b"<mpd")


def inspect(path: str | os.PathLike) -> tuple[str, Format]:
    """The file's absolute path and format; raises VideoError with one sentence when it is not a video that may be opened."""
    if not path:
        raise VideoError("Choose a video first.")
    try:
        location = os.path.abspath(os.fspath(path))
        location.encode("utf-8")
        status = os.stat(location)
    except (TypeError, ValueError):
        raise VideoError("The file's name cannot be used; rename it with plain letters.") from None
    except FileNotFoundError:
        raise VideoError(f"There is no file {name_of(path)}; check the name.") from None
    except OSError as error:
        raise VideoError(f"The file {name_of(path)} cannot be opened: {error.strerror}.") from None
    name = name_of(location)
    if stat.S_ISDIR(status.st_mode):
        raise VideoError(f"{name} is a folder; choose a video file in it.")
    if not stat.S_ISREG(status.st_mode):
        raise VideoError(f"{name} is not an ordinary file; choose a video file.")
    try:
        with open(location, "rb") as file:
            head = file.read(SNIFFED_BYTES)
    except OSError as error:
        raise VideoError(f"The file {name} cannot be opened: {error.strerror}.") from None
    if not head:
        raise VideoError(f"{name} is empty; choose another file or upload it again.")
    return location, recognise(head, name)


def recognise(head: bytes, name: str) -> Format:
    """The format that the first bytes tell; ``name`` is for the sentence of the VideoError."""
    text = head.lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")[:64].lower()
    if text.startswith(_SCRIPTS):
        raise VideoError(f"{name} is a playlist or script that points to other files; choose the video file itself.")
    if (head[:4] == b"RIFF" and head[8:12] == b"WAVE") or head.startswith(_SOUNDS):
        raise VideoError(f"{name} has sound but no picture; choose a video.")
    found = _container(head)
    if found is None:
        raise VideoError(f"{name} is not a video that can be read; {ADVICE}.")
    lowered = head.lower()
    if any(mark in lowered for mark in _SCRIPT_MARKS):
        return replace(found, guessable=False)
    return found


def _container(head: bytes) -> Format | None:
    for start, found in _BY_START:
        if head.startswith(start):
            return found
    if head[4:8] in _BOXES:
        return Format("") if head[4:8] == b"ftyp" and head[8:12] in _PICTURE_BRANDS else Format("mov")
    if head[:4] == b"RIFF":
        return {b"AVI ": Format("avi"), b"WEBP": Format("", seekable=False)}.get(head[8:12])
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        animated = b"acTL" in head[: head.find(b"IDAT")]  # always before the first picture's data
        return Format("apng" if animated else "", seekable=False)
    if head.startswith(_PICTURES):
        return Format("", seekable=False)
    return _elementary(head) or _transport(head)


def _elementary(head: bytes) -> Format | None:
    """Raw H.264 or HEVC: a start code, then a first unit that such a stream begins with (parameter sets, delimiter, SEI)."""
    for start in (b"\x00\x00\x00\x01", b"\x00\x00\x01"):
        if head.startswith(start) and len(head) > len(start) + 1:
            first, second = head[len(start)], head[len(start) + 1]
            if first in (0x40, 0x42, 0x44, 0x46, 0x4E) and second == 1:
                return Format("hevc", seekable=False)
            if first in (0x67, 0x47, 0x27, 0x06, 0x09):
                return Format("h264", seekable=False)
    return None


def _transport(head: bytes) -> Format | None:
    """MPEG-TS: the sync byte at five packets in a row, 188 bytes each (192 on a camera's disk)."""
    for size in (188, 192):
        for offset in range(size):
            packets = head[offset : offset + 5 * size : size]
            if len(packets) == 5 and packets == b"G" * 5:
                return Format("mpegts", restarts=True)
    return None


def name_of(path: object) -> str:
    """The file's name for a sentence: short, printable, in quotes."""
    try:
        name = os.path.basename(os.path.normpath(os.fspath(path)))  # type: ignore[arg-type]
    except TypeError:
        return "of that name"
    printable = "".join(letter if letter.isprintable() else "?" for letter in str(name))
    return f"“{printable if len(printable) <= 60 else printable[:40] + '…' + printable[-15:]}”"
