"""Races and video files, handled in processes of their own: the only way in for the page and the command line.

The race process holds the models and steps the lanes. Video files are opened by :mod:`lvspec_core.video` in a process per file:
decoders crash and hang on broken files, and neither may a film strip wait behind a race nor a race lose its models to a
decoder. The clip crosses to the race process before the race's first clock starts.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from lvspec_core.errors import VideoError, WorkerError
from lvspec_core.records import Record
from lvspec_core.registry import PAIRS, PairInfo
from lvspec_core.settings import RaceSettings
from lvspec_core.video import VideoClip, describe, film_strip, read_video
from lvspec_core.worker.process import Process

FEED_SECONDS = 1 / 15
READS_AT_ONCE = 2
POLL_SECONDS = 0.05
# a round of a large pair on a CPU takes this long at most; a race that has not heeded a stop by then hangs
PATIENCE_SECONDS = 60


class RaceWorker:
    """Runs races in a child process, restarted when it dies, and reads videos. Safe to use from many threads.

    ``runner``: "module:function" that the child calls (see :class:`lvspec_core.worker.child.Child`); ``reader``: reads a video
    as :func:`lvspec_core.video.read_video` does. Tests put their own in.
    """

    def __init__(self, runner: str = "lvspec_core.worker.runner:run", reader: Callable[..., Any] = read_video) -> None:
        self._racer = Process(runner)
        self._reader = reader
        self._race_turn = threading.Lock()
        self._read_turns = threading.BoundedSemaphore(READS_AT_ONCE)
        self._warm: str | None = None

    def race(
        self, path: str | os.PathLike, settings: RaceSettings, stop: threading.Event | None = None, pair: PairInfo | None = None
    ) -> Iterator[list[Record]]:
        """Races the video at ``path``; yields lists of new records, at most about 15 a second. ``pair``: one that is not the
        registry's; it crosses to the race process as the plain data that it is.

        Closing the generator ends the race within one round and frees its caches. Setting ``stop`` does so too, but the
        generator then goes on to the lanes' summaries and its end. Races wait for each other. Raises UserError: what is
        wrong with the file or the settings, or WorkerError for a race lost with its process; the next one works.
        """
        stop = stop or threading.Event()
        settings = settings.validated()
        small = pair is None and (settings.pair not in PAIRS or PAIRS[settings.pair].bundled)
        if small and not self._racer.alive:
            # the models load while the file is read; what is wrong with them comes up in the race itself
            self._racer.request("warm", settings.pair, settings)
        clip = self.read(path, settings.frames)
        while not self._race_turn.acquire(timeout=POLL_SECONDS):
            if stop.is_set():
                return
        try:
            yield from self._race(clip, settings, stop, *([pair] if pair else []))
        finally:
            self._race_turn.release()

    def _race(self, clip: VideoClip, settings: RaceSettings, stop: threading.Event, *pair: PairInfo) -> Iterator[list[Record]]:
        reply = self._racer.request("race", clip, settings, *pair)
        del clip
        fed, told = 0.0, None
        try:
            while not reply.done:
                if stop.is_set() and told is None:
                    reply.stop()
                    told = time.monotonic()
                if told is not None and time.monotonic() - told > PATIENCE_SECONDS:
                    self._racer.kill()
                records = reply.records(timeout=POLL_SECONDS)
                if not records:
                    continue
                # hold back what comes too fast for a page, unless it is the end
                pause = fed + FEED_SECONDS - time.monotonic()
                if pause > 0 and not reply.done:
                    time.sleep(pause)
                    records += reply.records(timeout=0)
                fed = time.monotonic()
                yield records
            reply.value()
        finally:
            reply.cancel()
            if self._warm and not self._racer.alive:
                self.warm(self._warm)

    def read(self, path: str | os.PathLike, frames: int) -> VideoClip:
        """``frames`` frames of a file; raises VideoError or SettingsError."""
        if not path:
            raise VideoError("Choose a video first.")
        frames = RaceSettings(frames=frames).validated().frames
        with self._read_turns:
            return self._reader(path, frames=frames)

    def strip(self, path: str | os.PathLike, frames: int) -> dict:
        """What the models will see of a file: {"video": its description, "frames": [{"time", "image"}]}; raises VideoError."""
        clip = self.read(path, frames)
        return {"video": describe(clip), "frames": film_strip(clip)}

    def warm(self, pair: str) -> None:
        """Starts the race process and loads ``pair`` in the background; loads it again after a crash. Never raises."""
        self._warm = pair
        with suppress(WorkerError):
            self._racer.request("warm", pair)

    @property
    def pid(self) -> int | None:
        """Process id of the race process, None while it is not running."""
        return self._racer.pid

    def close(self) -> None:
        """Ends the race process; a race in it is lost. The next race starts it again."""
        self._warm = None
        self._racer.close()


_worker: RaceWorker | None = None
_worker_lock = threading.Lock()


def get_worker() -> RaceWorker:
    """The worker of this process, started on first use and ended with it."""
    global _worker
    with _worker_lock:
        if _worker is None:
            _worker = RaceWorker()
            atexit.register(_worker.close)
        return _worker


__all__ = ["RaceWorker", "get_worker"]
