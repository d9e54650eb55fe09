"""CUDA graphs without a GPU: what is done while one records is noted operation by operation, with the tensors and numbers it was done
with, and a replay does just that again, into the tensors that came out then. So whatever reaches a pass around its buffers, a Python
number above all, is as stale in a replay as on a GPU; and a host that reads while recording is refused, as there."""

from __future__ import annotations

from contextlib import contextmanager
from typing import ClassVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lvspec_core import graph_plan
from lvspec_core.families import graphs

# what makes the host wait, and what brings its numbers to the device as a tensor
REFUSED = ("item", "_local_scalar_dense", "is_nonzero", "nonzero", "masked_select", "equal", "lift_fresh", "_unique2")


class Recorder(TorchDispatchMode):
    def __init__(self, steps: list):
        super().__init__()
        self.steps = steps

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func._schema.name.removeprefix("aten::") in REFUSED:
            raise RuntimeError("operation not permitted when stream is capturing")
        out = func(*args, **kwargs)
        given = {each.untyped_storage().data_ptr() for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)}
        fresh = [each if each.untyped_storage().data_ptr() not in given else None for each in self._tensors(out)]
        if func._schema.is_mutable or any(each is not None for each in fresh):  # a view is an address and no work
            self.steps.append((func, args, kwargs, fresh))
        return out

    @staticmethod
    def _tensors(out) -> list[torch.Tensor]:
        return [each for each in tree_leaves(out) if isinstance(each, torch.Tensor)]


class Graph:
    """Stands in for torch.cuda.CUDAGraph."""

    made: ClassVar[list[Graph]] = []

    def __init__(self) -> None:
        self.steps: list = []
        self.replays = 0
        Graph.made.append(self)

    def pool(self):
        return self

    def replay(self) -> None:
        self.replays += 1
        for func, args, kwargs, fresh in self.steps:
            for kept, again in zip(fresh, Recorder._tensors(func(*args, **kwargs)), strict=True):
                if kept is not None:
                    kept.copy_(again)


class Streams:
    """Which stream is the current one; a recording that fails leaves its own behind, as torch's does."""

    def __init__(self) -> None:
        self.current = Stream()

    @contextmanager
    def stream(self, stream):
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    @contextmanager
    def graph(self, graph, pool=None, stream=None, capture_error_mode="global"):
        self.current = stream
        before = self.current
        with Recorder(graph.steps):
            yield
        self.current = before


class Stream:
    def __init__(self, device=None):
        pass

    def wait_stream(self, other) -> None:
        pass


@contextmanager
def nothing(device):
    yield


def install(monkeypatch, eager: float = 2.0, replayed: float = 1.0) -> Streams:
    """Records on a CPU from now on, and asks for it. ``eager``, ``replayed``: the seconds that passes take when they are timed."""
    streams = Streams()
    Graph.made = []
    times = iter(())

    def seconds(work, device):
        nonlocal times
        work()
        found = next(times, None)
        if found is None:
            found, times = eager, iter((replayed,))
        return found

    graphs._side_stream.cache_clear()
    monkeypatch.setenv(graph_plan.VARIABLE, "1")
    monkeypatch.setattr(graphs, "on_gpu", lambda device: True)
    monkeypatch.setattr(graphs, "seconds", seconds)
    for name, stand_in in {
        "CUDAGraph": Graph,
        "graph": streams.graph,
        "stream": streams.stream,
        "Stream": Stream,
        "current_stream": lambda device=None: streams.current,
        "device": nothing,
    }.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    return streams
