"""Pairs that load, and what a user is told of those that do not."""

from __future__ import annotations

import json
import shutil
import weakref
from dataclasses import replace

import pytest
import torch

from lvspec_core.errors import PairError
from lvspec_core.pairs import PAIRS, PairInfo, load_pair, pair_info
from lvspec_core.relevance import Calibration


def info(folder, **changes) -> PairInfo:
    family = json.loads((folder / "target" / "config.json").read_text())["model_type"] if (folder / "target").is_dir() else "qwen2_5_vl"
    made = PairInfo("random", "Random", family, str(folder / "target"), str(folder / "draft"), folder=str(folder))
    return replace(made, **changes)


@pytest.fixture
def folder(random_pair_folder, tmp_path):
    """A copy that a test may damage."""
    return shutil.copytree(random_pair_folder, tmp_path / "pair")


def test_the_bundled_pair_is_known_and_says_what_it_is():
    pair = pair_info("shapes-qwen")
    assert pair.bundled
    assert "moving shapes only" in pair.notice
    assert PAIRS["shapes-qwen"] is pair


def test_an_unknown_pair_is_answered_with_the_known_ones():
    with pytest.raises(PairError, match=r"Unknown pair 'gpt-5'; choose among shapes-qwen, .*qwen2\.5-vl-7b"):
        load_pair("gpt-5")


def test_a_pair_is_loaded_once_and_only_the_last_one_stays(random_pair_folder, folder):
    first = load_pair(info(folder))
    assert load_pair(info(folder)) is first
    gone = weakref.ref(first.target.model)
    del first
    load_pair(info(random_pair_folder))
    assert gone() is None


def test_weights_are_loaded_in_full_precision_on_a_cpu_and_not_for_training(random_pair):
    assert random_pair.target.dtype == torch.float32
    assert random_pair.vocabulary == random_pair.target.vocabulary
    assert not any(parameter.requires_grad for parameter in random_pair.target.model.parameters())


def test_a_missing_folder_is_one_sentence(tmp_path):
    with pytest.raises(PairError, match="The target of random is missing"):
        load_pair(info(tmp_path))


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_damaged_file_is_one_sentence(folder, file):
    (folder / "draft" / file).write_bytes(b"not what it was")
    with pytest.raises(PairError, match="The draft of random cannot be read; its files are damaged or incomplete") as caught:
        load_pair(info(folder))
    assert str(folder) not in str(caught.value)


def test_missing_weights_are_one_sentence(folder):
    (folder / "target" / "model.safetensors").unlink()
    with pytest.raises(PairError, match="target of random cannot be read"):
        load_pair(info(folder))


def test_a_hub_name_that_is_not_there_is_one_sentence():
    with pytest.raises(PairError, match="The target no-one/nothing cannot be loaded"):
        load_pair(PairInfo("hub", "Hub", "qwen2_5_vl", "no-one/nothing", "no-one/nothing"))


def test_different_tokenizers_are_refused(folder):
    path = folder / "draft" / "tokenizer.json"
    table = json.loads(path.read_text())
    vocabulary = table["model"]["vocab"]
    vocabulary["▁zebra"] = vocabulary.pop("▁red")
    path.write_text(json.dumps(table))
    with pytest.raises(PairError, match="different tokenizers"):
        load_pair(info(folder))


def test_different_patches_are_refused(folder):
    name, edit = {
        "qwen2_5_vl": ("config.json", lambda config: config["vision_config"].update(tokens_per_second=7)),
        "llava_onevision": ("processor_config.json", lambda config: config["video_processor"].update(size={"height": 56, "width": 56})),
    }[info(folder).family]
    path = folder / "draft" / name
    config = json.loads(path.read_text())
    edit(config)
    path.write_text(json.dumps(config))
    with pytest.raises(PairError, match="different patches"):
        load_pair(info(folder))


def test_a_model_may_draft_for_itself_and_is_loaded_once(folder):
    pair = load_pair(info(folder, draft=str(folder / "target")))
    assert pair.draft is pair.target


def test_warming_up_leaves_nothing_to_do_a_second_time(random_pair):
    random_pair.warm(range(1, 8))
    assert set(range(1, 8)) <= random_pair.warmed
    random_pair.warm(range(1, 8))


# ------------------------------------------------------------------ calibration

QUANTILES = tuple(index / 200 for index in range(101))


def test_a_pair_without_a_calibration_has_none(tmp_path):
    assert Calibration.read(tmp_path / "pair.json") is None
    (tmp_path / "pair.json").write_text("{}")
    assert Calibration.read(tmp_path / "pair.json") is None


def test_the_threshold_is_the_calibrated_one_or_a_quantile():
    calibration = Calibration("draft_attention", -1, 0.3, QUANTILES)
    assert calibration.threshold_for(None) == 0.3
    assert calibration.threshold_for(0.5) == pytest.approx(0.25)
    assert calibration.threshold_for(0.505) == pytest.approx(0.2525)
    assert calibration.threshold_for(0.0) == 0.0, "everything is an anchor"
    assert calibration.threshold_for(1.0) > 1, "nothing is an anchor"


def test_a_fitted_calibration_finds_the_asked_share_of_visual_words_and_is_read_back(tmp_path):
    scores = [index / 100 for index in range(100)]
    fitted = Calibration.fit(scores, [index >= 60 for index in range(100)], recall=0.9)
    found = [score >= fitted.threshold for score in scores[60:]]
    assert sum(found) / len(found) == pytest.approx(0.9, abs=0.03)
    assert fitted.threshold_for(0.5) == pytest.approx(0.495)
    path = tmp_path / "pair.json"
    path.write_text('{"facts": {"all": 0.98}}')
    fitted.save(path)
    assert Calibration.read(path) == fitted
    assert json.loads(path.read_text())["facts"] == {"all": 0.98}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("not json", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"relevance": {"scorer": "draft_attention"}}', "cannot be read"),
        ('{"relevance": {"scorer": "magic", "layer": 0, "threshold": 1, "quantiles": []}}', "unknown scorer 'magic'"),
        ('{"relevance": {"scorer": "draft_attention", "layer": 0, "threshold": 1, "quantiles": [0, 1]}}', "101 rising quantiles"),
    ],
)
def test_a_calibration_that_makes_no_sense_is_one_sentence(tmp_path, text, words):
    (tmp_path / "pair.json").write_text(text)
    with pytest.raises(PairError, match=words):
        Calibration.read(tmp_path / "pair.json")
