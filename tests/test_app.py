"""The page's wiring, without a browser: what it starts, stops and refuses."""

from __future__ import annotations

import json
import os
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


def test_who_waits_may_open_a_recorded_race_and_who_races_may_not(worker, visitor, monkeypatch):
    """Recorded races need no place in the queue."""
    monkeypatch.setattr(gr, "Info", lambda sentence: None)
    records = recorded()
    worker([[record] for record in records])
    waiting = SimpleNamespace(session_hash="second")
    first, second = (races.race_on_page(who, *INPUTS) for who in (visitor, waiting))
    next(first)
    next(first)
    next(second)
    saved = str(app.EXAMPLES[0].path)
    value = json.loads(races.open_race(saved, waiting)[0])
    assert value["recorded"]
    assert value["state"] == "finished"
    assert races.open_race(saved, visitor) == gr.skip()
    first.close()
    next(second)
    next(second)
    assert races.open_race(saved, waiting) == gr.skip(), "its turn has come"
    second.close()
    assert json.loads(races.open_race(saved, waiting)[0])["recorded"]
    assert set() == races.RACING


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


def test_the_page_offers_the_pairs_it_is_told_to_and_no_other(tmp_path):
    """In a process of its own, as the page is built once."""
    code = (
        "import app, races; from lvspec_core.errors import PairError\n"
        "pair = next(each for each in app.demo.blocks.values() if getattr(each, 'label', '') == 'Models: target and draft')\n"
        "print(pair.choices, pair.value, races.DEFAULTS.pair)\n"
        "try: races.settings_of('qwen2.5-vl-32b', 'What?', ['ar'], True, 0.5, *[getattr(races.DEFAULTS, each) for each in races.KNOBS])\n"
        "except PairError as error: print(error)"
    )
    environment = {**os.environ, "LVSPEC_PAIR": "qwen2.5-vl-7b", "LVSPEC_PAIRS": "shapes-qwen"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "[('Qwen2.5-VL 7B with 3B', 'qwen2.5-vl-7b'), ('Shapes · Qwen2.5-VL (bundled)', 'shapes-qwen')] qwen2.5-vl-7b qwen2.5-vl-7b",
        "Unknown pair 'qwen2.5-vl-32b'; choose among qwen2.5-vl-7b, shapes-qwen.",
    ]


def test_a_pair_that_is_not_known_ends_the_page_with_a_sentence():
    environment = {**os.environ, "LVSPEC_PAIR": "nope"}
    done = subprocess.run([sys.executable, "-c", "import app"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: Unknown pair 'nope'; choose among ")
    assert done.stderr.count("\n") == 1
