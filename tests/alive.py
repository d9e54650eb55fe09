"""How many bytes of tensors are alive at once while code runs."""

from __future__ import annotations

import weakref
from collections.abc import Iterable

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Alive(TorchDispatchMode):
    """``peak``: the most bytes of tensors made inside that were alive at the same time. ``before``: tensors that are there already, which
    what is done in place returns again."""

    def __init__(self, before: Iterable[torch.Tensor] = ()):
        super().__init__()
        self.now = self.peak = 0
        self._known = {tensor.untyped_storage()._cdata for tensor in before}

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        made = function(*arguments, **(keywords or {}))
        for each in tree_leaves(made):
            if hasattr(each, "untyped_storage"):
                self._count(each.untyped_storage())
        return made

    def _count(self, storage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._known:
            return
        self._known.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._forget, key, size)

    def _forget(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size
