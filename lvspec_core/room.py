"""What the device has, and what to do about a race that does not fit: one sentence before anything large is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lvspec_core.errors import PairError
from lvspec_core.memory import CONTEXT, GB, Demand, Estimate, Model, estimate, known_models
from lvspec_core.registry import PAIRS, PairInfo
from lvspec_core.settings import RaceSettings

FEW_LANES = ("ar", "lvspec")
CGROUPS = (  # (limit, in use) of a container's memory
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)


@dataclass(frozen=True)
class Room:
    """``free``: bytes that can be had on the device that a pair is loaded to; ``together``: on all GPUs, of which there are
    ``gpus``; 0 GPUs: a CPU. ``width``: bytes of a value of the weights."""

    free: int
    together: int
    gpus: int
    width: int

    def with_more(self, freed: int) -> Room:
        """As it is once so many bytes more are free."""
        return replace(self, free=self.free + freed, together=self.together + freed)

    def of(self, info: PairInfo) -> int:
        return self.together if info.spread else self.free

    def where(self, info: PairInfo) -> str:
        """Who has the memory, for a sentence."""
        if not self.gpus:
            return "this computer has"
        return f"the {self.gpus} GPUs together have" if info.spread and self.gpus > 1 else "the GPU has"


def room_here(width: int) -> Room:
    """What can be had now on this machine; what torch holds unused counts as free."""
    import torch

    if not torch.cuda.is_available():
        free = _free_memory()
        return Room(free, free, 0, width)
    frees = [
        torch.cuda.mem_get_info(index)[0] + torch.cuda.memory_reserved(index) - torch.cuda.memory_allocated(index)
        for index in range(torch.cuda.device_count())
    ]
    return Room(frees[torch.cuda.current_device()], sum(frees), len(frees), width)


def _free_memory() -> int:
    """Bytes of main memory, as far as a container may use it."""
    import psutil

    free = psutil.virtual_memory().available
    for limit, used in CGROUPS:
        try:
            free = min(free, int(limit.read_text()) - int(used.read_text()))
        except (OSError, ValueError):  # no container, or one without a limit
            continue
    return max(0, free)


def require(info: PairInfo, models: Sequence[Model], demand: Demand, room: Room, loaded: bool = False) -> Estimate | None:
    """The estimate of a race; PairError with one sentence if it does not fit. ``loaded``: the weights already are where they go.
    None for a bundled pair, which is never held back."""
    if info.bundled:
        return None
    need = _need(info, models, demand, room)
    have = room.of(info) + (need.weights + (CONTEXT if room.gpus else 0) if loaded else 0)
    if need.total <= have:
        return need
    advice = ", or ".join(_remedies(info, models, demand, room, have))
    asked, lanes = demand.settings.frames, len(demand.settings.methods)
    raise PairError(
        f"{info.title} needs about {amount(need.total)} ({amount(need.weights)} for the weights) for {count(asked, 'frame')} and"
        f" {count(lanes, 'lane')}, but {room.where(info)} {amount(room.of(info) + (need.weights if loaded else 0))} for it: {advice}."
    )


def _need(info: PairInfo, models: Sequence[Model], demand: Demand, room: Room) -> Estimate:
    return estimate(models, demand, room.width, info.quantise, info.alone, gpu=bool(room.gpus))


def _remedies(info: PairInfo, models: Sequence[Model], demand: Demand, room: Room, have: int) -> Iterator[str]:
    """Each would suffice alone; the mildest first."""

    def fits(info: PairInfo = info, have: int = have, models: Sequence[Model] = models, **changes) -> bool:
        asked = replace(demand, settings=replace(demand.settings, **changes))
        return _need(info, models, asked, room).total <= have

    settings = demand.settings
    most = most_frames(settings.frames, lambda frames: fits(frames=frames))
    if most:
        yield f"use at most {count(most, 'frame')}"
    if len(settings.methods) > len(FEW_LANES) and fits(methods=FEW_LANES):
        yield "race AR and LVSpec only"
    if room.gpus > 1 and not info.spread and fits(have=room.together):
        yield "spread it over the GPUs (--device-map auto)"
    if room.gpus and not info.quantise:
        bits = next((each for each in ("8bit", "4bit") if fits(replace(info, quantise=each))), None)
        if bits:
            yield f"quantise it to {bits[0]} bits (--quantise {bits})"
    yield f"choose a smaller pair, such as {smaller_pair(info, models, demand, room, have)}"


def most_frames(asked: int, fits) -> int:
    """The largest number of frames below ``asked`` that ``fits``, 0 if not even one does; fewer frames never need more."""
    low, high = 0, asked
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def smaller_pair(info: PairInfo, models: Sequence[Model], demand: Demand, room: Room, have: int) -> str:
    """The largest real pair that fits, of the same family if there is one; else the bundled one."""
    own = _need(info, models, demand, room).total
    fitting = []
    for other in PAIRS.values():
        known = known_models(other)
        if known is None:
            continue
        need = _need(other, known, demand, room).total
        if need < own and need <= have:
            fitting.append((other.family == info.family, not other.alone, need, other.name))
    return max(fitting)[-1] if fitting else RaceSettings.pair


def amount(size: float) -> str:
    """Bytes as a person reads them."""
    value = max(0, size) / GB
    if value < 0.1:
        return f"{value * 1024:.0f} MB"
    return f"{value:.1f} GB" if value < 10 else f"{value:.0f} GB"


def count(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("s" if number != 1 else "")
