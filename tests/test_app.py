"""The page's wiring, without a browser: what it starts, stops and refuses."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from types import SimpleNamespace

import gradio as gr
import pytest
from fake_race import recorded

import app
import races
from lvspec_core.errors import PairError, SettingsError, WorkerError
from lvspec_core.records import End
from lvspec_core.settings import METHODS, RANGES, RaceSettings

KNOBS = [getattr(races.DEFAULTS, name) for name in races.KNOBS]
INPUTS = ("clip.mp4", "shapes-qwen", "What happens?", list(METHODS), True, 0.5, *KNOBS)


class StandIn:
    """A worker whose race is a list of batches; it remembers whether it was closed."""

    def __init__(self, batches, error: Exception | None = None) -> None:
        self.batches, self.error = batches, error
        self.closed = self.raced = False
        self.settings: RaceSettings | None = None

    def race(self, path, settings, stop: threading.Event, pair=None):
        self.settings, self.raced = settings, True
        try:
            for batch in self.batches:
                if stop.is_set():
                    yield [End("stopped", 1.0)]
                    return
                yield batch
            if self.error:
                raise self.error
        finally:
            self.closed = True


@pytest.fixture
def worker(monkeypatch):
    def install(batches, error=None):
        standin = StandIn(batches, error)
        monkeypatch.setattr(races, "get_worker", lambda: standin)
        return standin

    return install


@pytest.fixture
def visitor():
    return SimpleNamespace(session_hash="visitor")


def states(values) -> list[str]:
    return [json.loads(board[0])["state"] for board, _ in values if isinstance(board, list)]


def test_the_page_loads_no_model_library():
    code = "import sys, app; print([name for name in ('torch', 'transformers', 'decord', 'plotly') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_a_race_goes_from_waiting_to_its_end_and_offers_its_file(worker, visitor):
    records = recorded()
    standin = worker([records[:20], records[20:]])
    values = list(races.race_on_page(visitor, *INPUTS))
    assert states(values) == ["waiting", "running", "running", "finished"]
    assert values[-1][1].value["path"].endswith("race-clip.jsonl")
    assert standin.settings == RaceSettings(question="What happens?", details=True)
    assert races.STOPS == {}
    assert races.TURNS.tickets == []


def test_stop_ends_the_race_and_keeps_it(worker, visitor):
    records = recorded()
    worker([[record] for record in records])
    race = races.race_on_page(visitor, *INPUTS)
    values = [next(race) for _ in range(4)]
    races.stop_race(SimpleNamespace(session_hash="somebody else"))
    values.append(next(race))
    assert states(values)[-1] == "running"
    races.stop_race(visitor)
    values += list(race)
    assert states(values)[-1] == "stopped"
    assert len(values) < 10


def test_a_closed_tab_closes_the_race(worker, visitor):
    records = recorded()
    standin = worker([[record] for record in records])
    race = races.race_on_page(visitor, *INPUTS)
    next(race)
    next(race)
    race.close()
    assert standin.closed
    assert races.TURNS.tickets == []
    assert races.STOPS == {}


def test_races_take_turns(worker, visitor):
    records = recorded()
    worker([[record] for record in records])
    first = races.race_on_page(visitor, *INPUTS)
    next(first)
    second = races.race_on_page(SimpleNamespace(session_hash="second"), *INPUTS)
    assert json.loads(next(second)[0][0])["place"] == 1
    first.close()
    assert states(list(second))[-1] == "finished"


@pytest.mark.parametrize("error", [WorkerError("The race was lost; the next one works."), ValueError("secret")])
def test_an_error_is_one_sentence_on_the_board(worker, visitor, error):
    worker([recorded()[:10]], error)
    board, download = list(races.race_on_page(visitor, *INPUTS))[-1]
    told = json.loads(board[0])
    assert told["state"] == "failed"
    assert "secret" not in told["message"]
    assert told["message"].endswith(".")
    assert download.value["path"].endswith(".jsonl"), "what was written can be saved"


def test_without_a_video_no_race_begins(worker, visitor):
    standin = worker([])
    assert states(races.race_on_page(visitor, None, *INPUTS[1:])) == ["failed"]
    assert not standin.raced


def test_the_page_offers_every_setting_with_its_default():
    assert set(races.KNOBS) | {"anchor_quantile"} == set(RANGES) | {"proposal", "adaptive", "temperature", "top_p"}
    assert list(app.CONTROLS) == list(races.KNOBS)
    assert races.settings_of(*INPUTS[1:]) == RaceSettings(question="What happens?", details=True)
    assert races.settings_of(*INPUTS[1:4], False, 0.7, *KNOBS).anchor_quantile == 0.7
    with pytest.raises(SettingsError, match="Choose at least one method"):
        races.settings_of("shapes-qwen", "What?", [], True, 0.5, *KNOBS)
    with pytest.raises(PairError, match="Unknown pair"):
        races.settings_of("nope", *INPUTS[2:])


def test_the_endpoints_answer_with_records_and_summary(worker):
    records = recorded()
    standin = worker([records])
    *waiting, answer = races.api_race("clip.mp4", "Why?", ["ar"], {"draft_length": 4})
    assert waiting == [gr.skip()]
    assert answer["records"][0]["type"] == "start"
    assert set(answer["summary"]["lanes"]) == set(METHODS)
    assert standin.settings == RaceSettings(question="Why?", methods=("ar",), draft_length=4)
    json.dumps(answer)


@pytest.mark.parametrize("settings", [{"draft_length": 0}, {"pair": "nope"}, {"speed": 9}, "x", 5, ["frames"]])
def test_the_endpoints_refuse_with_a_sentence(worker, settings):
    standin = worker([])
    with pytest.raises(gr.Error):
        list(races.api_race("clip.mp4", settings=settings))
    assert not standin.raced


def test_a_gpu_is_asked_for_as_long_as_the_settings_need():
    small = races.gpu_seconds("clip.mp4", RaceSettings(frames=4, methods=("ar",), max_new_tokens=16))
    large = races.gpu_seconds("clip.mp4", RaceSettings(frames=128, max_new_tokens=1024))
    assert 10 < small < races.gpu_seconds("clip.mp4", RaceSettings()) < large <= 300


@pytest.mark.slow
def test_on_zero_gpu_the_race_runs_where_it_was_asked_for(monkeypatch, random_pair):
    import lvspec_core.pairs

    monkeypatch.setattr(races, "ZERO_GPU", True)
    monkeypatch.setattr(lvspec_core.pairs, "load_pair", lambda name, settings: random_pair)
    sample = str(app.SAMPLES[0].path)
    settings = RaceSettings(frames=2, max_new_tokens=6, methods=("ar", "lvspec")).validated()
    records = [record for batch in races.race_stream(sample, settings, threading.Event()) for record in batch]
    assert isinstance(records[-1], End)
    stop = threading.Event()
    stream = races.race_stream(sample, settings, stop)
    next(stream)
    stop.set()
    assert list(stream) == []
