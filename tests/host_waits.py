"""Counts what makes the host wait for a device: values that are read, and plain copies to it. On a CPU both happen at once and
cost nothing, so only counting shows them."""

from __future__ import annotations

import sys
from collections import Counter

import torch
from torch.overrides import TorchFunctionMode

READS = ("tolist", "item", "__int__", "__float__", "__bool__", "__index__", "__contains__", "numpy", "cpu", "nonzero", "is_nonzero")
READS += ("equal", "allclose", "masked_select", "unique", "bincount")
MADE_ON_THE_HOST = ("tensor", "as_tensor", "from_numpy")
UPLOADS = "lvspec_core.transfer"  # where copies do not wait


class HostWaits(TorchFunctionMode):
    """``reads`` and ``copies``: how often each place, "module:function", did so while this was active."""

    def __init__(self) -> None:
        self.reads: Counter[str] = Counter()
        self.copies: Counter[str] = Counter()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", str(func))
        where = self._where()
        if name in READS:
            self.reads[where] += 1
        elif (name in MADE_ON_THE_HOST or (name in ("__getitem__", "__setitem__") and _copies(args[1]))) and UPLOADS not in where:
            self.copies[where] += 1
        elif name in ("__getitem__", "__setitem__") and _waits(args[1]):
            self.reads[where] += 1
        return func(*args, **(kwargs or {}))

    @staticmethod
    def _where() -> str:
        """The nearest place of the core that called."""
        frame = sys._getframe(2)
        while frame and not frame.f_globals.get("__name__", "").startswith("lvspec_core"):
            frame = frame.f_back
        return f"{frame.f_globals['__name__']}:{frame.f_code.co_name}" if frame else "elsewhere"


def _parts(index) -> tuple:
    return index if isinstance(index, tuple) else (index,)


def _copies(index) -> bool:
    """An index given as Python numbers becomes a tensor on the device."""
    return any(isinstance(part, (list, range)) for part in _parts(index))


def _waits(index) -> bool:
    """How many rows a mask takes, and which row a single number on the device is, only the device knows."""
    return any(isinstance(part, torch.Tensor) and (part.dtype == torch.bool or part.dim() == 0) for part in _parts(index))
