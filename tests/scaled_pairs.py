"""Scaled-down copies of the registry's checkpoints: the same classes, head counts, ratios of widths, rotary sections, vision merging and
padding of the vocabulary; few layers, narrow heads, random weights."""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    LlavaOnevisionImageProcessor,
    LlavaOnevisionProcessor,
    LlavaOnevisionVideoProcessor,
)

from lvspec_core.checkpoints import CHECKPOINTS, Checkpoint
from lvspec_core.shapes import llava, qwen
from lvspec_core.shapes.words import build_tokenizer

HEAD, VISION_HEAD = 16, 8  # dimensions of a head; 16 is the least that can be cut as 128 is into 16, 24 and 24
LAYERS, VISION_LAYERS = 2, 2
THIN = 8  # times narrower than in proportion are the MLPs: their width decides nothing but how long a test takes
LOUD = 2.5  # how strong the layers are against the embeddings: where a text neither repeats one token nor forgets the last
LLAVA_SIDE = 5  # patches a side, odd as 27 is
TOKENS = {"qwen2_5_vl": 151665, "llava_onevision": 151648}  # that the real tokenizers have; the rest of a vocabulary is padding
WORDS = {"qwen2_5_vl": qwen.TOKENS, "llava_onevision": llava.TOKENS}


def tokenizer_of(family: str):
    return build_tokenizer(WORDS[family])


def scaled_config(checkpoint: Checkpoint, thin: int = THIN, vision_head: int = VISION_HEAD):
    """The checkpoint's configuration, smaller; ``thin`` 1: MLPs in proportion; ``vision_head``: the real one leaves the tower as wide."""
    family, config = checkpoint.family, copy.deepcopy(checkpoint.config)
    tokenizer = tokenizer_of(family)
    text, vision = config.get("text_config", config), config["vision_config"]
    width, narrow = text["hidden_size"], text["num_attention_heads"] * HEAD
    text["intermediate_size"] = round(text["intermediate_size"] * narrow / width / thin)
    text["hidden_size"], text["num_hidden_layers"] = narrow, LAYERS
    text["vocab_size"] += len(tokenizer) - TOKENS[family]
    text["bos_token_id"], text["eos_token_id"] = None, tokenizer.eos_token_id
    text["initializer_range"] = LOUD / narrow**0.5
    heads = vision.get("num_heads") or vision["num_attention_heads"]
    vision["intermediate_size"] = round(vision["intermediate_size"] * heads * vision_head / vision["hidden_size"] / thin)
    vision["hidden_size"] = heads * vision_head
    if family == "qwen2_5_vl":
        sections = config["rope_scaling"]["mrope_section"]
        config["rope_scaling"]["mrope_section"] = [section * HEAD // 128 for section in sections]
        vision |= {"out_hidden_size": narrow, "depth": VISION_LAYERS, "fullatt_block_indexes": [1]}
        special = {"image": "<|image_pad|>", "video": "<|video_pad|>", "vision_start": "<|vision_start|>", "vision_end": "<|vision_end|>"}
        config |= {f"{name}_token_id": tokenizer.convert_tokens_to_ids(token) for name, token in special.items()}
    else:
        vision |= {"num_hidden_layers": VISION_LAYERS, "image_size": LLAVA_SIDE * vision["patch_size"]}
        config |= {f"{name}_token_index": tokenizer.convert_tokens_to_ids(f"<{name}>") for name in ("image", "video")}
    return AutoConfig.for_model(**config)


def save_scaled(name: str, folder: Path, seed: int = 0) -> Path:
    """A scaled-down copy of the checkpoint ``name`` with its processor, as ``from_pretrained`` reads it.

    Its head is its embeddings, tied or not: what a token is followed by depends on the token in every such copy, so that copies of
    different widths agree now and then.
    """
    checkpoint = CHECKPOINTS[name]
    torch.manual_seed(seed)
    config = scaled_config(checkpoint)
    model = AutoModelForImageTextToText.from_config(config)
    with torch.no_grad():
        shared = torch.randn(model.get_input_embeddings().weight.shape, generator=torch.Generator().manual_seed(1))
        model.get_input_embeddings().weight.copy_(shared)
        model.get_output_embeddings().weight.copy_(shared)
    model.save_pretrained(folder)
    if checkpoint.family == "qwen2_5_vl":
        qwen.Qwen().build_processor().save_pretrained(folder)
        return folder
    side = LLAVA_SIDE * checkpoint.config["vision_config"]["patch_size"]
    pixels = {"size": {"height": side, "width": side}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    LlavaOnevisionProcessor(
        image_processor=LlavaOnevisionImageProcessor(**pixels),
        tokenizer=tokenizer_of("llava_onevision"),
        video_processor=LlavaOnevisionVideoProcessor(**pixels),
        num_image_tokens=LLAVA_SIDE**2,
        vision_feature_select_strategy="full",
        chat_template=llava.CHAT_TEMPLATE,
    ).save_pretrained(folder)
    return folder
