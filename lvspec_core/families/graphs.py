"""CUDA graphs: the passes of a round are recorded once and replayed by one call, where the host's launching sets the pace.

Off unless LVSPEC_GRAPHS=1. A graph is recorded per stream, as it holds the addresses of that stream's cache, and per number of rows;
:class:`~lvspec_core.families.fixed.FixedPass` is what it records. Recording belongs to the prefill: a stream without passes runs
eagerly, and so does whatever a stream's passes were not recorded for. Nothing is ever recorded by a pass itself, which may be on a
lane's clock.

Nobody needs to trust a graph. A replay is held against what the eager pass said, before anything was recorded, of other tokens one
place further on, as a chain and as branches, so that a number or an address that was recorded instead of read shows, and so does
whatever recording spoiled; then both are timed. The graph is used if it agrees and is faster, and else the log says why not. (It need
not be faster: for a mask torch may choose a slower attention kernel.)
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import Callable, Collection, Iterable
from functools import cache

import torch

from lvspec_core import graph_plan
from lvspec_core.clock import wait
from lvspec_core.families.attention import Watch
from lvspec_core.families.base import VideoLM
from lvspec_core.families.fixed import FixedPass, Weights
from lvspec_core.families.stream import Stream

log = logging.getLogger(__name__)

WARM_UPS = 3  # as torch's documentation asks
TRIALS = 7  # of which the median counts

Read = Callable[..., torch.Tensor]  # as :meth:`Stream.append`


class Disagreement(RuntimeError):
    """A pass of fixed shape does not say what the eager one says."""


class Passes:
    """The recorded passes of one stream by their number of rows, None where the eager pass is kept. ``layers``: see FixedPass."""

    def __init__(self, fixed: dict[int, FixedPass | None], layers: Collection[int] = ()):
        self.fixed = dict(sorted(fixed.items()))
        self.layers = frozenset(layers)

    def read(self, stream: Stream, ids: torch.Tensor, watch: Watch | None, sees: torch.Tensor | None) -> torch.Tensor | None:
        """As :meth:`Stream.append`; None if that is to run eagerly."""
        count = ids.shape[0]
        fixed = next((fixed for size, fixed in self.fixed.items() if size >= count), None)
        if fixed is None or stream.length + count > stream.cache.capacity or not set(watched_layers(watch, stream.model)) <= self.layers:
            return None
        return fixed.read(ids, watch, sees)


def on_gpu(device: torch.device) -> bool:
    return device.type == "cuda"


def usable(model: VideoLM) -> bool:
    """Whether passes of this model are to be recorded; where they were asked for and cannot be, the log says why."""
    if not graph_plan.wanted():
        return False
    if on_gpu(model.device) and not model.spread:
        return True
    log.warning("No CUDA graphs for %s: %s.", model.name, "it is spread over several devices" if model.spread else "it is not on a GPU")
    return False


def open_passes(stream: Stream, rows: Iterable[int], layers: Collection[int] = ()) -> None:
    """Lets the stream replay passes of so many rows, or fewer, where they pay. ``layers``: whose attention weights its watch wants.

    The stream is left as it was but for what stands behind its last row.
    """
    # the largest first: the others find room in what it leaves of the memory that they share
    fixed: dict[int, FixedPass | None] = {}
    for size in graph_plan.sizes(rows):
        fixed[size] = _tried(stream, size, layers, _pool(fixed.values()))
    stream.passes = Passes(fixed, layers)


def watched_layers(watch: Watch | None, model: VideoLM) -> tuple[int, ...]:
    """The layers whose attention weights a watch wants."""
    return () if watch is None else tuple(layer for layer in range(len(model.layers)) if watch.wants(layer))


def _pool(fixed: Iterable[FixedPass | None]):
    """The memory of those that were recorded for the same stream, None if none was. They can share it: none needs what another left
    there, as what is wanted of a replay is copied before the next one."""
    return next((each.graph.pool() for each in fixed if each is not None and each.graph is not None), None)


def _tried(stream: Stream, size: int, layers: Collection[int], pool) -> FixedPass | None:
    """The recorded pass if it agrees with the eager one and is faster."""
    try:
        fixed = recorded(stream, size, layers, pool)
        eager, replayed = _paces(stream, fixed)
        if replayed < eager:
            return fixed
        why = f"replayed they take {1e3 * replayed:.2f} ms, eagerly {1e3 * eager:.2f} ms"
    except Exception as error:  # whatever it is, the eager pass does without
        why = f"{type(error).__name__}: {str(error).strip()[:200]}".splitlines()[0]
    log.warning("Passes of %d rows of %s run eagerly: %s.", size, stream.model.name, why)
    return None


def recorded(stream: Stream, size: int, layers: Collection[int] = (), pool=None) -> FixedPass:
    """A pass that was recorded, into the memory ``pool`` if there is one, and agrees with the eager one; on a CPU it is run each
    time. Raises Disagreement, and whatever recording raises."""
    ids = _trial(stream, size)
    expected = _said(stream, stream.append, ids, layers)
    fixed = FixedPass(stream, size, layers)  # forgets what the eager pass wrote, so that this one has no use of it
    if on_gpu(stream.model.device):
        _record(fixed, pool)
    bound = torch.finfo(stream.model.dtype).eps ** 0.5
    for off in map(_distance, _said(stream, fixed.read, ids, layers), expected):
        if not off <= bound:  # NaN is not
            raise Disagreement(f"a relative difference of {off:.2g} from the eager pass, {bound:.2g} at most is rounding")
    return fixed


def _record(fixed: FixedPass, pool) -> None:
    device = fixed.model.device
    with torch.cuda.device(device):
        here, side = torch.cuda.current_stream(device), _side_stream(device)
        side.wait_stream(here)
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                fixed.run()
        here.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # thread_local: what other threads do meanwhile is no part of it and shall not end it
        recording = torch.cuda.graph(graph, pool=pool, stream=side, capture_error_mode="thread_local")
        with torch.cuda.stream(here), recording:  # one that fails leaves its stream behind as the current one
            fixed.run()
        fixed.graph = graph


@cache
def _side_stream(device: torch.device):
    """One for all recordings: the libraries keep a workspace for every stream that they ever worked on."""
    return torch.cuda.Stream(device)


def _trial(stream: Stream, size: int) -> torch.Tensor:
    """Tokens for a comparison: some that branch, and fewer than rows so that one is padded, where there are rows enough."""
    room = stream.cache.capacity - stream.length - 1
    if room < 1:
        raise IndexError("the cache has no room for a comparison")
    return torch.arange(1, 1 + min(room, size - (size > 2)), device=stream.model.device)


def _said(stream: Stream, read: Read, ids: torch.Tensor, layers: Collection[int]) -> list[torch.Tensor]:
    """The hidden states and the weights that a pass leaves of these tokens, as a chain and each on its own, one place behind the
    stream's end, which is where passes are recorded."""
    length, said = stream.length, []
    try:
        stream.append(ids[:1])
        for sees in (None, torch.eye(len(ids), dtype=torch.bool, device=ids.device)):
            seen = Weights(layers)
            said += [read(ids, seen, sees), *(seen.of[layer] for layer in layers)]
            stream.rollback(length + 1)
        return said
    finally:
        stream.rollback(length)


def _distance(found: torch.Tensor, expected: torch.Tensor) -> float:
    found, expected = found.float(), expected.float()
    return float((found - expected).norm() / expected.norm())


def _paces(stream: Stream, fixed: FixedPass) -> tuple[float, float]:
    """Seconds of the eager pass and of this one."""
    length, ids, watch = stream.length, _trial(stream, fixed.size), Weights(fixed.seen.layers)

    def pace(read: Read) -> float:
        def work() -> None:
            read(ids, watch)
            stream.rollback(length)

        return seconds(work, ids.device)

    return pace(stream.append), pace(fixed.read)


def seconds(work: Callable[[], None], device: torch.device) -> float:
    """Median time of a piece of work, waited for."""
    took = []
    for _ in range(TRIALS):
        wait(device)
        began = time.perf_counter()
        work()
        wait(device)
        took.append(time.perf_counter() - began)
    return statistics.median(took)
