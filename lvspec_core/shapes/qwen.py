"""The bundled pair of the Qwen2.5-VL architecture: tiny configurations, the stock modules run on a batch of equal clips."""

from __future__ import annotations

import torch
from torch.nn import functional
from transformers import (
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
)
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import apply_rotary_pos_emb_vision

from lvspec_core.shapes.architectures import PATCH, SIDE, Architecture, Prompt, plain_attention
from lvspec_core.shapes.words import Tokens, build_tokenizer, chat_template

TOKENS = Tokens(
    special=(
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
        "<|vision_start|>",
        "<|vision_end|>",
        "<|image_pad|>",
        "<|video_pad|>",
        "<unk>",
    ),
    image="<|image_pad|>",
    video="<|video_pad|>",
)
CHAT_TEMPLATE = chat_template("<|vision_start|><|video_pad|><|vision_end|>", "<|vision_start|><|image_pad|><|vision_end|>")


class Qwen(Architecture):
    """Two frames and 2 × 2 patches make one video token; 8 frames make 4 × 4 × 4."""

    pair = "shapes-qwen"
    title = "Qwen2.5-VL"
    model = Qwen2_5_VLForConditionalGeneration
    processor = Qwen2_5_VLProcessor
    tokens = TOKENS
    temporal = merge = 2
    axes = 3

    def build_processor(self) -> Qwen2_5_VLProcessor:
        """A frame's proportions are kept."""
        pixels = SIDE * SIDE
        size = {"shortest_edge": pixels, "longest_edge": pixels}
        return Qwen2_5_VLProcessor(
            image_processor=Qwen2VLImageProcessor(size=dict(size)),
            tokenizer=build_tokenizer(TOKENS),
            video_processor=Qwen2VLVideoProcessor(size=dict(size), cap_pixels_per_frame=False),
            chat_template=CHAT_TEMPLATE,
        )

    def build_config(self, layers: int, vision_layers: int, vision_hidden: int, hidden: int = 128, intermediate: int = 256):
        ids = self.token_ids()
        return Qwen2_5_VLConfig(
            text_config=self.text_config(hidden, layers, intermediate, rope={"mrope_section": [4, 6, 6]}),
            vision_config={
                "depth": vision_layers,
                "hidden_size": vision_hidden,
                "out_hidden_size": hidden,
                "num_heads": 4,
                "intermediate_size": 2 * vision_hidden,
                "patch_size": PATCH,
                "spatial_merge_size": self.merge,
                "temporal_patch_size": self.temporal,
                "window_size": SIDE,
                "fullatt_block_indexes": list(range(vision_layers)),
                "tokens_per_second": 2,
            },
            image_token_id=ids["<|image_pad|>"],
            video_token_id=ids["<|video_pad|>"],
            vision_start_token_id=ids["<|vision_start|>"],
            vision_end_token_id=ids["<|vision_end|>"],
            tie_word_embeddings=True,
        )

    def prompt(self, model, processor, question: str, frames: int, seconds: float) -> Prompt:
        messages = [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": question}]}]
        text = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        grid = (frames // self.temporal, SIDE // PATCH, SIDE // PATCH)
        tokens = grid[0] * grid[1] * grid[2] // self.merge**2
        text = text.replace("<|video_pad|>", "<|video_pad|>" * tokens)
        ids = torch.tensor(processor.tokenizer(text, add_special_tokens=False).input_ids)
        kinds = (ids == processor.video_token_id).int() * 2
        positions, _ = model.model.get_rope_index(
            ids[None],
            kinds[None],
            video_grid_thw=torch.tensor([grid]),
            second_per_grid_ts=torch.tensor([self.temporal * seconds / frames]),
        )
        start = int((kinds > 0).int().argmax())
        return Prompt(ids, positions[:, 0], slice(start, start + tokens))

    def video_features(self, model, patches: torch.Tensor) -> torch.Tensor:
        visual = model.model.visual
        batch, count, _ = patches.shape
        per_frame = (SIDE // PATCH) ** 2
        weight = visual.patch_embed.proj.weight
        hidden = functional.linear(patches, weight.view(weight.shape[0], -1))
        hidden = hidden.view(batch * count // per_frame, per_frame, -1)  # [B * grids, patches of a frame, hidden]
        cos, sin = visual.rotary_pos_emb(hidden, self._patch_positions(patches.device))
        for block in visual.blocks:
            normed = block.norm1(hidden)
            attention = block.attn
            query, key, value = attention.qkv(normed).view(*normed.shape[:2], 3, attention.num_heads, -1).unbind(2)
            query, key = apply_rotary_pos_emb_vision(query, key, cos, sin)
            mixed = plain_attention(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2))
            hidden = hidden + attention.proj(mixed.transpose(1, 2).reshape(normed.shape))
            hidden = hidden + block.mlp(block.norm2(hidden))
        return visual.merger(hidden.reshape(batch * count, -1)).view(batch, count // self.merge**2, -1)

    def tower(self, model) -> torch.nn.Module:
        return model.model.visual

    def _patch_positions(self, device: torch.device) -> torch.Tensor:
        """Row and column of every patch of a frame, in the processor's order: [patches, 2]."""
        side, merge = SIDE // PATCH, self.merge
        rows, columns = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
        grid = torch.stack([rows, columns]).view(2, side // merge, merge, side // merge, merge)
        return grid.permute(0, 1, 3, 2, 4).reshape(2, -1).T.to(device)
