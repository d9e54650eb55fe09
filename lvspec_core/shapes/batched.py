"""Prompts with captions run through a stock model as one batch of equal clips. A test holds this and the stock forward together."""

from __future__ import annotations

import torch

from lvspec_core.shapes.architectures import Prompt
from lvspec_core.shapes.models import architecture_of


def video_features(model, patches: torch.Tensor) -> torch.Tensor:
    """patches [B, N, values] of SIDE × SIDE clips -> what stands in the video's place: [B, video tokens, hidden]."""
    return architecture_of(model).video_features(model, patches)


def sequence(model, prompt: Prompt, features: torch.Tensor, captions: torch.Tensor, keep: torch.Tensor | None = None):
    """Embeddings and positions of prompt + caption.

    ``captions`` [B, C]; ``keep`` [B, K]: sorted indices of the tiles' tokens that stay, all if None.
    Returns embeddings [B, L, hidden], positions [axes, B, L], and where the caption's predictions start in L.
    """
    embed = model.model.language_model.embed_tokens
    batch, length = captions.shape
    tiles = prompt.video.stop - prompt.video.start
    end = prompt.video.start + features.shape[1]  # beyond the tiles' tokens stands what is never pruned
    before = embed(prompt.input_ids[: prompt.video.start]).expand(batch, -1, -1)
    after = embed(prompt.input_ids[end:]).expand(batch, -1, -1)
    positions = prompt.position_ids[:, None].expand(-1, batch, -1)
    shown, further = features[:, :tiles], features[:, tiles:]
    shown_positions = positions[..., prompt.video]
    if keep is not None:
        shown = shown.gather(1, keep[..., None].expand(-1, -1, features.shape[-1]))
        shown_positions = shown_positions.gather(2, keep.expand(len(positions), -1, -1))
    text = prompt.position_ids.max() + 1 + torch.arange(length)
    positions = torch.cat(
        [
            positions[..., : prompt.video.start],
            shown_positions,
            positions[..., prompt.video.stop :],
            text.expand(len(positions), batch, -1),
        ],
        dim=-1,
    )
    embeddings = torch.cat([before, shown, further, after, embed(captions)], dim=1)
    return embeddings, positions, embeddings.shape[1] - length - 1


def caption_logits(model, prompt: Prompt, features: torch.Tensor, captions: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
    """Next-token logits [B, C, vocabulary] for every caption position, teacher-forced. ``features``: :func:`video_features`."""
    return caption_pass(model, prompt, features, captions, keep)[0]


def caption_pass(
    model, prompt: Prompt, features: torch.Tensor, captions: torch.Tensor, keep: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """:func:`caption_logits`, and what the language model has made of the tiles' tokens half-way up: [B, tokens that stay, hidden]."""
    embeddings, positions, start = sequence(model, prompt, features, captions[:, :-1], keep)
    positions = architecture_of(model).position_ids(positions)
    text = model.model.language_model
    seen: list[torch.Tensor] = []
    middle = text.layers[(len(text.layers) - 1) // 2]
    hook = middle.register_forward_hook(lambda layer, given, made: seen.append(made))
    try:
        hidden = text(inputs_embeds=embeddings, position_ids=positions, use_cache=False).last_hidden_state
    finally:
        hook.remove()
    tiles = prompt.video.stop - prompt.video.start if keep is None else keep.shape[1]
    return model.lm_head(hidden[:, start:]), seen[0][:, prompt.video.start : prompt.video.start + tiles]
