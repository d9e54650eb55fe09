"""A pass of fixed shape over one stream: what a CUDA graph can repeat.

A graph repeats kernels with the shapes, the numbers and the addresses that they had when it was recorded. So all that differs from
pass to pass stands in buffers that are filled before it, by copies on the device that no host waits for, and the shape never follows
the length: attention runs over the cache's whole capacity, and a mask hides what a row may not see.

Rows are padded to a size by repeating the last real one: the same token at the same place with the same sight. It writes the same keys
and values to the same row of the cache, so padding needs no room in the cache and leaves nothing behind. (Rows of padding proper would
need spare rows in every cache, and numbers in them that cannot turn into infinities.)
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from transformers import Cache

from lvspec_core.families.attention import Watch
from lvspec_core.families.cache import KVCache
from lvspec_core.families.stream import Stream, rotary_rows

ALIGNED = 16  # torch's memory-efficient attention copies a mask whose rows do not begin at multiples of so many values


class FixedRows(Cache):
    """A sequence's cache for passes of fixed shape: ``rows``, [n] int64 on the device, says where rows are written, and everything up
    to the capacity is read."""

    def __init__(self, cache: KVCache, rows: torch.Tensor):
        super().__init__(layers=[])
        self.rows = rows
        (store,) = cache.stores  # all layers are on one device
        self.parts = store.unbind(0)

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        """Writes a layer's new rows, [1, heads, n, dim], and returns all rows, [1, heads, capacity, dim]."""
        keys, values = self.parts[2 * layer_idx], self.parts[2 * layer_idx + 1]
        keys.index_copy_(2, self.rows, key_states)
        values.index_copy_(2, self.rows, value_states)
        return keys, values


class Weights(Watch):
    """Keeps these layers' attention weights of the last pass, as they came."""

    def __init__(self, layers: Collection[int]):
        self.layers = layers
        self.of: dict[int, torch.Tensor] = {}

    def wants(self, layer: int) -> bool:
        return layer in self.layers

    def see(self, layer: int, weights: torch.Tensor) -> None:
        self.of[layer] = weights


class FixedPass:
    """A pass of ``size`` rows over a stream's cache; ``layers``: whose attention weights are wanted. It holds the stream's parts and
    not the stream, which may hold it: a cycle would keep a cache alive after its last user.

    ``graph``: what :meth:`run` did, recorded; None: it is run.
    """

    def __init__(self, stream: Stream, size: int, layers: Collection[int] = ()):
        self.model, self.cache, self.base = stream.model, stream.cache, stream.base
        self.cos, self.sin = stream.cos, stream.sin
        self.size = size
        device, capacity = self.model.device, self.cache.capacity
        after = torch.arange(capacity - self.base, device=device)
        self.coming = torch.stack([after + self.base, after])  # of each coming token its row in the cache, and in the rotary tables
        self.columns = torch.arange(capacity, device=device)
        # the buffers
        self.ids = torch.zeros(size, dtype=torch.long, device=device)
        self.places = torch.zeros(2, size, dtype=torch.long, device=device)  # of each row, as in ``coming``
        self.hides = torch.zeros(size, capacity, dtype=torch.bool, device=device)
        wide = -(-capacity // ALIGNED) * ALIGNED
        self.mask = torch.zeros(size, wide, dtype=self.model.dtype, device=device)[:, :capacity]
        self.rows = FixedRows(self.cache, self.places[0])
        self.seen = Weights(layers)
        self.hidden: torch.Tensor | None = None  # of the last pass, [1, size, hidden]
        self.graph = None
        self.cache.blank()  # what is hidden weighs nothing, but it must be numbers: 0 × NaN is NaN
        self.fill(self.ids[:1])  # what is run before anything is read shall write behind the sequence too

    def read(self, ids: torch.Tensor, watch: Watch | None = None, sees: torch.Tensor | None = None) -> torch.Tensor:
        """As :meth:`Stream.append` does, for at most ``size`` tokens that fit into the cache."""
        self.fill(ids, sees)
        if self.graph is None:
            self.run()
        else:
            self.graph.replay()
        count = ids.shape[0]
        self.cache.length += count
        # copies, as the next replay writes over what this one left
        hidden = self.hidden[:, :count].clone()
        if watch is not None:
            for layer, weights in self.seen.of.items():
                if watch.wants(layer):
                    watch.see(layer, weights[:, :, :count, : self.cache.length].clone())
            watch.end(hidden)
        return hidden

    def fill(self, ids: torch.Tensor, sees: torch.Tensor | None = None) -> None:
        """Puts into the buffers what the next run reads. Nothing here makes the host wait."""
        count, start = ids.shape[0], self.cache.length - self.base
        self.ids[:count].copy_(ids)
        self.places[:, :count].copy_(self.coming[:, start : start + count])
        if sees is not None:
            self.places[1, :count].copy_(rotary_rows(sees, start + count))
        if count < self.size:
            self.ids[count:].copy_(self.ids[count - 1 : count].expand(self.size - count))
            self.places[:, count:].copy_(self.places[:, count - 1 : count].expand(-1, self.size - count))
        torch.gt(self.columns, self.places[0][:, None], out=self.hides)
        if sees is not None:
            end = self.cache.length + count
            torch.logical_not(sees, out=self.hides[:count, end - sees.shape[1] : end])
            self.hides[count:].copy_(self.hides[count - 1 : count].expand(self.size - count, -1))

    def run(self) -> None:
        """The pass itself; reads the buffers and nothing else that changes."""
        mask = self.mask.zero_().masked_fill_(self.hides, float("-inf"))[None, None]
        rotary = self.cos.index_select(1, self.places[1]), self.sin.index_select(1, self.places[1])
        watch = self.seen if self.seen.layers else None
        self.hidden = self.model.run(self.model.embed(self.ids)[None], rotary, self.rows, mask, watch)
