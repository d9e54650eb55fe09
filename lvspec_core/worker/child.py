"""The other side of the border: a process that serves one request after another until its parent is gone.

While a race runs, this process has nothing else to do: its main thread steps the lanes and, between two rounds, when no
lane's clock runs, sends what is new. A second thread sleeps in a read of the pipe, so it takes no time from a lane; it wakes
for a stop, and ends the process the moment the parent is gone, whatever the main thread is busy with.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from lvspec_core.errors import UserError
from lvspec_core.records import Record
from lvspec_core.worker.batches import batches
from lvspec_core.worker.channel import receive, send


@dataclass
class Request:
    """One thing to do. ``stopped``: wind up and hand in the summaries; ``cancelled``: nobody listens any more."""

    id: int
    operation: str
    arguments: tuple
    stopped: threading.Event = field(default_factory=threading.Event)
    cancelled: threading.Event = field(default_factory=threading.Event)


class Child:
    """Serves the operations race and warm.

    ``runner``: "module:function", called with (clip, settings, should_stop) and, for a pair that is not the registry's, its
    PairInfo, yielding records; its optional attribute ``warm`` is called with a pair's name or PairInfo, and settings if there are any.
    """

    def __init__(self, source: BinaryIO, sink: BinaryIO, runner: str) -> None:
        self.source, self.sink, self.runner = source, sink, runner
        self.requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self.open: dict[int, Request] = {}

    def serve(self) -> None:
        """Works until the parent is gone (the listening thread then ends the process)."""
        threading.Thread(target=self._listen, name="listener", daemon=True).start()
        while True:
            request = self.requests.get()
            if not request.cancelled.is_set():
                self._answer(request)
            self.open.pop(request.id, None)
            del request
            # nobody waits now: what a race held goes here, not in the middle of the next one
            gc.collect()

    def _listen(self) -> None:
        try:
            while True:
                number, operation, arguments = receive(self.source)
                if operation in ("stop", "cancel"):
                    request = self.open.get(number)
                    if request:
                        request.stopped.set()
                        if operation == "cancel":
                            request.cancelled.set()
                else:
                    request = self.open[number] = Request(number, operation, arguments)
                    self.requests.put(request)
        finally:
            os._exit(0)

    def _answer(self, request: Request) -> None:
        try:
            value = getattr(self, f"_{request.operation}")(request, *request.arguments)
            self._send(request, "value", value)
        except UserError as error:
            self._send(request, "error", (type(error).__name__, str(error)))
        except BrokenPipeError:
            os._exit(0)
        except Exception as error:
            traceback.print_exc()
            sentence = f"Something went wrong ({type(error).__name__}); the server's log says what."
            self._send(request, "error", ("WorkerError", sentence))

    def _send(self, request: Request, kind: str, value: Any) -> None:
        send(self.sink, (request.id, kind, value))

    def _race(self, request: Request, clip: Any, settings: Any, *pair: Any) -> None:
        records = _named(self.runner)(clip, settings, request.stopped.is_set, *pair)
        try:
            self._feed(request, records)
        finally:
            close = getattr(records, "close", None)
            if close:
                close()

    def _feed(self, request: Request, records: Iterator[Record]) -> None:
        """Sends what is new, in batches."""
        for batch in batches(records):
            if request.cancelled.is_set():
                return
            self._send(request, "records", batch)

    def _warm(self, request: Request, pair: Any, *settings: Any) -> None:
        warm: Callable[..., None] | None = getattr(_named(self.runner), "warm", None)
        if warm:
            warm(pair, *settings)


def _named(name: str) -> Callable:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def main(argv: list[str] | None = None) -> None:
    """Serves on standard input and output; whatever a library prints goes to the standard error stream instead."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runner", required=True)
    options = parser.parse_args(argv)
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    Child(source, sink, options.runner).serve()


if __name__ == "__main__":
    main()
