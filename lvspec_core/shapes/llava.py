"""The bundled pair of the LLaVA-OneVision architecture: a SigLIP tower, features pooled per frame, a newline after the last."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional
from transformers import (
    LlavaOnevisionConfig,
    LlavaOnevisionForConditionalGeneration,
    LlavaOnevisionImageProcessor,
    LlavaOnevisionProcessor,
    LlavaOnevisionVideoProcessor,
)

from lvspec_core.shapes.architectures import PATCH, SIDE, Architecture, Prompt, plain_attention
from lvspec_core.shapes.words import Tokens, build_tokenizer, chat_template

TOKENS = Tokens(special=("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<image>", "<video>", "<unk>"), image="<image>", video="<video>")
CHAT_TEMPLATE = chat_template(TOKENS.video, TOKENS.image)
PATCHES = SIDE // PATCH  # along a side


class Llava(Architecture):
    """A frame's 8 × 8 patches are pooled to 4 × 4 video tokens; 8 frames make 128 and one newline."""

    pair = "shapes-llava"
    title = "LLaVA-OneVision"
    model = LlavaOnevisionForConditionalGeneration
    processor = LlavaOnevisionProcessor
    tokens = TOKENS
    temporal = merge = 1
    axes = 1

    def build_processor(self) -> LlavaOnevisionProcessor:
        """A frame is stretched to a square, as LLaVA-OneVision's processor does."""
        size = {"height": SIDE, "width": SIDE}
        return LlavaOnevisionProcessor(
            image_processor=LlavaOnevisionImageProcessor(size=dict(size), image_grid_pinpoints=[[SIDE, SIDE]]),
            tokenizer=build_tokenizer(TOKENS),
            video_processor=LlavaOnevisionVideoProcessor(size=dict(size)),
            num_image_tokens=PATCHES**2,
            vision_feature_select_strategy="full",
            image_token=TOKENS.image,
            video_token=TOKENS.video,
            chat_template=CHAT_TEMPLATE,
        )

    def build_config(self, layers: int, vision_layers: int, vision_hidden: int, hidden: int = 128, intermediate: int = 256):
        ids = self.token_ids()
        return LlavaOnevisionConfig(
            text_config={"model_type": "qwen2", **self.text_config(hidden, layers, intermediate)},
            vision_config={
                "model_type": "siglip_vision_model",
                "hidden_size": vision_hidden,
                "intermediate_size": 2 * vision_hidden,
                "num_hidden_layers": vision_layers,
                "num_attention_heads": 4,
                "image_size": SIDE,
                "patch_size": PATCH,
                "vision_use_head": False,
            },
            image_token_index=ids["<image>"],
            video_token_index=ids["<video>"],
            image_grid_pinpoints=[[SIDE, SIDE]],
            tie_word_embeddings=True,
        )

    def prompt(self, model, processor, question: str, frames: int, seconds: float) -> Prompt:
        messages = [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": question}]}]
        text = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        tokens = frames * (PATCHES // 2) ** 2
        text = text.replace(TOKENS.video, TOKENS.video * (tokens + 1))
        ids = torch.tensor(processor.tokenizer(text, add_special_tokens=False).input_ids)
        start = int((ids == processor.video_token_id).int().argmax())
        return Prompt(ids, torch.arange(len(ids))[None], slice(start, start + tokens))

    def video_features(self, model, patches: torch.Tensor) -> torch.Tensor:
        tower = model.model.vision_tower
        batch, count, _ = patches.shape
        embedding = tower.embeddings.patch_embedding
        hidden = functional.linear(patches, embedding.weight.flatten(1), embedding.bias).view(-1, PATCHES**2, embedding.out_channels)
        hidden = hidden + tower.embeddings.position_embedding.weight
        for layer in tower.encoder.layers:
            normed, attention = layer.layer_norm1(hidden), layer.self_attn
            heads = (*normed.shape[:2], attention.num_heads, -1)
            parts = (project(normed).view(heads).transpose(1, 2) for project in (attention.q_proj, attention.k_proj, attention.v_proj))
            hidden = hidden + attention.out_proj(plain_attention(*parts).transpose(1, 2).reshape(normed.shape))
            hidden = hidden + layer.mlp(layer.layer_norm2(hidden))
        features = model.model.multi_modal_projector(hidden)
        # halving a side bilinearly is the mean of 2 × 2
        half = PATCHES // 2
        features = features.view(-1, half, 2, half, 2, features.shape[-1]).mean(dim=(2, 4)).view(batch, count // 4, -1)
        return torch.cat([features, model.model.image_newline.expand(batch, 1, -1).to(features.dtype)], dim=1)

    def tower(self, model) -> torch.nn.Module:
        return nn.ModuleList([model.model.vision_tower, model.model.multi_modal_projector])
