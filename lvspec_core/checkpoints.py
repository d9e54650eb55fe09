"""The public checkpoints of the real pairs as plain data: revision, configuration, size, and where each was seen.

No hub is within reach where this was written. Every value stands in a public source that is named beside it, or is marked as
``unseen`` with the reason to believe it. Tests build the real class of every configuration on the ``meta`` device and count its
parameters: a wrong width, depth or vocabulary would not give the published count.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """``revision``: the commit on the hub, "" where it is not known for sure: then only the configuration is compared.
    ``config``: what its config.json says, defaults of the architecture left out. ``processor``: what its preprocessor_config.json
    says about videos. ``parameters``: of the whole model, counted from the configuration. ``published``: the size that its publisher
    states, and where that was seen. ``text``: the published size of the language model that it was built on. ``sources``: of the
    other values. ``unseen``: value and why it is believed.
    """

    family: str
    revision: str
    config: dict
    processor: dict
    parameters: int
    published: tuple[int, str]
    text: int
    sources: str
    unseen: str = ""


# preprocessor_config.json of Qwen2.5-VL, the same for all sizes, as quoted in public loaders. There is no file of its own for videos,
# so transformers takes a video's limits from this one.
QWEN_PROCESSOR = {"patch_size": 14, "temporal_patch_size": 2, "merge_size": 2, "min_pixels": 3136, "max_pixels": 12845056}
# google/siglip-so400m-patch14-384's, from which transformers' convert_llava_onevision_weights_to_hf.py takes the video processor
LLAVA_PROCESSOR = {"size": {"height": 384, "width": 384}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "num_image_tokens": 729}


def _qwen(hidden: int, intermediate: int, layers: int, heads: int, kv_heads: int, vocabulary: int, vision: int, tied: bool = False) -> dict:
    """config.json of a Qwen2.5-VL: flat, as it is on the hub. ``vision``: the intermediate size of its vision tower."""
    return {
        "model_type": "qwen2_5_vl",
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": 128000,
        "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0,
        "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
        "tie_word_embeddings": tied,
        "bos_token_id": 151643,
        "eos_token_id": 151645,
        "vision_start_token_id": 151652,
        "vision_end_token_id": 151653,
        "image_token_id": 151655,
        "video_token_id": 151656,
        "vision_config": {
            "depth": 32,
            "hidden_size": 1280,
            "intermediate_size": vision,
            "num_heads": 16,
            "in_chans": 3,
            "out_hidden_size": hidden,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "window_size": 112,
            "fullatt_block_indexes": [7, 15, 23, 31],
            "tokens_per_second": 2,
        },
    }


def _llava(hidden: int, intermediate: int, layers: int, heads: int, kv_heads: int, vocabulary: int, tied: bool = False) -> dict:
    """config.json of a LLaVA-OneVision: a Qwen2 text model and SigLIP without its last layer."""
    return {
        "model_type": "llava_onevision",
        "image_token_index": 151646,
        "video_token_index": 151647,
        "projector_hidden_act": "gelu",
        "vision_feature_select_strategy": "full",
        "vision_feature_layer": -1,
        "vision_aspect_ratio": "anyres_max_9",
        "tie_word_embeddings": tied,
        "text_config": {
            "model_type": "qwen2",
            "vocab_size": vocabulary,
            "hidden_size": hidden,
            "intermediate_size": intermediate,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "max_position_embeddings": 32768,
            "rms_norm_eps": 1e-06,
            "rope_theta": 1000000.0,
            "tie_word_embeddings": tied,
            "bos_token_id": 151643,
            "eos_token_id": 151645,
        },
        "vision_config": {
            "model_type": "siglip_vision_model",
            "hidden_size": 1152,
            "intermediate_size": 4304,
            "image_size": 384,
            "patch_size": 14,
            "num_hidden_layers": 26,
            "num_attention_heads": 16,
            "vision_use_head": False,
        },
    }


# published sizes of the language models; Qwen2 and Qwen2.5 have the same shapes
QWEN2_7B, QWEN2_72B = 7_615_616_512, 72_706_203_648

# transformers' conversion script: a Qwen2 text model whose vocabulary grew by two tokens and was padded to the next 64; SigLIP's
# 26 layers, position and patch embeddings; a projector of two layers; one newline. So its size is that of the published Qwen2
# model, 64 rows of embeddings (twice where the head is not tied), and the rest.
LLAVA_SOURCES = "transformers' convert_llava_onevision_weights_to_hf.py and LlavaOnevisionConfig; Qwen2-Instruct's config.json"


LLAVA_ROWS = 64  # that the conversion adds to the vocabulary


def _llava_published(qwen2: int, hidden: int) -> int:
    wide, deep, inner = 1152, 26, 4304
    layer = 4 * (wide * wide + wide) + 2 * wide * inner + inner + wide + 4 * wide
    tower = deep * layer + 3 * 14**2 * wide + wide + 27**2 * wide + 2 * wide
    projector = wide * hidden + hidden + hidden * hidden + hidden
    return qwen2 + 2 * LLAVA_ROWS * hidden + tower + projector + hidden


CHECKPOINTS = {
    "Qwen/Qwen2.5-VL-72B-Instruct": Checkpoint(
        "qwen2_5_vl",
        "89c86200743eec961a297729e7990e8f2ddbc4c5",
        _qwen(8192, 29568, 80, 64, 8, 152064, 3456),
        QWEN_PROCESSOR,
        73_410_777_344,
        (72_706_203_648, "Qwen2.5-72B; the vision tower, 1 % of the whole, comes on top, and the sum was not seen"),
        QWEN2_72B,
        "defaults of transformers' Qwen2_5_VLTextConfig, which are this checkpoint's",
        "vision_config.intermediate_size: 3456 as in the 32B, which was released after it with the same tower",
    ),
    "Qwen/Qwen2.5-VL-32B-Instruct": Checkpoint(
        "qwen2_5_vl",
        "7cfb30d71a1f4f49a57592323337a4a4727301da",
        _qwen(5120, 27648, 64, 40, 8, 152064, 3456),
        QWEN_PROCESSOR,
        33_452_718_336,
        (33_452_718_336, "public scripts that count its safetensors"),
        32_763_876_352,
        "its config.json as quoted by a public planner that fetched it",
        "vision_config.depth and num_heads: as in every other size; the count would differ with another depth",
    ),
    "Qwen/Qwen2.5-VL-7B-Instruct": Checkpoint(
        "qwen2_5_vl",
        "cc594898137f460bfe9f0759e9844b3ce807cfb5",
        _qwen(3584, 18944, 28, 28, 4, 152064, 3420),
        QWEN_PROCESSOR,
        8_292_166_656,
        (8_292_166_656, "model.safetensors.index.json: total_size 16,584,333,312 bytes in bfloat16"),
        QWEN2_7B,
        "its config.json, copied in several public repositories",
    ),
    "Qwen/Qwen2.5-VL-3B-Instruct": Checkpoint(
        "qwen2_5_vl",
        "66285546d2b821cf421d4f5eb2576359d3770cd3",
        _qwen(2048, 11008, 36, 16, 2, 151936, 3420, tied=True),
        QWEN_PROCESSOR,
        3_754_622_976,
        (3_754_622_976, "public scripts that count its safetensors"),
        3_085_938_688,
        "its config.json, copied in public repositories",
    ),
    "llava-hf/llava-onevision-qwen2-72b-ov-hf": Checkpoint(
        "llava_onevision",
        "",
        _llava(8192, 29568, 80, 64, 8, 152128),
        LLAVA_PROCESSOR,
        73_181_570_592,
        (_llava_published(QWEN2_72B, 8192), "Qwen2-72B's published size and what the conversion adds"),
        QWEN2_72B,
        LLAVA_SOURCES,
        "the revision: a single public script names one, and nothing confirms it; the config.json itself was not seen",
    ),
    "llava-hf/llava-onevision-qwen2-7b-ov-hf": Checkpoint(
        "llava_onevision",
        "0d50680527681998e456c7b78950205bedd8a068",
        _llava(3584, 18944, 28, 28, 4, 152128),
        LLAVA_PROCESSOR,
        8_030_807_584,
        (_llava_published(QWEN2_7B, 3584), "Qwen2-7B's published size and what the conversion adds"),
        QWEN2_7B,
        LLAVA_SOURCES,
        "the config.json itself was not seen",
    ),
    "llava-hf/llava-onevision-qwen2-0.5b-ov-hf": Checkpoint(
        "llava_onevision",
        "74dd0bf867a4cda7950c17663794267c60cf4b40",
        _llava(896, 4864, 24, 14, 2, 152000, tied=True),
        LLAVA_PROCESSOR,
        893_675_552,
        (1_787_445_680 // 2, "the size of its model.safetensors, 1,787,445,680 bytes in float16 with the file's header"),
        494_032_768,
        LLAVA_SOURCES,
        "the config.json itself was not seen; that its head is tied follows from the file's size",
    ),
}
