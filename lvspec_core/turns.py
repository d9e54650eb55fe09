"""Races run one at a time, in the order in which they were asked for; whoever waits can see the place in the queue."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Ticket:
    """A place in the queue; ``place`` is the number of races ahead."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    @property
    def place(self) -> int:
        with self._turns.changed:
            return self._turns.tickets.index(self)

    def wait(self, seconds: float) -> int:
        """Waits until the queue moves, at most so long; returns the place."""
        with self._turns.changed:
            place = self._turns.tickets.index(self)
            if place:
                self._turns.changed.wait(seconds)
            return self._turns.tickets.index(self)


class Turns:
    """A first-come, first-served queue that can be left at any time."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.tickets: list[Ticket] = []

    @contextmanager
    def ticket(self) -> Iterator[Ticket]:
        """A place in the queue for as long as the block runs: waiting in it, then racing."""
        ticket = Ticket(self)
        with self.changed:
            self.tickets.append(ticket)
        try:
            yield ticket
        finally:
            with self.changed:
                self.tickets.remove(ticket)
                self.changed.notify_all()
