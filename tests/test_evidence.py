"""Where the target looked: computed after the race, over the text that was written, and scaled so that it can be read."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from lvspec_core import evidence
from lvspec_core.evidence import MOST_CELLS, VideoHeat, evidence_of, heat_grid, read_layers
from lvspec_core.race import run_race
from lvspec_core.records import End, Evidence, LaneEnd
from lvspec_core.settings import RaceSettings
from lvspec_core.shapes.heat import Look, choose, judge, markdown, shown
from lvspec_core.shapes.scene import Thing

SETTINGS = RaceSettings(question="Describe the video.", draft_length=4, max_new_tokens=12, frames=4, details=True)


@pytest.fixture(scope="module")
def records(random_pair, make_clip):
    return list(run_race(random_pair, make_clip(), SETTINGS))


def evidence_in(records) -> dict[str, Evidence]:
    return {lane: record for record in records if isinstance(record, Evidence) for lane in record.lanes}


def test_every_finished_lane_has_one_map_a_token(records):
    seen = evidence_in(records)
    ends = {record.lane: record for record in records if isinstance(record, LaneEnd)}
    assert set(seen) == set(ends) == set(SETTINGS.methods)
    for lane, record in seen.items():
        assert len(record.heat) == len(record.shares) == ends[lane].tokens
        assert all(len(base64.b64decode(each)) == math.prod(record.grid) for each in record.heat)
        assert max(max(base64.b64decode(each)) for each in record.heat) == 255


def test_lanes_that_wrote_the_same_share_a_record(records):
    shared = evidence_in(records)["ar"]
    assert set(shared.lanes) >= {"ar", "naive_sd", "specvlm"}


def test_it_comes_after_the_summaries_and_before_the_end(records):
    kinds = [type(record) for record in records]
    assert kinds.index(Evidence) > max(index for index, kind in enumerate(kinds) if kind is LaneEnd)
    assert kinds[-1] is End


def test_a_stopped_race_has_none(random_pair, make_clip):
    calls = iter(range(10_000))
    records = list(run_race(random_pair, make_clip(), replace(SETTINGS, max_new_tokens=100), lambda: next(calls) > 20))
    assert records[-1].finish == "stopped"
    assert evidence_in(records) == {}


def test_a_failure_costs_the_evidence_and_not_the_race(random_pair, make_clip, monkeypatch, records):
    monkeypatch.setattr(evidence, "look", lambda *args: 1 / 0)
    made = list(run_race(random_pair, make_clip(), SETTINGS))
    assert evidence_in(made) == {}
    assert made[-1].finish == "finished"
    texts = [[record.token_ids for record in each if isinstance(record, LaneEnd)] for each in (made, records)]
    assert texts[0] == texts[1]


def test_a_pass_in_pieces_sees_what_one_pass_sees(random_pair, make_clip, monkeypatch, records):
    """Long texts are read in pieces, so that the attention weights stay few."""
    monkeypatch.setattr(evidence, "WATCHED_BYTES", 1)
    pieces = evidence_in(list(run_race(random_pair, make_clip(), SETTINGS)))["ar"]
    whole = evidence_in(records)["ar"]
    assert pieces.shares == pytest.approx(whole.shares, abs=2e-4)
    for one, other in zip(pieces.heat, whole.heat, strict=True):
        assert np.frombuffer(base64.b64decode(one), np.uint8) == pytest.approx(np.frombuffer(base64.b64decode(other), np.uint8), abs=2)


@pytest.mark.parametrize("grid", [(4, 4, 4), (16, 4, 4), (64, 4, 4), (8, 18, 32), (64, 50, 50), (1, 1000, 1), (400, 1, 1), (1000, 2, 2)])
def test_the_heat_of_a_long_video_is_kept_coarser(grid):
    cells = heat_grid(grid)
    assert math.prod(cells) <= MOST_CELLS
    assert all(0 < cell <= side for cell, side in zip(cells, grid, strict=True))
    if math.prod(grid) <= MOST_CELLS:
        assert cells == grid


def test_blocks_hold_the_sum_of_what_they_cover():
    heat = VideoHeat([3], slice(1, 9), (2, 2, 2), (2, 1, 1))
    weights = torch.zeros(1, 2, 1, 12)  # batch, heads, queries, keys
    weights[..., 1:9] = torch.arange(8.0)
    heat.see(3, weights)
    assert heat.take().tolist() == [[0 + 1 + 2 + 3, 4 + 5 + 6 + 7]]
    assert heat.total is None


def test_what_is_bright_for_every_token_is_not_heat():
    seen = torch.tensor([[0.5, 0.0, 0.1], [0.5, 0.2, 0.1]])
    record = evidence_of(("ar",), seen, VideoHeat([1], slice(0, 3), (1, 1, 3), (1, 1, 3)))
    assert [list(base64.b64decode(each)) for each in record.heat] == [[0, 0, 0], [0, 255, 0]]
    assert record.peak == pytest.approx(0.1)
    assert record.shares == (0.6, 0.8)


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", *(f'{{"evidence": {entry}}}' for entry in ("3", '{"layers": [4]}', '{"layers": [-1]}', '{"layers": [true]}'))],
)
def test_layers_that_the_target_lacks_are_not_taken(tmp_path, content):
    path = tmp_path / "pair.json"
    assert read_layers(path, 4) == ()
    path.write_text(content)
    assert read_layers(path, 4) == ()
    path.write_text(json.dumps({"evidence": {"layers": [1, 3]}}))
    assert read_layers(path, 4) == (1, 3)


def test_the_tiles_that_show_a_thing_follow_it():
    still = Thing("small", "red", "ring", "centre", "still", 0.375, 0.625, 0.0)
    share = shown(still, (2, 4, 4), 4).reshape(2, 4, 4)
    assert share[0, 2, 1] == share[1, 2, 1] == pytest.approx(1)
    moving = shown(replace(still, motion="rightwards"), (2, 4, 4), 4).reshape(2, 4, 4)
    assert moving.sum(axis=(1, 2)) == pytest.approx([1, 1])
    assert moving[0, 2, 1] > moving[1, 2, 1]
    assert moving[1, 2, 2] > moving[0, 2, 2]


def test_the_methods_page_states_what_was_measured():
    root = Path(__file__).resolve().parents[1]
    entry = json.loads((root / "assets" / "shapes-qwen" / "pair.json").read_text(encoding="utf-8"))["evidence"]
    text = (root / "METHODS.md").read_text(encoding="utf-8")
    assert f"<!-- heat -->\n{markdown(entry)}\n<!-- /heat -->" in text
    assert entry["measured"]["auc"] > entry["measured"]["every_layer"]["auc"]
    assert entry["measured"]["hit"] > 3 * entry["measured"]["chance"]


def test_the_layers_that_look_at_the_object_are_chosen():
    """Layer 1 looks at the object, layer 0 elsewhere, layer 2 anywhere."""
    generator = np.random.default_rng(0)
    looks = []
    for place in range(8):
        shows = np.arange(8) == place
        paid = np.stack([~shows * 1.0, shows + 0.1 * generator.random(8), generator.random(8)])
        looks.append(Look("colour", paid, shows))
    assert choose(looks, 3) == [1]
    assert judge(looks, [1]) == {"hit": 1.0, "auc": 1.0, "chance": 0.125}
    assert judge(looks, [0])["auc"] == 0.0
