"""A pair that was never calibrated is calibrated on the clip of its first race, and says so while it happens."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from lvspec_core import own_texts
from lvspec_core.errors import PairError
from lvspec_core.pair_file import MOST_TRIES
from lvspec_core.pairs import PairInfo, load_pair
from lvspec_core.race import prepare_and_race
from lvspec_core.records import End, Preparing, Start, of_the_race
from lvspec_core.relevance import Calibration
from lvspec_core.settings import RaceSettings
from lvspec_core.shapes.clips import world_clip
from lvspec_core.terminal import follow
from lvspec_core.view import Feed

SETTINGS = RaceSettings(max_new_tokens=8, draft_length=3)
FOUND = Calibration("draft_attention", 0, 0.5, tuple(index / 100 for index in range(101)))


@pytest.fixture
def uncalibrated(random_pair, tmp_path):
    """The random pair as one whose folder holds no calibration."""
    return replace(random_pair, info=replace(random_pair.info, folder=str(tmp_path)), calibration=None)


@pytest.fixture
def quick(monkeypatch):
    """Two questions and short texts."""
    monkeypatch.setattr(own_texts, "QUESTIONS", own_texts.QUESTIONS[:2])
    monkeypatch.setattr(own_texts, "WORDS", 8)


def test_the_first_race_calibrates_and_keeps_what_it_found(uncalibrated, make_clip, quick, monkeypatch):
    monkeypatch.setattr(own_texts, "fit", lambda sample: (FOUND, [{"scorer": "draft_attention", "auc": 0.9}]))
    made = list(prepare_and_race(uncalibrated, make_clip(), SETTINGS))
    steps = [record for record in made if isinstance(record, Preparing)]
    assert [step.done for step in steps] == [0, 1, 2]
    assert made[: len(steps)] == steps, "all of it happens before the race"
    start = made[len(steps)]
    assert isinstance(start, Start)
    assert start.pair["relevance"]["scorer"] == "draft_attention"
    assert start.pair["strict_notice"] == ""
    assert Calibration.read(uncalibrated.info.calibration) == FOUND
    assert json.loads(uncalibrated.info.calibration.read_text(encoding="utf-8"))["measured"]["texts"] == 2
    again = list(prepare_and_race(uncalibrated, make_clip(), SETTINGS))
    assert isinstance(again[0], Start), "only once"


def test_what_another_process_found_is_taken_up(uncalibrated, make_clip):
    FOUND.save(uncalibrated.info.calibration)
    assert isinstance(next(prepare_and_race(uncalibrated, make_clip(), SETTINGS)), Start)
    assert uncalibrated.calibration == FOUND


def test_where_nothing_separates_lvspec_is_strict_says_so_and_does_not_try_again(uncalibrated, make_clip, quick):
    """Random weights: whatever the scorers say, it must not become a calibration."""
    made = list(prepare_and_race(uncalibrated, make_clip(), SETTINGS))
    (start,) = [record for record in made if isinstance(record, Start)]
    assert start.pair["relevance"] is None
    assert "tells this pair’s anchors from its fillers" in start.pair["strict_notice"]
    assert isinstance(made[-1], End)
    assert isinstance(next(prepare_and_race(uncalibrated, make_clip(), SETTINGS)), Start)


def test_other_processes_try_a_few_times_more_and_then_no_longer(uncalibrated, make_clip, quick):
    """As on ZeroGPU, where every race has a process of its own, and its time is a visitor's."""
    for _ in range(MOST_TRIES):
        uncalibrated.calibration_failed = False
        race = list(prepare_and_race(uncalibrated, make_clip(), SETTINGS))
        assert isinstance(race[0], Preparing)
    uncalibrated.calibration_failed = False
    start = next(prepare_and_race(uncalibrated, make_clip(), SETTINGS))
    assert "tells this pair’s anchors from its fillers" in start.pair["strict_notice"]
    FOUND.save(uncalibrated.info.calibration)
    uncalibrated.calibration_failed = False
    assert next(prepare_and_race(uncalibrated, make_clip(), SETTINGS)).pair["relevance"] is not None


