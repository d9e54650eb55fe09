"""The key/value cache of one sequence: allocated once, rolled back by moving a counter."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, groupby

import torch
from transformers import Cache

from lvspec_core.transfer import upload


class KVCache(Cache):
    """Keys and values of one sequence through all layers of one model, behind transformers' own cache interface.

    A dynamic cache copies everything it holds on every step, and a rollback copies again. Here a step writes its rows in
    place, the views of all layers are made by one call per step, and a rollback is an assignment.
    """

    def __init__(
        self, layers: int, heads: int, capacity: int, dim: int, dtype: torch.dtype, devices: torch.device | Sequence[torch.device]
    ):
        """``devices``: of all layers, or of each."""
        super().__init__(layers=[])
        self.layer_count = layers
        self.capacity = capacity
        self.length = 0
        self.shape = (heads, capacity, dim, dtype)
        self.devices = (devices,) * layers if isinstance(devices, torch.device) else tuple(devices)
        # per run of layers on one device: [layers × (keys, values), batch 1, heads, tokens, head dim]
        self.stores = tuple(
            torch.empty(2 * len(list(run)), 1, heads, capacity, dim, dtype=dtype, device=device) for device, run in groupby(self.devices)
        )

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        """Writes a layer's new rows, [1, heads, n, dim], and returns all rows up to them."""
        if layer_idx == 0:
            self._open(key_states.shape[-2])
        where = 2 * layer_idx
        self._written[where].copy_(key_states)
        self._written[where + 1].copy_(value_states)
        if layer_idx == self.layer_count - 1:
            self.length = self._end
        return self._readable[where], self._readable[where + 1]

    def _open(self, count: int) -> None:
        self._end = self.length + count
        if self._end > self.capacity:
            raise IndexError(f"the cache holds {self.capacity} tokens, {self._end} were asked for")
        self._written = self._rows(self.length, self._end)
        self._readable = self._rows(0, self._end)

    def _rows(self, start: int, end: int) -> tuple[torch.Tensor, ...]:
        """Views of these tokens' rows, keys and values of one layer after the other."""
        if len(self.stores) == 1:
            return self.stores[0][:, :, :, start:end].unbind(0)
        return tuple(chain.from_iterable(store[:, :, :, start:end].unbind(0) for store in self.stores))

    def rollback(self, length: int) -> None:
        """Forgets everything after the first ``length`` tokens."""
        if not 0 <= length <= self.length:
            raise IndexError(f"cannot roll back from {self.length} tokens to {length}")
        self.length = length

    def blank(self) -> None:
        """Zeroes whatever stands after the length. It is never read but by a pass of fixed shape, which weighs it with 0."""
        for store in self.stores:
            store[:, :, :, self.length :].zero_()

    def keep(self, start: int, rows: Sequence[int]) -> None:
        """Of the tokens from ``start`` on, keeps those at these rising offsets, moved together; forgets the others."""
        end = start + len(rows)
        if not 0 <= start <= end <= self.length or (rows and not 0 <= rows[-1] < self.length - start):
            raise IndexError(f"cannot keep rows {list(rows)} from {start} on of {self.length} tokens")
        if len(rows) and rows[-1] != len(rows) - 1:
            for store in self.stores:
                moved = upload([start + row for row in rows], store.device)
                store[:, :, :, start:end] = store[:, :, :, moved]  # indexing copies before anything is overwritten
        self.length = end

    def fork(self) -> KVCache:
        """An independent copy with the same contents and capacity."""
        heads, capacity, dim, dtype = self.shape
        copy = KVCache(self.layer_count, heads, capacity, dim, dtype, self.devices)
        for mine, theirs in zip(self.stores, copy.stores, strict=True):
            theirs[:, :, :, : self.length].copy_(mine[:, :, :, : self.length])
        copy.length = self.length
        return copy

    # what transformers' mask functions ask of a cache
    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.length

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        return self.length + query_length, 0

    @property
    def is_sliding(self) -> list[bool]:
        return [False] * self.layer_count

    @property
    def is_compileable(self) -> bool:
        return False
