"""How long a piece of work takes: warmed up, repeated, waited for; and how fast the memory is that it reads."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

WARM_UPS = 2
LONG_SECONDS = 1.0  # a warm-up that takes so long is enough
FEWEST, MOST = 3, 30  # repetitions
ENOUGH_SECONDS = 1.0  # of repetitions, once there are the fewest
COPY_BYTES = 4 * 2**30


class Budget:
    """The seconds that a run may take. Asked before anything begins, as a piece of work cannot be broken off."""

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic):
        self._now = now
        self._began = now()
        self.seconds = seconds

    @property
    def used(self) -> float:
        return self._now() - self._began

    @property
    def left(self) -> float:
        return self.seconds - self.used

    def allows(self, expected: float) -> bool:
        """Whether something that should take so many seconds still fits."""
        return expected <= self.left


@dataclass(frozen=True)
class Timing:
    """Seconds from asking for the work to its end: median and quartiles; ``host``: median of how long asking took, None on a CPU,
    where asking is doing. ``peak``: bytes of the device's memory in use at most, None on a CPU."""

    median: float
    low: float
    high: float
    repeats: int
    host: float | None = None
    peak: int | None = None


def wait(device: torch.device) -> None:
    """Returns when the device has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@torch.inference_mode()
def measure(work: Callable[[], object], device: torch.device, budget: Budget, warm_ups: int = WARM_UPS) -> Timing:
    """Runs the work again and again until it is known well enough, or the budget is used up; once at least."""
    cuda = device.type == "cuda"
    if cuda:
        wait(device)
        torch.cuda.reset_peak_memory_stats(device)
    for _ in range(warm_ups):
        began = budget.used
        work()
        wait(device)
        if budget.left <= 0 or budget.used - began >= LONG_SECONDS:
            break
    walls: list[float] = []
    hosts: list[float] = []
    while len(walls) < MOST and not (walls and budget.left <= 0) and (len(walls) < FEWEST or sum(walls) < ENOUGH_SECONDS):
        wait(device)
        began = time.perf_counter()
        kept = work()  # its memory is not given back while the clock runs
        asked = time.perf_counter()
        wait(device)
        walls.append(time.perf_counter() - began)
        hosts.append(asked - began)
        del kept
    low, median, high = statistics.quantiles(walls, n=4) if len(walls) > 1 else walls * 3
    peak = torch.cuda.max_memory_allocated(device) if cuda else None
    return Timing(median, max(low, min(walls)), min(high, max(walls)), len(walls), statistics.median(hosts) if cuda else None, peak)


def copy_bandwidth(device: torch.device, budget: Budget) -> dict:
    """Bytes per second of the device's memory, as a big copy reaches them: every byte is read once and written once."""
    size = COPY_BYTES
    if device.type == "cuda":
        size = min(size, torch.cuda.mem_get_info(device)[0] // 4)
    else:
        size = 64 * 2**20
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    timing = measure(lambda: target.copy_(source), device, budget)
    return {
        "bytes_per_second": 2 * size / timing.median,
        "slowest": 2 * size / timing.high,
        "fastest": 2 * size / timing.low,
        "how": f"median of {timing.repeats} copies of {size / 2**20:,.0f} MiB, read and written",
    }
