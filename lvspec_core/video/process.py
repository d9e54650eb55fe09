"""Reading in a process of its own: a file that crashes, hangs or floods a decoder costs that process and gets one sentence."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections import OrderedDict
from pathlib import Path
from threading import Lock

import numpy as np

from lvspec_core.errors import VideoError
from lvspec_core.video.clip import VideoClip
from lvspec_core.video.formats import ADVICE, inspect, name_of
from lvspec_core.video.reading import READERS, read_here
from lvspec_core.video.sampling import Span

SECONDS = 60.0
MEMORY_BYTES = 8 << 30
REMEMBERED = 2
PROGRAM = "from lvspec_core.video.process import serve; serve()"

_remembered: OrderedDict[tuple, VideoClip] = OrderedDict()
_lock = Lock()


def read_video(path: str | os.PathLike, frames: int = 8, max_pixels: int = 448 * 448, span: Span | None = None) -> VideoClip:
    """``frames`` frames of at most ``max_pixels`` pixels each, sampled uniformly by time over the whole video, or over a ``span`` of it,
    (start, end) in seconds: the clip is then that part alone, and its times count from the part's start.

    decord reads where it can, PyAV elsewhere, Pillow a still picture (one frame, repeated). The last clips are remembered while
    their files do not change. Raises VideoError with one sentence for everything that is not a readable video.
    """
    if frames < 1 or max_pixels < 1:
        raise ValueError("frames and max_pixels must be at least 1")
    location, _ = inspect(path)
    status = os.stat(location)
    key = (location, status.st_mtime_ns, status.st_size, status.st_ino, frames, max_pixels, span)
    with _lock:
        if key in _remembered:
            _remembered.move_to_end(key)
            return _remembered[key]
    clip = _read_apart(location, frames, max_pixels, span)
    with _lock:
        _remembered[key] = clip
        while len(_remembered) > REMEMBERED:
            _remembered.popitem(last=False)
    return clip


def _read_apart(location: str, frames: int, max_pixels: int, span: Span | None = None) -> VideoClip:
    deadline = time.monotonic() + SECONDS
    # decord brings down its process on some damaged files: then PyAV alone tries in a new one
    for readers in (READERS, READERS[1:]):
        request = {"location": location, "frames": frames, "max_pixels": max_pixels, "readers": readers, "seconds": SECONDS, "span": span}
        reply = _ask(request, max(1.0, deadline - time.monotonic()), name_of(location))
        if reply:
            break
    else:
        raise VideoError(f"{name_of(location)} is damaged so that decoders crash on it; convert it, or {ADVICE}.")
    (length,) = struct.unpack(">Q", reply[:8])
    answer = json.loads(reply[8 : 8 + length])
    if "error" in answer:
        raise VideoError(answer["error"])
    pixels = np.frombuffer(bytearray(reply[8 + length :]), dtype=np.uint8).reshape(answer.pop("shape"))
    return VideoClip(**{**answer, "timestamps": tuple(answer["timestamps"]), "frames": pixels})


def _ask(request: dict, seconds: float, name: str) -> bytes:
    """The whole reply of a new reading process, or nothing if it crashed."""
    package_root = str(Path(__file__).resolve().parents[2])
    paths = [package_root, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            input=json.dumps(request).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise VideoError(f"Reading {name} took over {SECONDS:.0f} seconds; shorten it, scale it down or convert it to MP4.") from None
    return done.stdout if done.returncode == 0 else b""


def serve() -> None:
    """The reading process: one request on standard input, one reply on standard output (length, JSON header, pixels)."""
    reply = os.dup(1)
    os.dup2(2, 1)  # whatever a library prints must not fall into the reply
    request = json.loads(sys.stdin.buffer.read())
    _limit(request["seconds"])
    with os.fdopen(reply, "wb") as output:
        for part in answer(request):
            output.write(part)
    os._exit(0)  # a decoder thread that hangs must not hold up the end


def answer(request: dict) -> tuple[bytes, bytes]:
    """The two parts of a reply to ``request``: header with its length, and pixels."""
    pixels = b""
    try:
        span = tuple(request["span"]) if request.get("span") else None
        clip = read_here(request["location"], request["frames"], request["max_pixels"], tuple(request["readers"]), span)
        pixels = clip.frames.tobytes()
        header = {**vars(clip), "shape": clip.frames.shape}
        del header["frames"]
    except VideoError as error:
        header = {"error": str(error)}
    except MemoryError:
        header = {"error": f"{name_of(request['location'])} needs too much memory; scale it down or shorten it."}
    except Exception as error:
        header = {"error": f"{name_of(request['location'])} cannot be read ({type(error).__name__}); {ADVICE}."}
    encoded = json.dumps(header).encode()
    return struct.pack(">Q", len(encoded)) + encoded, pixels


def _limit(seconds: float) -> None:
    """Ends this process in time though its parent be gone, and keeps a bad file from taking the machine's memory."""
    if hasattr(signal, "alarm"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(seconds) + 5)
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):
        pass  # not every system has these limits; the time limit still holds
