"""Races and video files, handled in processes of their own: the only way in for the page and the command line.

Two child processes serve one :class:`RaceWorker`. The *racer* holds the models and steps the lanes. The *reader* opens video
files: decoders crash and hang on broken files, and a film strip must not wait behind a race (or delay one), so it is apart; a
lost reader is back in half a second, while a lost racer has to load its models again. A clip crosses from one to the other
before the race's first clock starts.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from lvspec_core.errors import VideoError, WorkerError
from lvspec_core.records import Record
from lvspec_core.settings import RaceSettings
from lvspec_core.worker.process import Process

FEED_SECONDS = 1 / 15
READ_SECONDS = 120
POLL_SECONDS = 0.05


class RaceWorker:
    """Runs races and reads videos in child processes, restarted when they die. Safe to use from many threads.

    ``runner`` and ``reader`` name what the children call ("module:function"); tests put their own in.
    """

    def __init__(self, runner: str = "lvspec_core.worker.runner:run", reader: str = "lvspec_core.video:read_video") -> None:
        self._racer = Process("race", runner, reader)
        self._reader = Process("video", runner, reader)
        self._race_turn = threading.Lock()
        self._read_turn = threading.Lock()
        self._warm: str | None = None

    def race(self, path: str, settings: RaceSettings, stop: threading.Event | None = None) -> Iterator[list[Record]]:
        """Races the video at ``path``; yields lists of new records, at most about 15 a second.

        Closing the generator ends the race within one round and frees its caches. Setting ``stop`` does so too, but the
        generator then goes on to the lanes' summaries and its end. Races wait for each other. Raises UserError: what is
        wrong with the file or the settings, or WorkerError for a race lost with its process; the next one works.
        """
        stop = stop or threading.Event()
        settings = settings.validated()
        # its imports run while the file is read
        self._racer.start()
        clip = self.read(path, settings.frames)
        while not self._race_turn.acquire(timeout=POLL_SECONDS):
            if stop.is_set():
                return
        try:
            yield from self._race(clip, settings, stop)
        finally:
            self._race_turn.release()

    def _race(self, clip: Any, settings: RaceSettings, stop: threading.Event) -> Iterator[list[Record]]:
        reply = self._racer.request("race", clip, settings)
        del clip
        fed, told = 0.0, False
        try:
            while not reply.done:
                if stop.is_set() and not told:
                    reply.stop()
                    told = True
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

    def read(self, path: str, frames: int) -> Any:
        """The VideoClip of a file with ``frames`` frames; raises VideoError or SettingsError."""
        return self._read("read", path, frames)

    def strip(self, path: str, frames: int) -> dict:
        """What the models will see of a file: {"video": its description, "frames": [{"time", "image"}]}; raises VideoError."""
        return self._read("strip", path, frames)

    def _read(self, operation: str, path: str, frames: int) -> Any:
        if not path:
            raise VideoError("Choose a video first.")
        frames = RaceSettings(frames=frames).validated().frames
        with self._read_turn:
            reply = self._reader.request(operation, os.fspath(path), frames)
            if not reply.wait(READ_SECONDS):
                self._reader.kill()
                raise VideoError(f"Reading {Path(path).name} took longer than {READ_SECONDS} seconds; try a shorter or smaller video.")
            if reply.lost:
                raise VideoError(f"{Path(path).name} cannot be read: its data crashed the video decoder.")
            return reply.value()

    def warm(self, pair: str) -> None:
        """Starts both processes and loads ``pair`` in the background; loads it again after a crash. Never raises."""
        self._warm = pair
        with suppress(WorkerError):
            self._reader.start()
            self._racer.request("warm", pair)

    @property
    def processes(self) -> dict[str, int | None]:
        """Process ids of the two children, None while one is not running."""
        return {process.name: process.pid for process in (self._racer, self._reader)}

    def close(self) -> None:
        """Ends both processes; races in them are lost. The next request starts them again."""
        self._warm = None
        self._racer.close()
        self._reader.close()


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
