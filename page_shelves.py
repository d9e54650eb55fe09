"""The runs that visitors of the report's page have added: theirs again when they come back to it."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from lvspec_core.report.runs import Run

MOST_SHELVES = 64
KEPT_SECONDS = 3600.0  # after it was last used


@dataclass
class Shelf:
    """One visitor's runs. ``key``: by which their browser finds it again, and which nobody can guess. ``turn``: held by whoever changes
    the runs until the page has the change, so that of two files added at once none is lost, and no other visitor waits."""

    runs: list[Run] = field(default_factory=list)
    key: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    turn: threading.Lock = field(default_factory=threading.Lock)


class Visitor:
    """Whose shelf is on the page. A copy is somebody else: Gradio copies a page's first state for every visit."""

    def __init__(self) -> None:
        self.shelf = Shelf()

    def __deepcopy__(self, _memo: dict) -> Visitor:
        return Visitor()


class Shelves:
    """What those who left the page may come back to. The shelf that was not used for longest goes first."""

    def __init__(self, most: int = MOST_SHELVES, seconds: float = KEPT_SECONDS, now: Callable[[], float] = time.monotonic):
        self._most, self._seconds, self._now = most, seconds, now
        self._guard = threading.Lock()
        self._shelves: OrderedDict[str, tuple[float, Shelf]] = OrderedDict()

    def keep(self, shelf: Shelf) -> None:
        """Keeps it from now on, or on."""
        with self._guard:
            self._shelves[shelf.key] = self._now(), shelf
            self._shelves.move_to_end(shelf.key)
            self._drop_old()

    def find(self, key: str) -> Shelf | None:
        """The shelf with this key; None where there is none any more."""
        with self._guard:
            self._drop_old()
            return self._shelves[key][1] if key in self._shelves else None

    def _drop_old(self) -> None:
        while self._shelves:
            used, _ = next(iter(self._shelves.values()))
            if len(self._shelves) <= self._most and self._now() - used <= self._seconds:
                break
            self._shelves.popitem(last=False)
