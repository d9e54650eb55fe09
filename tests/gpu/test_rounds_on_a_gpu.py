"""The loop on a GPU: lossless in single precision, and a round that waits for the device once."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import pytest
import torch
from endless import endless_lane

from lvspec_core.decoding import decode
from lvspec_core.gpu_check import command
from lvspec_core.settings import METHODS, RaceSettings

STRICT = {"anchor_quantile": 0.0, "shift": 0}  # every token an anchor: LVSpec is lossless too
SETTINGS = RaceSettings(frames=4, max_new_tokens=40, draft_length=5, adaptive=0.0)


def test_the_pair_is_on_the_gpu(pair):
    assert pair.target.device.type == "cuda"
    assert pair.target.dtype == torch.float32


@pytest.mark.parametrize("proposal", ["chain", "static_tree", "dynamic_tree"])
def test_the_four_methods_write_the_same(pair, make_clip, proposal):
    texts = {}
    for method in METHODS:
        lane = endless_lane(pair, make_clip(), method, replace(SETTINGS, proposal=proposal, **STRICT))
        list(decode(lane))
        texts[method] = lane.token_ids
    assert all(text == texts["ar"] for text in texts.values())


def waits_in(work) -> int:
    """How often the host had to wait for the device, as torch tells."""
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            work()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchronizing" in str(each.message) for each in told)


@pytest.mark.parametrize(("proposal", "most"), [("chain", 1), ("static_tree", 1), ("dynamic_tree", 2)])
@pytest.mark.parametrize("method", METHODS)
def test_a_round_waits_for_its_verdict_alone(pair, make_clip, method, proposal, most):
    lane = endless_lane(pair, make_clip(), method, replace(SETTINGS, proposal=proposal))
    lane.round()  # whatever is set up once
    lane.round()
    for _ in range(3):
        assert 1 <= waits_in(lane.round) <= most


def test_torch_tells_of_waits():
    ready = torch.ones(4, device="cuda")
    assert waits_in(lambda: ready.tolist()) >= 1
    assert waits_in(lambda: ready + 1) == 0


@pytest.mark.parametrize("method", METHODS)
def test_the_parts_of_a_round_add_up(pair, make_clip, method):
    lane = endless_lane(pair, make_clip(), method, SETTINGS)
    before = 0.0
    for outcome in decode(lane):
        assert outcome.draft_seconds >= 0
        assert outcome.verify_seconds > 0
        assert outcome.draft_seconds + outcome.verify_seconds <= (outcome.seconds - before) * 1.02 + 1e-4
        before = outcome.seconds


def test_the_check_runs(tmp_path):
    assert command.main(["--scale", "tiny", "--frames", "2", "--pairs", "qwen2.5-vl-7b", "--out", str(tmp_path)]) == 0
    told = json.loads((tmp_path / "gpu-check.json").read_text())
    assert told["state"] == "finished"
    assert all(row["timing"]["host"] is not None and row["timing"]["peak"] > 0 for row in told["rows"])
