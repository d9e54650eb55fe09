"""The bundled pairs' architectures: real transformers classes and processors, tiny configurations."""

from __future__ import annotations

from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLProcessor,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
)

from lvspec_core.shapes.captions import vocabulary

SIDE = 112  # pixels; 4 × 4 merged video tokens per two frames
SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<unk>",
)
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}"
    "{% if message['content'] is string %} {{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% elif part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif 'text' in part %} {{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant{% endif %}"
)


def build_tokenizer() -> PreTrainedTokenizerFast:
    """A word-level tokenizer: a word carries its leading space, punctuation stands alone; unknown words become <unk>."""
    words = []
    for word in vocabulary():
        words.append(word if word in ",.?" else "▁" + word)
    table = {token: index for index, token in enumerate((*SPECIAL, *words))}
    tokenizer = Tokenizer(models.WordLevel(table, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(prepend_scheme="always"), pre_tokenizers.Split(Regex("[,.?]"), "isolated")]
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIAL])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=4096,
        extra_special_tokens={"image_token": "<|image_pad|>", "video_token": "<|video_pad|>"},
        clean_up_tokenization_spaces=False,
    )


def build_processor() -> Qwen2_5_VLProcessor:
    """Qwen2.5-VL's own processor; every frame is scaled to about SIDE × SIDE pixels, its proportions kept."""
    pixels = SIDE * SIDE
    size = {"shortest_edge": pixels, "longest_edge": pixels}
    return Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(size=dict(size)),
        tokenizer=build_tokenizer(),
        video_processor=Qwen2VLVideoProcessor(size=dict(size), cap_pixels_per_frame=False),
        chat_template=CHAT_TEMPLATE,
    )


def build_config(layers: int, vision_layers: int, vision_hidden: int, hidden: int = 128, intermediate: int = 256) -> Qwen2_5_VLConfig:
    """A Qwen2.5-VL configuration of this size for the shapes tokenizer."""
    tokenizer = build_tokenizer()
    ids = {token: tokenizer.convert_tokens_to_ids(token) for token in SPECIAL}
    heads = 4
    return Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": hidden,
            "intermediate_size": intermediate,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": 2,
            "max_position_embeddings": 4096,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 6, 6]},
            "bos_token_id": None,
            "eos_token_id": ids["<|im_end|>"],
            "pad_token_id": ids["<|endoftext|>"],
            "tie_word_embeddings": True,
        },
        vision_config={
            "depth": vision_layers,
            "hidden_size": vision_hidden,
            "out_hidden_size": hidden,
            "num_heads": 4,
            "intermediate_size": 2 * vision_hidden,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
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


def target_config(layers: int = 36) -> Qwen2_5_VLConfig:
    """Deep and narrow, so that a step is dominated by its layers, as memory-bound decoding is on a GPU."""
    return build_config(layers=layers, vision_layers=3, vision_hidden=96)


def draft_config() -> Qwen2_5_VLConfig:
    """Shallow: a step costs a small part of the target's."""
    return build_config(layers=2, vision_layers=2, vision_hidden=64)


def save_processor(folder: Path) -> None:
    build_processor().save_pretrained(folder)
