"""The stock Qwen2.5-VL modules run on a batch of equal clips: the same numbers as the stock forward, many times faster to train.

The stock vision tower walks over the frames one by one, and its patch embedding is a Conv3d whose backward pass is slow on a
CPU. Here frames stand in the batch dimension and the embedding is the equal linear layer. A test holds the two together.
"""

from __future__ import annotations

import torch
from torch.nn import functional
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import apply_rotary_pos_emb_vision

from lvspec_core.shapes.data import MERGE, PATCH, Prompt
from lvspec_core.shapes.models import SIDE


def video_features(model, patches: torch.Tensor) -> torch.Tensor:
    """patches [B, N, 1176] of SIDE × SIDE clips -> video token embeddings [B, N / 4, hidden]."""
    visual = model.model.visual
    batch, count, _ = patches.shape
    per_frame = (SIDE // PATCH) ** 2
    weight = visual.patch_embed.proj.weight
    hidden = functional.linear(patches, weight.view(weight.shape[0], -1))
    hidden = hidden.view(batch * count // per_frame, per_frame, -1)  # [B * grids, patches of a frame, hidden]
    cos, sin = visual.rotary_pos_emb(hidden, _patch_positions(patches.device))
    for block in visual.blocks:
        normed = block.norm1(hidden)
        attention = block.attn
        query, key, value = attention.qkv(normed).view(*normed.shape[:2], 3, attention.num_heads, -1).unbind(2)
        query, key = apply_rotary_pos_emb_vision(query, key, cos, sin)
        mixed = _attend(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2))
        hidden = hidden + attention.proj(mixed.transpose(1, 2).reshape(normed.shape))
        hidden = hidden + block.mlp(block.norm2(hidden))
    return visual.merger(hidden.reshape(batch * count, -1)).view(batch, count // MERGE**2, -1)


def _attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Plain attention: for frames of 64 patches its backward pass is much faster on a CPU than the fused kernel's."""
    weights = (query @ key.transpose(-1, -2)) * query.shape[-1] ** -0.5  # [frames, heads, patches, patches]
    return weights.softmax(-1) @ value


def _patch_positions(device: torch.device) -> torch.Tensor:
    """Row and column of every patch of a frame, in the processor's order: [patches, 2]."""
    side = SIDE // PATCH
    rows, columns = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    grid = torch.stack([rows, columns]).view(2, side // MERGE, MERGE, side // MERGE, MERGE)
    return grid.permute(0, 1, 3, 2, 4).reshape(2, -1).T.to(device)


def sequence(model, prompt: Prompt, features: torch.Tensor, captions: torch.Tensor, keep: torch.Tensor | None = None):
    """Embeddings and positions of prompt + caption.

    ``captions`` [B, C]; ``keep`` [B, K]: sorted indices of the video tokens that stay, all if None.
    Returns embeddings [B, L, hidden], position ids [3, B, L], and where the caption's predictions start in L.
    """
    embed = model.model.language_model.embed_tokens
    batch, length = captions.shape
    before = embed(prompt.input_ids[: prompt.video.start]).expand(batch, -1, -1)
    after = embed(prompt.input_ids[prompt.video.stop :]).expand(batch, -1, -1)
    positions = prompt.position_ids[:, None].expand(3, batch, -1)
    video_positions = positions[..., prompt.video]
    if keep is not None:
        features = features.gather(1, keep[..., None].expand(-1, -1, features.shape[-1]))
        video_positions = video_positions.gather(2, keep.expand(3, -1, -1))
    text = prompt.position_ids.max() + 1 + torch.arange(length)
    positions = torch.cat(
        [positions[..., : prompt.video.start], video_positions, positions[..., prompt.video.stop :], text.expand(3, batch, -1)], dim=-1
    )
    embeddings = torch.cat([before, features, after, embed(captions)], dim=1)
    return embeddings, positions, embeddings.shape[1] - length - 1


def caption_logits(model, prompt: Prompt, features: torch.Tensor, captions: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
    """Next-token logits [B, C, vocabulary] for every caption position, teacher-forced. ``features``: :func:`video_features`."""
    embeddings, positions, start = sequence(model, prompt, features, captions[:, :-1], keep)
    hidden = model.model.language_model(inputs_embeds=embeddings, position_ids=positions, use_cache=False).last_hidden_state
    return model.lm_head(hidden[:, start:])
