"""Real races, with models of random weights, through the worker: the same tokens, and nothing left behind."""

from __future__ import annotations

import shutil
from dataclasses import replace

import psutil
import pytest

from lvspec_core.errors import PairError
from lvspec_core.own_pairs import own_pair
from lvspec_core.race_files import load_race, save_race
from lvspec_core.records import End, LaneEnd, Round, Start
from lvspec_core.settings import METHODS, RaceSettings
from lvspec_core.worker import RaceWorker

SETTINGS = RaceSettings(pair="random", frames=4, max_new_tokens=48)


@pytest.fixture(scope="module")
def worker(random_pair_folder, make_clip):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANDOM_PAIR", str(random_pair_folder))
        worker = RaceWorker(runner="random_race:run", reader=lambda path, frames: make_clip(frames))
        worker.warm("random")
        yield worker
        worker.close()


def ids(records) -> dict[str, tuple[int, ...]]:
    return {record.lane: record.token_ids for record in records if isinstance(record, LaneEnd)}


def test_a_race_through_the_worker_is_the_race_itself(worker, random_pair, make_clip, tmp_path):
    from lvspec_core.race import run_race

    records = [record for batch in worker.race("clip.mp4", SETTINGS) for record in batch]
    assert isinstance(records[0], Start)
    assert isinstance(records[-1], End)
    assert records[0].environment["threads"] == 1
    assert ids(records) == ids(run_race(random_pair, make_clip(4), SETTINGS))
    assert set(ids(records)) == set(METHODS)
    assert load_race(save_race(records, tmp_path / "race.jsonl")) == records


def test_a_pair_of_ones_own_crosses_the_border_as_data(worker, random_pair, random_pair_folder, make_clip, tmp_path, monkeypatch):
    """And its calibration is found where the parent says: the race process knows nothing of LVSPEC_PAIRS_FOLDER as it is set here."""
    from lvspec_core.race import run_race

    monkeypatch.setenv("LVSPEC_PAIRS_FOLDER", str(tmp_path))
    own = own_pair(str(random_pair_folder / "target"), str(random_pair_folder / "draft"))
    own.calibration.parent.mkdir(parents=True)
    shutil.copy(random_pair_folder / "pair.json", own.calibration)
    settings = replace(SETTINGS, pair=own.name)
    records = [record for batch in worker.race("clip.mp4", settings, pair=own) for record in batch]
    assert ids(records) == ids(run_race(random_pair, make_clip(4), settings))
    assert records[0].pair["name"] == own.name
    assert records[0].pair["family"] == random_pair.info.family
    assert records[0].pair["relevance"] is not None
    with pytest.raises(PairError, match=f"Unknown pair '{own.name}'"):
        next(worker.race("clip.mp4", settings))


def test_closing_after_the_first_words_leaves_nothing_behind(worker):
    endless = RaceSettings(pair="random", frames=4, max_new_tokens=1024)

    def once():
        generator = worker.race("clip.mp4", endless)
        while not any(isinstance(record, Round) for record in next(generator)):
            pass
        generator.close()

    for _ in range(5):
        once()
    child = psutil.Process(worker.pid)
    before = child.memory_info().rss
    for _ in range(20):
        once()
    # the child answers this only when the last of them is over
    assert [record for batch in worker.race("clip.mp4", SETTINGS) for record in batch][-1].finish == "finished"
    assert child.memory_info().rss - before < 24 * 2**20


def test_an_unknown_pair_is_a_sentence(worker):
    with pytest.raises(PairError, match="Unknown pair 'warp'"):
        next(worker.race("clip.mp4", RaceSettings(pair="warp")))
