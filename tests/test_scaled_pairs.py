"""Every real pair of the registry, scaled down: all four methods run, and the lossless ones write what AR writes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from scaled_pairs import LAYERS, save_scaled

from lvspec_core.checkpoints import CHECKPOINTS
from lvspec_core.families import FAMILIES
from lvspec_core.own_pairs import own_pair
from lvspec_core.pairs import Pair, load_pair
from lvspec_core.race import run_race
from lvspec_core.records import LaneEnd, Round
from lvspec_core.registry import PAIRS
from lvspec_core.settings import METHODS, RaceSettings

REAL = [info for info in PAIRS.values() if not info.bundled]
SETTINGS = RaceSettings(question="What moves?", frames=4, max_new_tokens=12, draft_length=4, adaptive=0.0)


@pytest.fixture(scope="module")
def scaled(tmp_path_factory):
    """A registry pair, scaled down, saved and loaded as any checkpoints are."""
    folder = tmp_path_factory.mktemp("scaled")
    torch.set_num_threads(1)
    saved = {}

    def load(info):
        if info.family not in FAMILIES:
            pytest.skip(f"no family module for {info.family} yet")
        for seed, name in enumerate((info.target, info.draft)):
            if name not in saved:
                saved[name] = str(save_scaled(name, folder / name.split("/")[-1], seed))
        own = own_pair(saved[info.target], saved[info.draft])
        entry = {"scorer": "draft_attention", "layer": -1, "threshold": 0.3, "quantiles": [index / 100 for index in range(101)]}
        own.calibration.parent.mkdir(parents=True, exist_ok=True)
        own.calibration.write_text(json.dumps({"relevance": entry}))
        return load_pair(own)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pair, "warm", lambda self, shapes: None)  # it only saves a lane's clock from what is set up on first use
        patch.setenv("LVSPEC_PAIRS_FOLDER", str(folder / "pairs"))
        yield load


@pytest.mark.parametrize("info", REAL, ids=lambda info: info.name)
def test_all_four_methods_run_and_the_lossless_ones_write_what_ar_writes(info, scaled, make_clip):
    pair = scaled(info)
    assert pair.info.family == info.family
    assert (pair.draft is pair.target) == info.alone
    assert len(pair.target.layers) == LAYERS
    padded = [CHECKPOINTS[name].config for name in (info.target, info.draft)]
    gap = [config.get("text_config", config)["vocab_size"] for config in padded]
    assert pair.target.vocabulary - pair.draft.vocabulary == gap[0] - gap[1], "padded as the real ones are"
    assert pair.vocabulary == min(pair.target.vocabulary, pair.draft.vocabulary)
    for settings in (SETTINGS, RaceSettings(**{**vars(SETTINGS), "proposal": "dynamic_tree", "tree_nodes": 9, "tree_depth": 3})):
        records = list(run_race(pair, make_clip(frames=4, height=84, width=112), settings))
        ends = {record.lane: record for record in records if isinstance(record, LaneEnd)}
        assert tuple(ends) == METHODS
        assert all(lane.finish in ("end of text", "token budget") for lane in ends.values()), ends
        texts = {name: tokens_of(records, name) for name in METHODS}
        assert len(set(texts["ar"])) > 3, "a text that repeats itself would show little"
        assert texts["naive_sd"] == texts["specvlm"] == texts["ar"]
        assert all(token < pair.vocabulary for text in texts.values() for token in text)
        if info.alone:
            assert ends["naive_sd"].rounds < ends["ar"].rounds, "a model agrees with itself"


def test_a_draft_larger_than_its_target_is_allowed_and_said(scaled):
    pair = scaled(replace(PAIRS["qwen2.5-vl-7b"], target=PAIRS["qwen2.5-vl-7b"].draft, draft=PAIRS["qwen2.5-vl-7b"].target))
    assert "larger than the target" in pair.describe()["notice"]
    assert scaled(PAIRS["qwen2.5-vl-7b"]).describe()["notice"] == ""


def tokens_of(records, lane):
    return [token.id for record in records if isinstance(record, Round) and record.lane == lane for token in record.tokens]
