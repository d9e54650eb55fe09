"""The typed configurations of the real pairs: each builds the real class, with the published number of parameters."""

from __future__ import annotations

import copy
import re
from functools import cache

import pytest
import torch
from transformers import AutoConfig, AutoModelForImageTextToText, LlavaOnevisionForConditionalGeneration, Qwen2_5_VLForConditionalGeneration

from lvspec_core.checkpoints import CHECKPOINTS, LLAVA_ROWS
from lvspec_core.memory import Demand, Model, estimate, known_models
from lvspec_core.registry import PAIRS
from lvspec_core.settings import RaceSettings

REAL = [info for info in PAIRS.values() if not info.bundled]
CLASSES = {"qwen2_5_vl": Qwen2_5_VLForConditionalGeneration, "llava_onevision": LlavaOnevisionForConditionalGeneration}
named = pytest.mark.parametrize("name", CHECKPOINTS)


@cache
def built(name: str):
    """The real model of a checkpoint without its weights."""
    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(AutoConfig.for_model(**copy.deepcopy(CHECKPOINTS[name].config)))
    model.tie_weights()
    return model


def count(module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@named
def test_a_configuration_builds_the_real_class_with_the_published_size(name):
    checkpoint, model = CHECKPOINTS[name], built(name)
    assert type(model) is CLASSES[checkpoint.family]
    assert count(model) == checkpoint.parameters
    assert checkpoint.parameters == pytest.approx(checkpoint.published[0], rel=0.01)


@named
def test_its_language_model_is_the_published_one_it_was_built_on(name):
    checkpoint, model = CHECKPOINTS[name], built(name)
    text, head = model.model.language_model, model.lm_head
    tied = head.weight is text.embed_tokens.weight
    own = count(text) + (0 if tied else head.weight.numel())
    added = (LLAVA_ROWS if checkpoint.family == "llava_onevision" else 0) * text.config.hidden_size * (1 if tied else 2)
    assert own - added == checkpoint.text


@named
def test_what_memory_hangs_on_is_read_alike_from_the_typed_file_and_from_the_real_configuration(name):
    checkpoint, model = CHECKPOINTS[name], built(name)
    typed = Model.of(checkpoint.family, checkpoint.config, checkpoint.processor, checkpoint.parameters)
    assert typed == Model.of(checkpoint.family, model.config.to_dict(), checkpoint.processor, count(model))
    text = model.model.language_model
    assert typed.layers == len(text.layers)
    attention = text.layers[0].self_attn
    assert typed.row(2) == 2 * 2 * typed.layers * attention.k_proj.weight.shape[0], "keys and values of all layers in two bytes"
    assert typed.kept == sum(weight.numel() for weight in {text.embed_tokens.weight, model.lm_head.weight})


@pytest.mark.parametrize("info", REAL, ids=lambda info: info.name)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_estimate_of_a_pairs_weights_is_the_models_bytes(info, dtype):
    models = {info.target, info.draft}
    there = sum(count(built(name)) * dtype.itemsize for name in models)
    assert estimate(known_models(info), Demand(RaceSettings()), dtype.itemsize, alone=info.alone).weights == there


@pytest.mark.parametrize("info", REAL, ids=lambda info: info.name)
def test_a_pair_of_the_registry_is_two_checkpoints_of_one_family_at_known_revisions(info):
    target, draft = CHECKPOINTS[info.target], CHECKPOINTS[info.draft]
    assert info.family == target.family == draft.family
    assert target.processor == draft.processor
    assert (info.target_revision, info.draft_revision) == (target.revision, draft.revision)
    assert target.parameters >= draft.parameters
    assert info.alone == info.name.endswith("-self")
    for checkpoint in (target, draft):
        assert re.fullmatch(r"[0-9a-f]{40}", checkpoint.revision) or "the revision" in checkpoint.unseen
    first, second = (built(name).config for name in (info.target, info.draft))
    assert first.video_token_id == second.video_token_id


@pytest.mark.parametrize("info", REAL, ids=lambda info: info.name)
def test_a_pairs_name_says_which_checkpoints_it_is_of(info):
    size = info.name.removesuffix("-self").rpartition("-")[2]
    assert f"-{size}-" in info.target.lower()
    assert size.upper() in info.title
    family = {"qwen2_5_vl": "Qwen/Qwen2.5-VL", "llava_onevision": "llava-hf/llava-onevision"}[info.family]
    assert info.target.startswith(family)
    assert info.draft.startswith(family)


@named
def test_a_vision_tower_is_the_one_of_its_family(name):
    vision = built(name).config.vision_config
    if CHECKPOINTS[name].family == "qwen2_5_vl":
        assert (vision.patch_size, vision.spatial_merge_size, vision.temporal_patch_size, vision.tokens_per_second) == (14, 2, 2, 2)
        assert (vision.window_size, list(vision.fullatt_block_indexes), vision.num_heads) == (112, [7, 15, 23, 31], 16)
    else:
        tower = built(name).model.vision_tower
        assert (vision.image_size, vision.patch_size, vision.num_attention_heads) == (384, 14, 16)
        assert tower.embeddings.position_embedding.weight.shape == (729, 1152)
        assert built(name).model.image_newline.shape == (built(name).config.text_config.hidden_size,)


def test_the_paddings_of_the_vocabularies_differ_where_the_methods_table_says_so():
    sizes = {name.rpartition("/")[2]: built(name).lm_head.weight.shape[0] for name in CHECKPOINTS}
    assert sizes["Qwen2.5-VL-7B-Instruct"] == 152_064
    assert sizes["Qwen2.5-VL-3B-Instruct"] == 151_936
    assert sizes["llava-onevision-qwen2-7b-ov-hf"] != sizes["llava-onevision-qwen2-0.5b-ov-hf"]


def test_the_rotary_sections_fill_half_a_head():
    for name in CHECKPOINTS:
        config = built(name).model.language_model.config
        if CHECKPOINTS[name].family == "qwen2_5_vl":
            assert config.rope_parameters["mrope_section"] == [16, 24, 24]
            assert 2 * sum(config.rope_parameters["mrope_section"]) == config.hidden_size // config.num_attention_heads
        assert config.rope_parameters["rope_theta"] == 1e6


def test_every_target_of_a_pair_also_races_with_itself():
    assert {info.target for info in REAL if not info.alone} == {info.target for info in REAL if info.alone}
