"""The memory that a race is said to take is the memory that it takes."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from alive import Alive
from scaled_pairs import scaled_config
from transformers import AutoModelForImageTextToText

from lvspec_core import graph_plan, memory
from lvspec_core.checkpoints import CHECKPOINTS
from lvspec_core.families.cache import KVCache
from lvspec_core.families.fixed import FixedPass
from lvspec_core.memory import GB, QUANTISED, Demand, Model, estimate, known_models, needed_line
from lvspec_core.proposals import draft_shapes, round_shapes, spare_rows
from lvspec_core.race import run_race
from lvspec_core.registry import PAIRS, pair_info
from lvspec_core.settings import METHODS, PROPOSALS, RaceSettings
from lvspec_core.sight import SIGHTS
from lvspec_core.tree_drafting import STATIC_PATHS

SETTINGS = RaceSettings(question="What moves?", frames=4, max_new_tokens=6, draft_length=3)
SETS = [methods for count in (1, 2, 3, 4) for methods in itertools.combinations(METHODS, count)]


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_a_cache_keeps_the_rows_that_the_proposals_need(proposal):
    for settings in (RaceSettings(proposal=proposal), RaceSettings(proposal=proposal, tree_nodes=3, tree_width=9, tree_depth=7)):
        assert Demand(settings).spare == spare_rows(settings)
    assert len(STATIC_PATHS) == memory.STATIC_TREE


@pytest.mark.parametrize("calibrated", [True, False])
@pytest.mark.parametrize("methods", SETS, ids=lambda names: "-".join(names))
def test_the_caches_of_a_race_are_estimated_to_the_byte(random_pair, make_clip, monkeypatch, methods, calibrated):
    """Every cache that a race opens, by its capacity; the draft of a race without drafting lanes is there for the scores alone."""
    held: list[int] = []
    made = KVCache.__init__

    def count(cache, *arguments):
        made(cache, *arguments)
        held.append(sum(store.nbytes for store in cache.stores))

    pair = random_pair if calibrated else replace(random_pair, calibration=None)
    clip = make_clip(frames=4)
    settings = replace(SETTINGS, methods=methods)
    prompt = pair.target.encode(clip, settings.question)
    demand = Demand(settings, prompt=len(prompt.ids) - prompt.video_tokens - prompt.marks)
    pair.warm({1, 2, 3, 4})
    monkeypatch.setattr(KVCache, "__init__", count)
    list(run_race(pair, clip, settings))
    assert prompt.video_tokens + prompt.marks == pair.plan.models[0].sight.tokens(4, 112, 112)
    said = estimate(pair.plan.models, replace(demand, height=112, width=112), 4, calibrated=calibrated)
    assert sum(held) == said.caches


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["Qwen/Qwen2.5-VL-7B-Instruct", "llava-hf/llava-onevision-qwen2-7b-ov-hf"])
@torch.inference_mode()
def test_a_vision_tower_of_the_real_width_keeps_no_more_alive_than_estimated(name, dtype):
    checkpoint = CHECKPOINTS[name]
    torch.manual_seed(0)
    config = scaled_config(checkpoint, thin=1, vision_head=checkpoint.config["vision_config"]["hidden_size"] // 16)
    model = AutoModelForImageTextToText.from_config(config).to(dtype).eval()
    sight = SIGHTS[checkpoint.family](config.to_dict(), checkpoint.processor)
    if checkpoint.family == "qwen2_5_vl":
        size, pixels, grid = (2, 112, 112), torch.zeros(64, sight.values, dtype=dtype), [torch.tensor([[1, 8, 8]])]
    else:
        size, pixels, grid = (4, 70, 70), torch.zeros(1, 4, 3, 70, 70, dtype=dtype), []
    with Alive() as alive:
        model.model.get_video_features(pixels, *grid)
    made = Model.of(checkpoint.family, config.to_dict(), checkpoint.processor, 0)
    settings = RaceSettings(frames=size[0], methods=("ar",), question="?")
    # the text model of this copy is far narrower than its tower
    said = memory._activations(made, Demand(settings, *size[1:], prompt=0), dtype.itemsize)
    assert 0.6 * said < alive.peak + pixels.nbytes < 1.02 * said


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@torch.inference_mode()
def test_reading_the_video_keeps_no_more_alive_than_estimated(dtype, random_pair):
    """The layers of the real proportions over as many embeddings as a video has tokens."""
    checkpoint = CHECKPOINTS["Qwen/Qwen2.5-VL-7B-Instruct"]
    config = scaled_config(checkpoint, thin=1)
    text = AutoModelForImageTextToText.from_config(config).model.language_model.to(dtype).eval()
    tokens, width = 256, config.text_config.hidden_size
    positions = torch.arange(tokens).expand(3, 1, -1)
    with Alive() as alive:
        features, embedded = torch.zeros(tokens, width, dtype=dtype), torch.zeros(1, tokens, width, dtype=dtype)
        rotary = text.rotary_emb(embedded, positions)
        hidden = embedded
        for layer in text.layers:
            hidden = layer(hidden, position_embeddings=rotary)
    del features, hidden
    made = Model.of(checkpoint.family, config.to_dict(), checkpoint.processor, 0)
    said = tokens * (5 * made.hidden + 3 * made.intermediate) * dtype.itemsize
    assert 0.8 * said < alive.peak < 1.05 * said


@pytest.mark.parametrize("rows", [1, 2, 16, 32])
@torch.inference_mode()
def test_a_recorded_pass_holds_no_more_than_estimated(random_pair, make_clip, rows):
    prompt = random_pair.target.encode(make_clip(), "What?")
    stream = random_pair.target.prefill(prompt, random_pair.target.video_features(prompt), 1000)
    stream.read_tail(prompt)
    with Alive(stream.cache.stores) as alive:
        FixedPass(stream, rows).run()
    said = memory._pass(random_pair.plan.models[0], rows, stream.cache.capacity, 4) - memory.GRAPH
    assert 0.5 * said < alive.peak < said


@pytest.mark.parametrize("proposal", PROPOSALS)
@pytest.mark.parametrize(("depth", "nodes", "width"), [(6, 25, 4), (1, 64, 10), (16, 3, 2)])
def test_the_passes_to_be_recorded_have_the_rows_of_the_proposals(proposal, depth, nodes, width):
    settings = RaceSettings(proposal=proposal, tree_depth=depth, tree_nodes=nodes, tree_width=width)
    for method in METHODS[1:]:
        drafts = graph_plan.draft_rows(method, settings)
        assert drafts == draft_shapes(settings)
        assert max(graph_plan.target_rows(method, settings), *drafts) == max(round_shapes(settings))
    assert (graph_plan.target_rows("ar", settings), graph_plan.draft_rows("ar", settings)) == (1, set())


def test_recorded_passes_count_on_a_gpu_where_they_were_asked_for(monkeypatch):
    models, demand = known_models(pair_info("qwen2.5-vl-7b")), Demand(RaceSettings())
    before = estimate(models, demand).total
    monkeypatch.setenv(graph_plan.VARIABLE, "1")
    graphs = estimate(models, demand).graphs
    assert 0 == estimate(models, demand, gpu=False).graphs < graphs < GB
    assert estimate(models, demand).total > before + graphs
    more, fewer = (estimate(models, Demand(settings)).graphs for settings in (RaceSettings(frames=64), RaceSettings(methods=("ar",))))
    assert more > graphs > fewer


def test_more_frames_lanes_and_tokens_take_more_and_quantised_weights_less():
    models = known_models(pair_info("qwen2.5-vl-7b"))

    def total(quantise="", **changes):
        return estimate(models, Demand(RaceSettings(**changes)), 2, quantise).total

    assert total(frames=8) < total(frames=9 + 1) < total(frames=128)
    assert total(methods=("ar",)) < total(methods=("ar", "lvspec")) < total()
    assert total(max_new_tokens=64) < total(max_new_tokens=1024)
    assert total("4bit") < total("8bit") < total()
    assert 0.5 < QUANTISED["4bit"] < QUANTISED["8bit"] / 1.5


def test_the_published_pairs_need_what_their_users_report():
    """7B with 3B runs on a 32 GB GPU and not on a 24 GB one; 72B with 7B needs more than two of 80 GB."""
    needs = {
        name: estimate(known_models(info), Demand(RaceSettings()), 2, alone=info.alone).total / GB
        for name, info in PAIRS.items()
        if not info.bundled
    }
    assert 24 < needs["qwen2.5-vl-7b"] < 32
    assert 80 < needs["qwen2.5-vl-32b"] < 96
    assert 160 < needs["qwen2.5-vl-72b"] < 180
    assert needs["qwen2.5-vl-7b-self"] < needs["qwen2.5-vl-7b"]


def test_a_pair_tells_in_one_line_what_it_needs_at_these_settings():
    line = needed_line(pair_info("qwen2.5-vl-7b"), RaceSettings(frames=1, methods=("ar",)))
    assert line.startswith("This pair needs about 24 GB of GPU memory at 1 frame and 1 lane, about 9 GB in 4 bits")
    assert needed_line(replace(pair_info("qwen2.5-vl-7b"), quantise="4bit"), RaceSettings()).count("GB") == 1
    assert needed_line(pair_info("shapes-qwen"), RaceSettings()) == ""


def test_the_line_needs_no_library_for_models():
    code = (
        "import sys; from lvspec_core.memory import needed_line; from lvspec_core.registry import PAIRS;"
        "from lvspec_core.settings import RaceSettings; from lvspec_core import own_pairs, pair_options, pair_table;"
        "[needed_line(info, RaceSettings()) for info in PAIRS.values()]; print({'torch', 'transformers', 'numpy'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "set()"
