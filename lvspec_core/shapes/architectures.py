"""The architectures that bundled pairs are made of: what a training must know of each beside its stock transformers class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel
from transformers.processing_utils import ProcessorMixin

from lvspec_core.shapes.words import Tokens, build_tokenizer

SIDE, PATCH = 112, 14  # pixels of a clip's picture and of a patch: 8 × 8 patches


@dataclass
class Prompt:
    """A prompt as the real processor writes it. ``input_ids`` [P]; ``position_ids`` [axes, P]; ``video``: where the tokens of the
    video's tiles stand. What follows them among the video features is read as the text is: never pruned."""

    input_ids: torch.Tensor
    position_ids: torch.Tensor
    video: slice


class Architecture(ABC):
    """``pair``: the bundled pair's name. ``temporal``: frames in one video token. ``merge``: patches along a side that stand together
    in a processor's order. ``axes``: of a token's rotary position."""

    pair: str
    title: str
    model: type[PreTrainedModel]
    processor: type[ProcessorMixin]
    tokens: Tokens
    temporal: int
    merge: int
    axes: int

    @abstractmethod
    def build_processor(self) -> ProcessorMixin:
        """The stock processor with the shapes world's tokenizer; every frame becomes about SIDE × SIDE pixels."""

    @abstractmethod
    def build_config(self, layers: int, vision_layers: int, vision_hidden: int, hidden: int = 128, intermediate: int = 256):
        """A configuration of this size for the shapes tokenizer."""

    @abstractmethod
    def prompt(self, model, processor, question: str, frames: int, seconds: float) -> Prompt:
        """The prompt for a question about a clip of this length; all clips are SIDE × SIDE."""

    @abstractmethod
    def video_features(self, model, patches: torch.Tensor) -> torch.Tensor:
        """patches [B, N, values] of SIDE × SIDE clips -> what stands in the video's place: [B, video tokens, hidden]. The same numbers
        as the stock tower's, many times faster to train: frames stand in the batch, a patch embedding is the equal linear layer."""

    @abstractmethod
    def tower(self, model) -> torch.nn.Module:
        """All that turns pixels into video features."""

    def text_config(self, hidden: int, layers: int, intermediate: int, rope: dict | None = None) -> dict:
        """The text model, of one make in both architectures; ``rope``: what its rotary positions need beyond the default."""
        tokenizer = build_tokenizer(self.tokens)
        return {
            "vocab_size": len(tokenizer),
            "hidden_size": hidden,
            "intermediate_size": intermediate,
            "num_hidden_layers": layers,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 4096,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, **(rope or {})},
            "bos_token_id": None,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
            "tie_word_embeddings": True,
        }

    def token_ids(self) -> dict[str, int]:
        """Of the control tokens."""
        tokenizer = build_tokenizer(self.tokens)
        return {token: tokenizer.convert_tokens_to_ids(token) for token in self.tokens.special}

    def position_ids(self, positions: torch.Tensor) -> torch.Tensor:
        """Positions [axes, B, L] as the stock text model takes them."""
        return positions if self.axes > 1 else positions[0]

    def grid(self, frames: int) -> tuple[int, int, int]:
        """(time, rows, columns) of the video tokens of a clip."""
        side = SIDE // PATCH // 2
        return frames // self.temporal, side, side


def plain_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Plain attention: for frames of 64 patches its backward pass is much faster on a CPU than the fused kernel's."""
    weights = (query @ key.transpose(-1, -2)) * query.shape[-1] ** -0.5  # [frames, heads, patches, patches]
    return weights.softmax(-1) @ value
