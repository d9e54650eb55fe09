"""Models of the real checkpoints' exact shapes with random weights, made on the device that they run on: no hub, no file."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from transformers import AutoConfig

from lvspec_core.errors import PairError
from lvspec_core.families import FAMILIES
from lvspec_core.families.attention import ATTENTION
from lvspec_core.families.base import VideoLM
from lvspec_core.shapes.models import ARCHITECTURES
from lvspec_core.video import VideoClip

# pair -> its checkpoints, as the registry has them; the most telling first
CHECKED = {
    "qwen2.5-vl-7b": ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen2.5-VL-3B-Instruct"),
    "llava-onevision-7b": ("llava-hf/llava-onevision-qwen2-7b-ov-hf", "llava-hf/llava-onevision-qwen2-0.5b-ov-hf"),
    "qwen2.5-vl-32b": ("Qwen/Qwen2.5-VL-32B-Instruct", "Qwen/Qwen2.5-VL-7B-Instruct"),
}
HEAD, VISION_HEAD, LAYERS, VOCABULARY = 16, 8, 2, 1024  # of scaled-down models


@dataclass(frozen=True)
class Scale:
    """How large the models are and the side of a clip's pictures, in pixels."""

    tiny: bool
    side: int


SCALES = {"full": Scale(False, 448), "tiny": Scale(True, 112)}


def checkpoints_of(pair: str) -> tuple[str, str]:
    """A pair's target and draft; PairError naming the known ones."""
    if pair not in CHECKED:
        raise PairError(f"Unknown pair {pair!r}; choose among {', '.join(CHECKED)}.")
    return CHECKED[pair]


def parameters_of(name: str) -> int:
    """How many parameters a checkpoint has."""
    from lvspec_core.checkpoints import CHECKPOINTS

    return CHECKPOINTS[name].parameters


def random_model(name: str, scale: Scale, dtype: torch.dtype, device: torch.device) -> VideoLM:
    """A checkpoint's model, filled as its architecture fills a new one. Its processor prepares videos as the checkpoint's does; the
    words are those of the shapes world, as weights that know nothing need no others."""
    from lvspec_core.checkpoints import CHECKPOINTS

    checkpoint = CHECKPOINTS[name]
    architecture = ARCHITECTURES[checkpoint.family]
    values = copy.deepcopy(checkpoint.config)
    config = AutoConfig.for_model(**(shrunk(values) if scale.tiny else values))
    with torch.device(device):
        model = architecture.model._from_config(
            config, dtype=dtype, attn_implementation={"text_config": ATTENTION, "vision_config": "sdpa"}
        )
    model.eval().requires_grad_(False)
    processor = architecture.build_processor()
    options = dict(checkpoint.processor)
    patches = options.pop("num_image_tokens", None)
    processor.video_processor = type(processor.video_processor)(**options)
    if patches is not None:
        processor.num_image_tokens = patches
    return FAMILIES[checkpoint.family](name, model, processor, model.model.language_model, model.lm_head)


def shrunk(config: dict) -> dict:
    """A configuration with the same numbers of heads, the same ratios and next to no width, two layers deep."""
    text, vision = config.get("text_config", config), config["vision_config"]
    hidden = text["num_attention_heads"] * HEAD
    ratio = hidden / text["hidden_size"]
    sections = text.get("rope_scaling", {}).get("mrope_section")
    if sections:
        whole = sum(sections)
        text["rope_scaling"] = {**text["rope_scaling"], "mrope_section": [part * HEAD // 2 // whole for part in sections]}
    text |= {"hidden_size": hidden, "intermediate_size": round(text["intermediate_size"] * ratio), "num_hidden_layers": LAYERS}
    text["vocab_size"] = VOCABULARY
    # ids beyond the vocabulary would name no row of the embeddings
    for part in (config, text):
        part |= {key: 0 for key, value in part.items() if key.endswith(("_token_id", "_token_index")) and value >= VOCABULARY}
    seen = vision["num_heads" if "num_heads" in vision else "num_attention_heads"] * VISION_HEAD
    vision["intermediate_size"] = round(vision["intermediate_size"] * seen / vision["hidden_size"])
    vision["hidden_size"] = seen
    vision["depth" if "depth" in vision else "num_hidden_layers"] = LAYERS
    if "out_hidden_size" in vision:
        vision |= {"out_hidden_size": hidden, "fullatt_block_indexes": [LAYERS - 1]}
    return config


def noise(frames: int, side: int) -> VideoClip:
    """A clip that shows nothing, one frame a second."""
    pixels = np.random.default_rng(0).integers(0, 256, (frames, side, side, 3), dtype=np.uint8)
    return VideoClip("noise", pixels, tuple(index + 0.5 for index in range(frames)), float(frames), 1.0, side, side, frames, "none")
