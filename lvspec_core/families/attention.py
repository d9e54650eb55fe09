"""Our attention function, registered at transformers' own extension point: SDPA that can be watched.

A *watch* is handed down through the layers as a keyword; where it wants a layer, the attention weights of the query rows of
that call are computed beside SDPA and given to it. So only the rows that were asked for are ever materialised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

ATTENTION = "watched_sdpa"
# On recent GPUs torch prefers cuDNN's kernel, which sets up a plan for every new length of the keys: tens of milliseconds of the host,
# on the clock of whichever lane is the first to come to a length (measured by others: github.com/modelscope/FunASR/issues/3704).
torch.backends.cuda.enable_cudnn_sdp(False)


class Watch(Protocol):
    """Looks at attention weights, and at what comes out in the end, while a model runs. Whatever a watch does not define it leaves."""

    def wants(self, layer: int) -> bool:
        """Whether it wants to see this layer's weights."""
        return False

    def see(self, layer: int, weights: torch.Tensor) -> None:
        """``weights``: [key/value heads, queries per head group, n, keys], each row sums to 1."""

    def end(self, hidden: torch.Tensor) -> None:
        """``hidden``: [1, n, hidden], the final hidden states of the rows, from which the token after each is predicted."""


class EveryLayer(Watch):
    """Keeps all layers apart: of each the tensor, [queries, …], that ``reduce`` makes of its weights (see :meth:`Watch.see`)."""

    def __init__(self, reduce: Callable[[torch.Tensor], torch.Tensor]):
        self.reduce = reduce
        self.seen: list[torch.Tensor] = []

    def wants(self, layer: int) -> bool:
        return True

    def see(self, layer: int, weights: torch.Tensor) -> None:
        self.seen.append(self.reduce(weights))

    def take(self) -> torch.Tensor:
        """[queries, layers, …] of the last pass."""
        seen, self.seen = self.seen, []
        return torch.stack(seen, dim=1)


class Brought(Watch):
    """A watch that gets all it sees on one device, for a model whose layers are on several."""

    def __init__(self, watch: Watch, device: torch.device):
        self.watch = watch
        self.device = device

    def wants(self, layer: int) -> bool:
        return self.watch.wants(layer)

    def see(self, layer: int, weights: torch.Tensor) -> None:
        self.watch.see(layer, weights.to(self.device))


def watched_sdpa(module, query, key, value, attention_mask, scaling=None, dropout=0.0, watch: Watch | None = None, **kwargs):
    """Scaled dot product attention of [batch, heads, n, dim] queries; returns [batch, n, heads, dim] and None, as SDPA does."""
    batch, heads, rows, dim = query.shape
    if batch > 1:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, dropout=dropout, **kwargs)
    # Heads that share keys become a dimension along which keys and values are repeated without being copied:
    # key/value heads stand in the batch dimension, which is free in a batch of one.
    kv_heads, keys = key.shape[1], key.shape[2]
    grouped = query.view(kv_heads, heads // kv_heads, rows, dim)
    key = key.transpose(0, 1).expand(kv_heads, heads // kv_heads, keys, dim)
    value = value.transpose(0, 1).expand(kv_heads, heads // kv_heads, keys, dim)
    causal = attention_mask is None and rows > 1
    mixed = scaled_dot_product_attention(grouped, key, value, attn_mask=attention_mask, dropout_p=dropout, scale=scaling, is_causal=causal)
    if watch is not None and watch.wants(module.layer_idx):
        watch.see(module.layer_idx, attention_weights(grouped, key, attention_mask, scaling))
    return mixed.reshape(1, heads, rows, dim).transpose(1, 2), None


def attention_weights(query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, scaling: float) -> torch.Tensor:
    """Softmax weights of the query rows, [heads, group, n, keys], in float32; ``mask`` None stands for one row that sees all keys."""
    kv_heads, group, rows, _ = query.shape
    scores = torch.matmul(query.flatten(1, 2), key[:, 0].transpose(-1, -2)).float() * scaling
    scores = scores.view(kv_heads, group, rows, -1)
    if mask is not None:
        scores = scores + mask
    elif rows > 1:
        raise ValueError("rows of a prompt's first pass cannot be watched: they would need the full matrix")
    return scores.softmax(-1)


AttentionInterface.register(ATTENTION, watched_sdpa)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
