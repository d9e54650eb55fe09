"""What is found, and told, before a pair's weights are loaded; and what the weights are then loaded with."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace

import httpx
import pytest
import torch
from accelerate import dispatch_model
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError
from scaled_pairs import save_scaled

from lvspec_core import loading
from lvspec_core.errors import PairError
from lvspec_core.families.cache import KVCache
from lvspec_core.families.qwen2_5_vl import Qwen2_5_VL
from lvspec_core.loading import plan, quantisation, unreadable
from lvspec_core.memory import GB, Demand
from lvspec_core.own_pairs import own_pair
from lvspec_core.pairs import load_pair
from lvspec_core.race import run_race
from lvspec_core.records import LaneEnd
from lvspec_core.registry import PairInfo, pair_info
from lvspec_core.room import Room
from lvspec_core.settings import RaceSettings

SHORT = RaceSettings(question="What moves?", frames=4, max_new_tokens=12, draft_length=3)


@pytest.fixture
def folder(random_pair_folder, tmp_path, monkeypatch):
    """A copy that a test may change."""
    monkeypatch.setenv("LVSPEC_PAIRS_FOLDER", str(tmp_path / "own"))
    return shutil.copytree(random_pair_folder, tmp_path / "pair")


def own(folder, **choices) -> PairInfo:
    return own_pair(str(folder / "target"), str(folder / "draft"), **choices)


def change(path, edit) -> None:
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def rename(vocabulary: dict) -> None:
    vocabulary["▁zebra"] = vocabulary.pop("▁red")


# ------------------------------------------------------------------ refusals


def test_an_unsupported_architecture_is_told_with_the_supported_ones(folder):
    (folder / "target" / "config.json").write_text(json.dumps({"model_type": "qwen2", "hidden_size": 64}))
    with pytest.raises(PairError, match="The target target is a qwen2 model; supported architectures are qwen2_5_vl"):
        plan(own(folder))


def family_of(folder) -> str:
    return json.loads((folder / "target" / "config.json").read_text())["model_type"]


def test_models_of_different_families_are_no_pair(folder):
    mine = family_of(folder)
    name, other = {
        "qwen2_5_vl": ("llava-hf/llava-onevision-qwen2-0.5b-ov-hf", "llava_onevision"),
        "llava_onevision": ("Qwen/Qwen2.5-VL-3B-Instruct", "qwen2_5_vl"),
    }[mine]
    save_scaled(name, folder / "other")
    with pytest.raises(PairError, match=f"The target is a {mine} and the draft a {other}; a pair must be of one family"):
        plan(own_pair(str(folder / "target"), str(folder / "other")))


@pytest.mark.parametrize(
    ("file", "edit", "words"),
    [
        (
            "tokenizer.json",
            lambda each: each["model"]["vocab"].update({"▁zebra": each["model"]["vocab"].pop("▁red")}),
            "different tokenizers",
        ),
        (
            "config.json",
            lambda each: each.update({name: 5 for name in ("video_token_id", "video_token_index") if name in each}),
            r"different special tokens: video_token_id is \d in one and 5 in the other",
        ),
        ("config.json", lambda each: each["vision_config"].update(patch_size=16), r"cut videos into different patches \(patch size\)"),
        ("config.json", lambda each: each["vision_config"].update(tokens_per_second=7), r"different patches \(tokens per second\)"),
    ],
    ids=["tokenizer", "special token", "patches", "seconds"],
)
def test_what_a_pair_must_share_is_compared_before_any_weights_are_there(folder, file, edit, words):
    change(folder / "draft" / file, edit)
    (folder / "draft" / "model.safetensors").unlink()
    with pytest.raises(PairError, match=words):
        plan(own(folder))


def test_a_special_token_more_is_told_by_its_name(folder):
    def add(tokenizer):
        tokenizer["added_tokens"].append(tokenizer["added_tokens"][0] | {"id": 500, "content": "<|extra|>"})

    change(folder / "draft" / "tokenizer.json", add)
    with pytest.raises(PairError, match=r"different special tokens: <\|extra\|> is missing in one and \d+ in the other"):
        plan(own(folder))


def test_a_configuration_that_makes_no_model_is_one_sentence(folder):
    change(folder / "target" / "config.json", lambda each: each["text_config"].update(num_attention_heads=0))
    with pytest.raises(PairError, match=r"The configuration of the target makes no model \(ZeroDivisionError\)"):
        plan(own(folder))


def test_a_checkpoint_without_a_known_revision_must_be_the_typed_one(folder, monkeypatch):
    name = "llava-hf/llava-onevision-qwen2-72b-ov-hf"
    info = PairInfo("big", "Big", "qwen2_5_vl", name, name)
    (model,) = {*plan(own(folder)).models[:1]}
    with pytest.raises(
        PairError, match=r"is not the checkpoint that big was made for \(parameters \d+, not 73181570592\); name it with --target"
    ):
        loading.as_expected(info, "target", model)
    loading.as_expected(replace(info, target_revision="0" * 40), "target", model)


# ------------------------------------------------------------------ the hub


def hub_error(kind, status: int = 404):
    return kind("no", response=httpx.Response(status, request=httpx.Request("GET", "https://huggingface.co/a/b")))


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (hub_error(GatedRepoError, 403), "is gated: ask for access at https://huggingface.co/a/b, then set HF_TOKEN"),
        (hub_error(RepositoryNotFoundError), "the hub has no such model, or it is private and HF_TOKEN holds no token"),
        (hub_error(RevisionNotFoundError), "has no revision 'v9'"),
        (LocalEntryNotFoundError("no"), "it is not in the hub's cache, and the hub is out of reach or switched off"),
        (httpx.ConnectError("no"), "the hub is out of reach"),
        (hub_error(HfHubHTTPError, 500), "the hub answered with an error"),
        (ValueError("weights"), r"no complete model for transformers \(OSError\)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_hub_refuses_is_one_sentence_with_a_way_out(cause, words):
    error = OSError("transformers says something long")
    error.__cause__ = cause
    told = unreadable(own_pair("a/b", "a/b", "v9"), "target", error)
    assert told.startswith("The target a/b ")
    assert re.search(words, told), told


def test_offline_and_not_in_the_cache_is_told(monkeypatch):
    with pytest.raises(PairError, match="The target no-one/nothing cannot be loaded: it is not in the hub's cache"):
        load_pair(own_pair("no-one/nothing"))


def test_revisions_reach_the_hub_and_no_token_is_needed_from_us(monkeypatch):
    asked = []

    def read(source, **options):
        asked.append((source, options))
        raise OSError("enough")

    monkeypatch.setattr(loading.AutoConfig, "from_pretrained", read)
    with pytest.raises(PairError):
        plan(own_pair("a/b", "a/c", "abc123", "def456"))
    assert asked == [("a/b", {"revision": "abc123"})]


# ------------------------------------------------------------------ how they are loaded


@pytest.fixture
def loaded_with(monkeypatch, random_pair):
    """What the models would be loaded with on a machine with two GPUs, role by role."""
    said = []

    def load(source, dtype, device, **options):
        said.append(options)
        return SimpleNamespace(device="cuda:1", model=SimpleNamespace(hf_device_map=None))

    free = [30 * GB, 40 * GB]
    monkeypatch.setattr(loading, "room_here", lambda width: Room(free[0], sum(free), 2, width))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda index: (free[index], free[index]))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(Qwen2_5_VL, "load", load)
    made = loading.Plan("qwen2_5_vl", random_pair.plan.models, torch.device("cuda"), torch.bfloat16)

    def run(info):
        loading.load_models(info, made, Demand(RaceSettings()))
        return said

    return run


def test_a_model_goes_straight_to_its_gpu_at_its_revision(loaded_with):
    target, draft = loaded_with(pair_info("qwen2.5-vl-7b"))
    assert target == {"device_map": {"": 0}, "revision": "cc594898137f460bfe9f0759e9844b3ce807cfb5"}
    assert draft == {"device_map": {"": "cuda:1"}, "revision": "66285546d2b821cf421d4f5eb2576359d3770cd3"}, "where the target's head is"


def test_a_bundled_pair_is_read_and_then_moved_as_zero_gpu_wants_it(loaded_with):
    assert loaded_with(pair_info("shapes-qwen")) == [{}, {}]


def test_a_target_that_drafts_for_itself_is_loaded_once(loaded_with):
    assert len(loaded_with(pair_info("qwen2.5-vl-7b-self"))) == 1


def test_a_spread_target_leaves_room_for_caches_and_the_draft_and_nothing_to_the_cpu(loaded_with):
    target, draft = loaded_with(own_pair("a/b", "a/c", spread=True))
    assert target["device_map"] == "auto"
    assert set(target["max_memory"]) == {0, 1}
    assert 0.8 * 30 * GB < target["max_memory"][0] < 0.9 * 30 * GB
    assert draft == {"device_map": {"": "cuda:1"}}


def test_what_the_gpus_do_not_hold_together_is_refused_not_left_to_the_disk(loaded_with, monkeypatch):
    loaded_with(pair_info("qwen2.5-vl-7b"))
    half = SimpleNamespace(device="cuda:1", model=SimpleNamespace(hf_device_map={"model": 0, "lm_head": "disk"}))
    monkeypatch.setattr(Qwen2_5_VL, "load", lambda *_, **__: half)
    with pytest.raises(PairError, match="does not fit on the GPUs together; quantise it"):
        loaded_with(own_pair("a/b", spread=True))


@pytest.mark.parametrize(("quantise", "words"), [("8bit", "; quantise it"), ("4bit", "; choose a smaller pair")])
def test_what_bitsandbytes_refuses_to_spread_is_told_as_what_it_is(loaded_with, monkeypatch, quantise, words):
    def load(*_, **__):
        raise ValueError("Some modules are dispatched on the CPU or the disk. Make sure you have enough GPU RAM.")

    monkeypatch.setattr(Qwen2_5_VL, "load", load)
    with pytest.raises(PairError, match=f"does not fit on the GPUs together{words}"):
        loaded_with(own_pair("a/b", spread=True, quantise=quantise))


def test_attention_sets_up_nothing_for_a_new_length():
    """cuDNN's kernel would, on the clock of the lane that comes to a length first."""
    assert not torch.backends.cuda.cudnn_sdp_enabled()


