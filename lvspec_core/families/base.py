"""What the rest of the core may assume about a video language model, whatever its architecture."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import torch

from lvspec_core.families.attention import Brought, Watch
from lvspec_core.families.cache import KVCache
from lvspec_core.families.stream import Stream
from lvspec_core.video import VideoClip


@dataclass(frozen=True)
class Prompt:
    """A video and a question as the models read them.

    ``ids``: [L]. ``positions``: [axes, L], the rotary position of every token along each of the family's axes. ``video``: where the
    tokens of the video's tiles stand in L. ``grid``: (time, rows, columns) of those. ``next_position``: position of the first new
    token. ``inputs``: what the vision tower reads. ``marks``: how many tokens right after the tiles are features of the video too,
    but show nothing of it (LLaVA-OneVision's newline): always read, never pruned.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    video: slice
    grid: tuple[int, int, int]
    next_position: int
    inputs: dict = field(repr=False)
    marks: int = 0

    @property
    def features_end(self) -> int:
        """Where the video's features end in L, and the text goes on."""
        return self.video.stop + self.marks

    @property
    def tail(self) -> torch.Tensor:
        """The text after the video."""
        return self.ids[self.features_end :]

    @property
    def video_tokens(self) -> int:
        return self.video.stop - self.video.start


class VideoLM(ABC):
    """A stock transformers model and its processor behind the few calls that decoding needs. Batch size is always one.

    A family sets ``model`` (the stock model), ``processor``, ``decoder`` (the stock text model: ``embed_tokens``, ``layers``,
    ``norm``, ``rotary_emb``) and ``head``, and says with ``axes`` how many numbers make a token's position.
    The layers are called one after another from here: the same modules with the same arguments as in the stock forward pass,
    without the fixed cost of its wrappers, which a draft pays on every token.
    """

    model: torch.nn.Module
    decoder: torch.nn.Module
    head: torch.nn.Module
    axes: int = 1

    def __init__(self, name: str, model, processor, decoder, head):
        self.name = name
        self.model = model
        self.processor = processor
        self.tokenizer = processor.tokenizer
        self.decoder = decoder
        self.head = head
        self.layers = tuple(decoder.layers)
        self.embed = decoder.embed_tokens
        self.vocabulary = head.weight.shape[0]
        self.context = decoder.config.max_position_embeddings
        ends = model.generation_config.eos_token_id
        ends = ends if ends is not None else self.tokenizer.eos_token_id
        self.end_ids = frozenset(ends if isinstance(ends, (list, tuple)) else [ends])
        self.places = tuple(next(layer.parameters()).device for layer in self.layers)  # of the layers, where they are on several devices
        self.spread = len(set(self.places)) > 1
        self._masks: dict[int, torch.Tensor] = {}

    @classmethod
    @abstractmethod
    def load(cls, source: str, dtype: torch.dtype, device: torch.device, **options) -> VideoLM:
        """From a folder or a hub name; see :func:`lvspec_core.families.stock.open_stock` for the options; raises what that raises."""

    @abstractmethod
    def encode(self, clip: VideoClip, question: str) -> Prompt:
        """The prompt for a question about a clip; SettingsError if its pictures have a shape that the processor refuses."""

    @abstractmethod
    def video_features(self, prompt: Prompt) -> torch.Tensor:
        """Runs the vision tower: [video tokens and marks, hidden]."""

    @abstractmethod
    def same_sight(self, other: VideoLM) -> bool:
        """Whether the other model reads the same patches at the same positions, so that one prompt serves both."""

    def plain(self, question: str) -> str:
        """The question with nothing in it that the tokenizer would take for a control token."""
        for token in sorted(self.tokenizer.get_added_vocab(), key=len, reverse=True):
            question = question.replace(token, f"{token[:1]} {token[1:]}")
        return question

    def question_text(self, question: str) -> str:
        """What the processor's chat template makes of a video and a question."""
        messages = [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": self.plain(question)}]}]
        return self.processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    @property
    def devices(self) -> tuple[torch.device, ...]:
        """All that it runs on."""
        return tuple({parameter.device: None for parameter in self.model.parameters()}) if self.spread else (self.device,)

    @property
    def dtype(self) -> torch.dtype:
        return self.head.weight.dtype

    def run(self, hidden, rotary, cache, mask=None, watch: Watch | None = None) -> torch.Tensor:
        """The decoder layers and the final norm over embeddings [1, n, hidden]."""
        if self.spread:
            return self._run_spread(hidden, rotary, cache, mask, watch)
        for layer in self.layers:
            hidden = layer(hidden, attention_mask=mask, position_embeddings=rotary, cache=cache, watch=watch)
        hidden = self.decoder.norm(hidden)
        if watch is not None:
            watch.end(hidden)
        return hidden

    def _run_spread(self, hidden, rotary, cache, mask, watch: Watch | None) -> torch.Tensor:
        """:meth:`run` where the layers are on several devices; what they share moves once per device."""
        here, seen = None, watch and Brought(watch, self.device)
        for layer, place in zip(self.layers, self.places, strict=True):
            if place != here:
                here, hidden, rotary = place, hidden.to(place), tuple(table.to(place) for table in rotary)
                mask = mask if mask is None else mask.to(place)
            hidden = layer(hidden, attention_mask=mask, position_embeddings=rotary, cache=cache, watch=seen).to(place)
        hidden = self.decoder.norm(hidden).to(self.device)
        if watch is not None:
            watch.end(hidden)
        return hidden

    def rotary(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosine and sine tables [1, n, head dim] of positions [axes, n]."""
        positions = positions.to(self.device)
        tables = self.decoder.rotary_emb(self.head.weight.new_empty(1), positions[:, None] if self.axes > 1 else positions)
        return tuple(table.to(self.device) for table in tables)

    def row_of_positions(self, start: int, stop: int) -> torch.Tensor:
        """[axes, stop − start]: positions of text, the same along every axis."""
        return torch.arange(start, stop).expand(self.axes, -1)

    def prefill(self, prompt: Prompt, features: torch.Tensor, room: int, keep: list[int] | None = None) -> Stream:
        """Reads the prompt up to the end of its video.

        ``keep``: sorted indices of the video tokens to read, all if None. Kept tokens keep their original rotary positions:
        they stand where they stood in the video, so that pruning shortens the cache and nothing else. ``room``: tokens that
        may follow the video, the rest of the prompt included.
        """
        start, end = prompt.video.start, prompt.features_end
        if keep is not None:
            seen = torch.tensor([*keep, *range(prompt.video_tokens, prompt.video_tokens + prompt.marks)], dtype=torch.long)
            features = features[seen.to(features.device)]
            positions = torch.cat([prompt.positions[:, :start], prompt.positions[:, start:end][:, seen]], dim=1)
        else:
            positions = prompt.positions[:, :end]
        text = self.embed(prompt.ids[:start].to(self.device))
        embeddings = torch.cat([text, features.to(text)])[None]  # [1, n, hidden]
        read = embeddings.shape[1]
        cache = self.new_cache(read + room)
        self.run(embeddings, self.rotary(positions), cache)
        new = self.row_of_positions(prompt.next_position, prompt.next_position + room - len(prompt.tail))
        coming = torch.cat([prompt.positions[:, end:], new], dim=1)
        return Stream(self, cache, self.rotary(coming), slice(start, read - prompt.marks), read)

    @property
    def head_dim(self) -> int:
        config = self.decoder.config
        return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads

    @property
    def row_bytes(self) -> int:
        """Bytes of one token in a cache."""
        return 2 * len(self.layers) * self.decoder.config.num_key_value_heads * self.head_dim * self.dtype.itemsize

    def new_cache(self, capacity: int) -> KVCache:
        # weights on one device may have moved since they were loaded, as on ZeroGPU
        places = self.places if self.spread else (self.device,) * len(self.layers)
        return KVCache(len(self.layers), self.decoder.config.num_key_value_heads, capacity, self.head_dim, self.dtype, places)

    def causal_mask(self, rows: int, cache: KVCache) -> torch.Tensor:
        """Additive mask [1, 1, rows, cached + rows] of ``rows`` tokens after what is cached.

        One tensor per number of rows serves every cache length, by sliding a view along it.
        """
        wide = self._masks.get(rows)
        if wide is None or wide.shape[-1] < cache.capacity + rows:
            wide = torch.full((1, 1, rows, cache.capacity + rows), float("-inf"), dtype=self.dtype, device=self.device)
            wide = wide.triu(diagonal=cache.capacity + 1)  # row i sees i + 1 of the new tokens
            self._masks[rows] = wide
        past = wide.shape[-1] - rows
        return wide[..., past - cache.length :]

    def branch_mask(self, sees: torch.Tensor, cache: KVCache) -> torch.Tensor:
        """Additive mask [1, 1, n, cached + n] of n tokens of which each sees all rows but, of the last m, those in ``sees`` [n, m]."""
        rows, last = sees.shape
        mask = torch.zeros((1, 1, rows, cache.length + rows), dtype=self.dtype, device=self.device)
        mask[..., -last:].masked_fill_(~sees, float("-inf"))
        return mask
