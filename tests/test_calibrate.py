"""Calibration: the measures it goes by, and what happens when nothing separates."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from lvspec_core import calibrate
from lvspec_core.pairs import load_pair
from lvspec_core.relevance import Calibration


@pytest.mark.parametrize(
    ("scores", "visual", "expected"),
    [
        ([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], 1.0),
        ([0.8, 0.9, 0.1, 0.2], [0, 0, 1, 1], 0.0),
        ([0.5, 0.5, 0.5, 0.5], [0, 1, 0, 1], 0.5),
        ([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1], 0.75),
    ],
)
def test_auc_is_the_chance_that_a_visual_word_scores_higher(scores, visual, expected):
    assert calibrate.auc(np.array(scores), np.array(visual, bool)) == pytest.approx(expected)


def test_precision_is_taken_at_the_line_that_finds_enough():
    scores, visual = np.array([0.9, 0.8, 0.7, 0.6, 0.5]), np.array([1, 0, 1, 0, 1], bool)
    assert calibrate.precision_at_recall(scores, visual, 0.3) == 1.0
    assert calibrate.precision_at_recall(scores, visual, 0.6) == pytest.approx(2 / 3)
    assert calibrate.precision_at_recall(scores, visual, 1.0) == pytest.approx(3 / 5)


@pytest.fixture(scope="module")
def bundled():
    torch.set_num_threads(1)
    return load_pair("shapes-qwen")


def test_the_bundled_pairs_calibration_is_what_calibrating_finds(bundled):
    calibration, rows = calibrate.calibrate(bundled, clips=30)
    assert calibration.layer % len(bundled.draft.layers) == bundled.calibration.layer % len(bundled.draft.layers)
    assert calibration.threshold == pytest.approx(bundled.calibration.threshold, rel=0.25)
    assert max(row["auc"] for row in rows) > 0.9


def test_where_no_scorer_separates_nothing_is_written_and_it_is_said(bundled, monkeypatch, tmp_path, capsys):
    rng = np.random.default_rng(0)
    monkeypatch.setattr(calibrate, "collect", lambda *_, **__: (rng.random(500), rng.random(500) < 0.2))
    monkeypatch.setattr(Calibration, "save", lambda *_: pytest.fail("nothing may be written"))
    assert calibrate.calibrate(bundled, clips=1)[0] is None
    with pytest.raises(calibrate.PairError, match="LVSpec verifies strictly"):
        calibrate.main(["--clips", "1"])
    assert "draft_attention" in capsys.readouterr().out


def test_the_shipped_calibration_says_how_it_was_measured(bundled):
    content = json.loads(bundled.info.calibration.read_text(encoding="utf-8"))
    measured = {row["layer"]: row for row in content["measured"]["layers"]}
    assert measured[content["relevance"]["layer"]]["auc"] == max(row["auc"] for row in measured.values())
