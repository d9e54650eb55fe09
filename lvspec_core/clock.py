"""The clock of one round: it waits for the device where a round begins and ends, never inside."""

from __future__ import annotations

import time

import torch


class Clock:
    """Stands still between rounds. On a GPU the host runs ahead of the device: a mark inside a round is an event that the device
    notes when it gets there, read after the round, and only the round's two borders make the host wait. So nothing of one lane's
    work is left over for the next lane's clock, and no wait takes time from the round itself."""

    def __init__(self, device: torch.device):
        self.device = device
        self.cuda = device.type == "cuda"
        self._began = 0.0
        self._marks: list = []

    def start(self) -> None:
        self._marks.clear()
        if self.cuda:
            torch.cuda.synchronize(self.device)
            self.mark()
        self._began = time.perf_counter()

    def mark(self) -> None:
        """Notes when the work asked for up to here was done."""
        if self.cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record(torch.cuda.current_stream(self.device))
            self._marks.append(event)
        else:
            self._marks.append(time.perf_counter())

    def stop(self) -> list[float]:
        """Seconds from the start to each mark, and to now."""
        if self.cuda:
            torch.cuda.synchronize(self.device)
        ended = time.perf_counter()
        if self.cuda:
            first, *marks = self._marks
            return [*(first.elapsed_time(mark) / 1000 for mark in marks), ended - self._began]
        return [*(mark - self._began for mark in self._marks), ended - self._began]
