"""Where the target looked in the video while it chose each token of a text [ours]. Computed after the race, off every lane's clock.

One teacher-forced pass of the target over a finished text, with a watch on the attention that goes to video tokens. Some
video tokens draw attention whatever is said, so what counts is how much more of it a token's query pays than the text's
tokens do on average. Which layers look is measured per pair (``python -m lvspec_core heat``); without a measurement all
layers are averaged.
"""

from __future__ import annotations

import base64
import json
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch.nn.functional import adaptive_avg_pool3d

from lvspec_core.families.attention import Watch
from lvspec_core.families.stream import Stream
from lvspec_core.pairs import Pair
from lvspec_core.records import Evidence

MOST_CELLS = 512  # of a heat map; more video tokens are averaged in blocks
WATCHED_BYTES = 64 * 2**20  # of attention weights at a time

log = logging.getLogger(__name__)


class TakingWatch(Watch, Protocol):
    """A watch that hands over what it saw of each query in the pass that just ended, [queries, …]."""

    def take(self) -> torch.Tensor: ...


class VideoHeat(Watch):
    """A watch: attention of each watched query to each cell of the video, [queries, cells], and its sum over the video.

    ``grid``: (time, rows, columns) of the video tokens, ``cells``: of what is kept of them; see :func:`heat_grid`.
    """

    def __init__(self, layers: Sequence[int], video: slice, grid: tuple[int, int, int], cells: tuple[int, int, int]):
        self.layers = frozenset(layers)
        self.video = video
        self.grid = grid
        self.cells = cells
        self.total: torch.Tensor | None = None

    def wants(self, layer: int) -> bool:
        return layer in self.layers

    def see(self, layer: int, weights: torch.Tensor) -> None:
        mean = weights[..., self.video].mean(dim=(0, 1))  # [queries, video tokens]
        size = math.prod(self.grid) / math.prod(self.cells)
        blocks = adaptive_avg_pool3d(mean.view(-1, *self.grid), self.cells).flatten(1) * size
        self.total = blocks if self.total is None else self.total + blocks

    def take(self) -> torch.Tensor:
        """[queries, cells] of the last pass, mean over the layers."""
        seen, self.total = self.total, None
        return seen / len(self.layers)


def heat_grid(grid: tuple[int, int, int], most: int = MOST_CELLS) -> tuple[int, int, int]:
    """The grid of at most ``most`` cells that a video's tokens are averaged to: space first, as far as 4 × 4, then time."""
    time, rows, columns = grid
    while time * rows * columns > most and max(rows, columns) > 4:
        rows, columns = (math.ceil(rows / 2), columns) if rows >= columns else (rows, math.ceil(columns / 2))
    return min(time, max(1, most // (rows * columns))), rows, columns


@torch.inference_mode()
def look(stream: Stream, last: torch.Tensor, ids: Sequence[int], heat: TakingWatch) -> torch.Tensor:
    """[tokens, …] what the watch took of the query that predicts each token. ``stream`` stands before the last prompt token ``last``,
    [1], and has read this text afterwards."""
    config = stream.model.decoder.config
    row = config.num_attention_heads * (stream.length + len(ids)) * 4
    step = max(1, WATCHED_BYTES // row)
    return torch.cat([heat.take() for _ in stream.read_text(last, ids, step, heat)])


def evidence_of(lanes: tuple[str, ...], seen: torch.Tensor, heat: VideoHeat) -> Evidence:
    """The record of what :func:`look` saw."""
    above = (seen - seen.mean(0)).clamp_min(0)
    peak = float(above.max())
    scaled = (above / peak * 255).round().byte() if peak > 0 else torch.zeros_like(above, dtype=torch.uint8)
    maps = tuple(base64.b64encode(bytes(row)).decode("ascii") for row in scaled.tolist())
    shares = tuple(round(min(1.0, share), 4) for share in seen.sum(-1).tolist())
    return Evidence(lanes, heat.cells, tuple(sorted(heat.layers)), round(min(1.0, peak), 6), maps, shares)


def looking_layers(pair: Pair) -> tuple[int, ...]:
    """The target's layers that were measured to look where a word's object is; all of them where nothing was measured."""
    return read_layers(pair.info.calibration, len(pair.target.layers)) or tuple(range(len(pair.target.layers)))


def read_layers(path: Path, count: int) -> tuple[int, ...]:
    """The layers that a pair's file names, () if it names none that a target of ``count`` layers has."""
    try:
        layers = json.loads(path.read_text(encoding="utf-8"))["evidence"]["layers"]
        return tuple(layers) if all(type(layer) is int and 0 <= layer < count for layer in layers) else ()
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def gather(
    pair: Pair,
    grid: tuple[int, int, int],
    last: torch.Tensor,
    texts: dict[str, tuple[int, ...]],
    fork: Callable[[str], Stream],
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Evidence]:
    """Evidence for the texts (lane -> token ids); lanes that wrote the same text share one record. ``fork``: a lane's target as
    it was before the last prompt token. A failure costs the evidence, never the race."""
    lanes: dict[tuple[int, ...], list[str]] = {}
    for name, ids in texts.items():
        if ids:
            lanes.setdefault(ids, []).append(name)
    for ids, names in lanes.items():
        if should_stop():
            return
        try:
            stream = fork(names[0])
            heat = VideoHeat(looking_layers(pair), stream.video, grid, heat_grid(grid))
            yield evidence_of(tuple(names), look(stream, last, ids, heat), heat)
        except Exception as error:
            log.error("The evidence could not be gathered.", exc_info=error)
            return