def test_quantised_models_are_loaded_as_transformers_quantises(loaded_with):
    target, draft = loaded_with(own_pair("a/b", "a/c", quantise="4bit"))
    assert target["quantization_config"].to_dict() == draft["quantization_config"].to_dict()
    four = target["quantization_config"]
    assert four.load_in_4bit
    assert four.bnb_4bit_compute_dtype == torch.bfloat16
    assert quantisation("8bit", torch.float16).load_in_8bit


def test_quantising_needs_a_gpu_and_its_package(folder, monkeypatch):
    with pytest.raises(PairError, match="need a CUDA GPU"):
        plan(own(folder, quantise="8bit"))
    with pytest.raises(PairError, match="spread over GPUs only"):
        plan(own(folder, spread=True))
    monkeypatch.setattr(loading, "device_and_type", lambda info: (torch.device("cuda"), torch.bfloat16))
    monkeypatch.setattr(loading, "is_bitsandbytes_available", lambda: False)
    with pytest.raises(PairError, match="need the package bitsandbytes; install it with: pip install bitsandbytes"):
        plan(own(folder, quantise="4bit"))


@pytest.mark.parametrize(
    ("cuda", "bfloat16", "dtype"), [(False, True, torch.float32), (True, True, torch.bfloat16), (True, False, torch.float32)]
)
def test_the_precision_is_what_suits_the_device(monkeypatch, cuda, bfloat16, dtype):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation or bfloat16)
    assert loading.device_and_type(pair_info("qwen2.5-vl-7b")) == (torch.device("cuda" if cuda else "cpu"), dtype)
    assert loading.device_and_type(pair_info("shapes-qwen"))[1] == torch.float32


