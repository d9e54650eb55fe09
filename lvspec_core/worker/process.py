"""One child process as its parent sees it: started on demand, asked, and started again when it has died."""

from __future__ import annotations

import itertools
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

import lvspec_core
from lvspec_core import errors
from lvspec_core.errors import UserError, WorkerError
from lvspec_core.records import Record
from lvspec_core.worker.channel import receive, send

CLOSE_SECONDS = 2


class Reply:
    """The answer to one request as it comes in: records first, then a value or an error."""

    def __init__(self, process: Process, number: int) -> None:
        self._process, self._number = process, number
        self._messages: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._outcome: tuple[str, Any] | None = None

    def put(self, kind: str, value: Any) -> None:
        """Called by the thread that listens to the child."""
        self._messages.put((kind, value))

    @property
    def done(self) -> bool:
        """Whether nothing more will come."""
        return self._outcome is not None

    def records(self, timeout: float) -> list[Record]:
        """All records that have come in since the last call, after waiting up to ``timeout`` seconds for the first."""
        records: list[Record] = []
        while not self.done:
            try:
                kind, value = self._messages.get(timeout=timeout) if timeout else self._messages.get_nowait()
            except queue.Empty:
                break
            if kind == "records":
                records += value
                timeout = 0
            else:
                self._outcome = (kind, value)
        return records

    def value(self) -> Any:
        """What the child answered; raises the UserError that it answered with, or WorkerError when it died."""
        kind, value = self._outcome or ("error", ("WorkerError", "The answer is not there yet."))
        if kind == "value":
            return value
        if kind == "lost":
            raise WorkerError(value)
        name, sentence = value
        raise getattr(errors, name, UserError)(sentence)

    def stop(self) -> None:
        """Asks the child to wind up: its last records still come."""
        self._process.tell(self._number, "stop")

    def cancel(self) -> None:
        """Tells the child that nobody listens any more; without effect after the end."""
        if not self.done:
            self._process.tell(self._number, "cancel")
        self._process.forget(self._number)


class Process:
    """A child that runs :mod:`lvspec_core.worker.child`, spoken to over its standard input and output.

    It is a program of its own rather than a ``multiprocessing`` child: those import the parent's main module again, which
    would build the page a second time, and a fork would inherit the page's threads. It sits in a session of its own, so that
    Ctrl-C in a terminal reaches the parent alone.
    """

    def __init__(self, runner: str) -> None:
        self._command = [sys.executable, "-m", "lvspec_core.worker.child", "--runner", runner]
        self._popen: subprocess.Popen | None = None
        self._replies: dict[int, Reply] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()

    @property
    def alive(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    @property
    def pid(self) -> int | None:
        return self._popen.pid if self._popen is not None and self.alive else None

    def start(self) -> None:
        """Starts the child unless it runs; raises WorkerError."""
        with self._lock:
            if self.alive:
                return
            self._lose_all()
            try:
                self._popen = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment(), start_new_session=True
                )
            except OSError as error:
                raise WorkerError(f"The race process cannot be started: {error.strerror}.") from None
            threading.Thread(target=self._listen, args=(self._popen,), name="race listener", daemon=True).start()

    def request(self, operation: str, *arguments: Any) -> Reply:
        """Asks the child, started if need be; the answer comes in through the Reply."""
        with self._lock:
            self.start()
            number = next(self._numbers)
            reply = self._replies[number] = Reply(self, number)
            self.tell(number, operation, *arguments)
            return reply

    def tell(self, number: int, operation: str, *arguments: Any) -> None:
        """Sends one message; a child that is gone is found out by the thread that listens."""
        with self._lock:
            if self._popen is not None and self._popen.stdin is not None:
                with suppress(OSError, ValueError):
                    send(self._popen.stdin, (number, operation, arguments))

    def forget(self, number: int) -> None:
        """Drops whatever still comes for a request."""
        self._replies.pop(number, None)

    def close(self) -> None:
        """Ends the child: it leaves when its input closes, and is killed if it does not."""
        with self._lock:
            popen = self._popen
        if popen is None:
            return
        try:
            popen.stdin.close()
            popen.wait(CLOSE_SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            popen.kill()
            popen.wait()

    def kill(self) -> None:
        """Ends a child that does not listen any more; whoever waits for it is told."""
        with self._lock:
            if self._popen is not None:
                self._popen.kill()

    def _listen(self, popen: subprocess.Popen) -> None:
        with suppress(EOFError, OSError, ValueError):
            while True:
                number, kind, value = receive(popen.stdout)
                reply = self._replies.get(number)
                if reply is not None:
                    reply.put(kind, value)
                    if kind != "records":
                        self.forget(number)
        popen.wait()
        popen.stdout.close()
        with self._lock:
            if self._popen is popen:
                self._lose_all()

    def _lose_all(self) -> None:
        """Tells everybody who waits that the child is gone."""
        for number in list(self._replies):
            reply = self._replies.pop(number, None)
            if reply is not None:
                reply.put("lost", self._epitaph())

    def _epitaph(self) -> str:
        code = self._popen.returncode if self._popen is not None else None
        cause = ""
        if code is not None and code < 0:
            cause = f" ({signal.Signals(-code).name})" if -code in list(signal.Signals) else f" (signal {-code})"
        hint = ", perhaps for lack of memory" if code == -signal.SIGKILL else ""
        return f"The race process ended unexpectedly{cause}{hint}; it is started again, so try once more."


def _environment() -> dict[str, str]:
    """This process's environment, with its module search path: the child finds the same code."""
    package_parent = os.path.dirname(os.path.dirname(os.path.abspath(lvspec_core.__file__)))
    paths = [package_parent, *(os.path.abspath(path) for path in sys.path if path)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), "PYTHONSAFEPATH": "1", "PYTHONUNBUFFERED": "1"}