def test_a_failure_on_the_way_costs_the_calibration_not_the_race(uncalibrated, make_clip, quick, monkeypatch):
    monkeypatch.setattr(own_texts, "contrast", lambda reading: 1 / 0)
    made = of_the_race(prepare_and_race(uncalibrated, make_clip(), SETTINGS))
    assert made[-1].finish == "finished"
    assert uncalibrated.calibration is None


def test_a_folder_that_cannot_be_written_costs_only_the_keeping(uncalibrated, make_clip, quick, monkeypatch):
    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(own_texts, "fit", lambda sample: (FOUND, []))
    monkeypatch.setattr(Calibration, "save", full)
    made = of_the_race(prepare_and_race(uncalibrated, make_clip(), SETTINGS))
    assert made[0].pair["relevance"] is not None


def test_stop_ends_the_calibration_too(uncalibrated, make_clip, quick):
    stopped = iter([False, True])
    made = list(prepare_and_race(uncalibrated, make_clip(), SETTINGS, lambda: next(stopped, True)))
    assert [record.done for record in made if isinstance(record, Preparing)] == [0, 1]
    assert made[-1].finish == "stopped"
    assert not uncalibrated.calibration_failed


def test_a_race_without_lvspec_needs_no_calibration(uncalibrated, make_clip):
    assert isinstance(next(prepare_and_race(uncalibrated, make_clip(), replace(SETTINGS, methods=("ar", "specvlm")))), Start)


def test_a_video_beside_which_no_texts_fit_is_left_to_the_race_to_refuse(uncalibrated, make_clip, monkeypatch):
    monkeypatch.setattr(own_texts, "WORDS", 10**6)
    assert of_the_race(prepare_and_race(uncalibrated, make_clip(), SETTINGS))[-1].finish == "finished"
    assert not uncalibrated.calibration_failed


def test_a_calibration_of_another_draft_is_refused(random_pair_folder, tmp_path):
    (tmp_path / "pair.json").write_text("{}", encoding="utf-8")
    Calibration("draft_probe", None, 0.5, FOUND.quantiles, weights=(1.0, 2.0)).save(tmp_path / "pair.json")
    roles = {role: str(random_pair_folder / role) for role in ("target", "draft")}
    with pytest.raises(PairError, match="made for another draft"):
        load_pair(PairInfo("odd", "Odd", "qwen2_5_vl", **roles, folder=str(tmp_path)))


def test_the_page_and_the_terminal_tell_it_and_no_race_holds_it(random_pair, make_clip):
    step = Preparing("Finding out", 1, 4)
    feed = Feed()
    shown = json.loads(feed.running([step])[0])
    assert (shown["state"], shown["message"], shown["records"]) == ("waiting", "Finding out: 1 of 4 …", [])
    start = Start(random_pair.describe(), {"name": "clip"}, SETTINGS.to_dict(), {})
    assert json.loads(feed.running([step, start])[0])["state"] == "running"
    assert feed.records == [start]
    told = Console(file=io.StringIO(), width=200)
    follow([[step]], told)
    assert "Finding out: 1 of 4" in told.file.getvalue()


@pytest.mark.slow
def test_one_clip_is_enough_to_find_the_bundled_pairs_anchors(tmp_path, monkeypatch):
    """The bundled pair treated as a stranger: what it finds by itself agrees with its world's truth."""
    from lvspec_core.calibrate import collect
    from lvspec_core.relevance.measures import auc
    from lvspec_core.shapes.data import HELD_OUT_SEED

    torch.set_num_threads(1)
    bundled = load_pair("shapes-qwen")
    pair = replace(bundled, info=replace(bundled.info, folder=str(tmp_path)), calibration=None)
    clip = world_clip(5)[1]
    assert list(own_texts.calibrate_first(pair, clip, RaceSettings()))
    assert pair.calibration is not None
    scores, visual = collect(bundled, pair.calibration, 10, RaceSettings.pruning_ratio, seed=HELD_OUT_SEED)
    assert auc(scores, visual) > 0.85