# ------------------------------------------------------------------ layers on several devices


def texts(pair, clip) -> dict:
    return {record.lane: record.token_ids for record in run_race(pair, clip, SHORT) if isinstance(record, LaneEnd)}


def test_layers_with_accelerates_hooks_write_the_same(folder, make_clip):
    """Each part of the target behind a hook that places its inputs, as a model on several GPUs has it; here on one device."""
    pair = load_pair(own(folder))
    clip = make_clip()
    before = texts(pair, clip)
    parts = [f"model.{name}" for name, _ in pair.target.model.model.named_children() if name != "language_model"]
    parts += [f"model.{name}" for name, _ in pair.target.model.model.named_parameters(recurse=False)]
    parts += ["model.language_model.embed_tokens", "model.language_model.norm", "model.language_model.rotary_emb", "lm_head"]
    parts += [f"model.language_model.layers.{index}" for index in range(len(pair.target.layers))]
    dispatch_model(pair.target.model, device_map=dict.fromkeys(parts, "cpu"), force_hooks=True)
    assert hasattr(pair.target.layers[0], "_hf_hook")
    pair.target.spread = True
    # the same device by two names: one store of the caches for each, and everything between the layers moves
    places = [torch.device("cpu"), torch.device("cpu", 0)]
    pair.target.places = tuple(places[index // 2] for index in range(len(pair.target.layers)))
    assert len(pair.target.new_cache(4).stores) == 2
    assert texts(pair, clip) == before


def test_a_cache_lies_where_its_layers_are():
    """The ``meta`` device stands for a second GPU: tensors there have a device and a shape."""
    cpu, other = torch.device("cpu"), torch.device("meta")
    cache = KVCache(3, 2, 8, 4, torch.float32, (cpu, cpu, other))
    assert [tuple(store.shape) for store in cache.stores] == [(4, 1, 2, 8, 4), (2, 1, 2, 8, 4)]
    for layer, place in enumerate((cpu, cpu, other)):
        new = torch.full((1, 2, 3, 4), float(layer), device=place)
        keys, values = cache.update(new, new + 1, layer)
        assert keys.device == values.device == place
        assert keys.shape == values.shape == (1, 2, 3, 4)
        if place == cpu:
            assert (keys == layer).all()
            assert (values == layer + 1).all()
    assert cache.length == 3
    cache.keep(0, [0, 2])
    copy = cache.fork()
    assert copy.length == 2
    assert [store.device for store in copy.stores] == [cpu, other]
