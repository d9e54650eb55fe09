"""One sequence in progress on one model: its cache and the rotary tables of everything that can still come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import torch

from lvspec_core.families.attention import Watch
from lvspec_core.families.cache import KVCache

if TYPE_CHECKING:
    from lvspec_core.families.base import Prompt, VideoLM


class Replays(Protocol):
    """Passes of one stream that need not be launched kernel by kernel (see :mod:`lvspec_core.families.graphs`)."""

    def read(self, stream: Stream, ids: torch.Tensor, watch: Watch | None, sees: torch.Tensor | None) -> torch.Tensor | None:
        """As :meth:`Stream.append`; None if that is to run eagerly."""


class Stream:
    """A prompt's video has been read; text is appended and rolled back.

    Positions are explicit: the cosine and sine rows of every coming token are computed once, when the prompt is known. So
    streams may interleave on one model, which keeps no position of its own.
    """

    def __init__(self, model: VideoLM, cache: KVCache, rotary: tuple[torch.Tensor, torch.Tensor], video: slice, base: int):
        self.model = model
        self.cache = cache
        self.cos, self.sin = rotary  # [1, rows, head dim]; row 0 belongs to the first token after the video
        self.base = base  # how many tokens stand in the cache up to there
        self.video = video  # where the video tokens stand in the cache
        self.passes: Replays | None = None

    @property
    def length(self) -> int:
        return self.cache.length

    def append(self, ids: torch.Tensor, watch: Watch | None = None, sees: torch.Tensor | None = None) -> torch.Tensor:
        """Reads token ids [n]; returns the final hidden states [1, n, hidden], from which the token after each is predicted.

        ``sees``: [n, m] bool on the model's device for tokens that branch: which of the last m rows, these n included, each
        may look at, itself included; it sees all rows before those m. None: each sees all before it.
        """
        if self.passes is not None:
            hidden = self.passes.read(self, ids, watch, sees)
            if hidden is not None:
                return hidden
        count, start = ids.shape[0], self.cache.length - self.base
        if sees is not None:
            where = rotary_rows(sees, start + count)
            rotary = self.cos[:, where], self.sin[:, where]
            return self.model.run(self.model.embed(ids)[None], rotary, self.cache, self.model.branch_mask(sees, self.cache), watch)
        rotary = self.cos[:, start : start + count], self.sin[:, start : start + count]
        mask = self.model.causal_mask(count, self.cache) if count > 1 else None
        return self.model.run(self.model.embed(ids)[None], rotary, self.cache, mask, watch)

    def read_tail(self, prompt: Prompt) -> torch.Tensor:
        """Reads the prompt's text after the video but for its last token, with which a text begins; returns that token, [1]."""
        tail = prompt.tail.to(self.model.device)
        if len(tail) > 1:
            self.append(tail[:-1])
        return tail[-1:]

    def read_text(self, last: torch.Tensor, ids: Sequence[int], rows: int, watch: Watch | None = None) -> Iterator[torch.Tensor]:
        """Reads a given text after the last prompt token ``last``, [1], at most ``rows`` positions a pass; yields of each pass the final
        hidden states, [n, hidden], that predict the text's next n tokens."""
        read = torch.cat([last, torch.tensor(ids[:-1], dtype=last.dtype, device=last.device)])
        for part in read.split(rows):
            yield self.append(part, watch)[0]

    def rollback(self, length: int) -> None:
        self.cache.rollback(max(length, self.base))

    def keep(self, start: int, rows: Sequence[int]) -> None:
        """Of the tokens from ``start`` on keeps those at these rising offsets: a path through what branched."""
        self.cache.keep(start, rows)

    def fork(self) -> Stream:
        """An independent stream with the same past; the rotary tables are shared, they never change."""
        return Stream(self.model, self.cache.fork(), (self.cos, self.sin), self.video, self.base)


def rotary_rows(sees: torch.Tensor, end: int) -> torch.Tensor:
    """[n] where n tokens that branch stand in the rotary tables; ``end``: how many rows the cache then has after the video. A token's
    position is how many it follows, whatever other branches stand before it in the cache."""
    return sees.sum(-1) + (end - sees.shape[1] - 1)
