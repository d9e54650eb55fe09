"""The command line: what it prints, what it saves, what it refuses, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import fake_race
import pytest

import lvspec_core.__main__ as cli
from lvspec_core.race_files import load_race, save_race
from lvspec_core.records import End, LaneEnd, race_summary
from lvspec_core.settings import FURTHER_RANGES, METHODS, PROPOSALS, RANGES, RaceSettings
from lvspec_core.worker import RaceWorker

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def worker():
    worker = RaceWorker(runner="fake_race:run", reader=fake_race.read)
    yield worker
    worker.close()


@pytest.fixture
def run(worker, monkeypatch, capsys):
    """Runs the command line in this process against a fake race; returns (status, stdout, stderr)."""
    monkeypatch.setattr(cli, "get_worker", lambda: worker)

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            status = cli.main(list(arguments))
        except SystemExit as end:
            status = end.code
        streams = capsys.readouterr()
        return status, streams.out, streams.err

    return run


def race(*arguments: str) -> tuple[str, ...]:
    return ("race", "clip.mp4", "--question", "fast", "--max-new-tokens", "40", *arguments)


def test_json_is_exactly_one_object(run):
    status, out, err = run(*race("--json"))
    assert status == 0
    summary = json.loads(out)
    assert out.count("\n") == 1
    expected = race_summary(fake_race.recorded())
    assert summary == json.loads(json.dumps(expected))
    assert "prefill 2/2" in err


def test_a_pipe_gets_plain_text(run):
    status, out, _ = run(*race())
    assert status == 0
    assert "\x1b" not in out
    assert out.startswith("AR: The clip shows two small red circles")
    assert re.search(r"^LVSpec +40 +7 .*identical$", out, re.MULTILINE)


def test_the_settings_reach_the_race(run):
    numbers = {
        "frames": 5, "pruning_ratio": 0.25, "draft_length": 3, "max_new_tokens": 7, "seed": 9, "anchor_quantile": 0.5,
        "plausibility": 0.2, "top_k": 4, "window": 2, "entropy_gate": 0.3, "shift": 1,
        "tree_nodes": 9, "tree_depth": 2, "tree_width": 3, "adaptive": 0.4, "temperature": 0.7, "top_p": 0.9,
    }  # fmt: skip
    assert set(numbers) == set(RANGES | FURTHER_RANGES)
    arguments = [word for name, value in numbers.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    told = ["--pair", "qwen2.5-vl-7b", "--question", "fast ?", "--methods", "lvspec, ar", "--proposal", "static_tree", "--details"]
    status, out, _ = run("race", "clip.mp4", *told, *arguments, "--json")
    assert status == 0
    summary = json.loads(out)
    assert summary["pair"] == "qwen2.5-vl-7b"
    words = {"pair": "qwen2.5-vl-7b", "question": "fast ?", "methods": ["ar", "lvspec"], "proposal": "static_tree", "details": True}
    assert summary["settings"] == {**words, **numbers}
    assert list(summary["lanes"]) == ["ar", "lvspec"]


def test_without_options_the_defaults_hold(run):
    _, out, _ = run("race", "clip.mp4", "--json")
    assert json.loads(out)["settings"] == RaceSettings().to_dict()


def test_a_race_is_saved(run, tmp_path):
    path = tmp_path / "my race.jsonl"
    status, out, _ = run(*race("--save", str(path), "--json"))
    assert status == 0
    assert load_race(path) == fake_race.recorded()
    status, again, _ = run("replay", str(path), "--json")
    assert (status, again) == (0, out)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("race", "broken.mp4"), "broken.mp4 is not a video."),
        (("race", ""), "Choose a video first."),
        (race("--methods", "ar,warp"), "Unknown method 'warp'"),
        (race("--methods", ""), "Choose at least one method."),
        (race("--frames", "0"), "choose a number between 1 and 128"),
        (race("--frames", "many"), "invalid int value"),
        (race("--pruning-ratio", "nan"), "must be a number"),
        (race("--question", " "), "Type a question"),
        (race("--question", "refuse"), "The pair cannot be loaded"),
        (race("--save", "/nowhere/at/all.jsonl"), "there is no folder"),
        (race("--fra", "3"), "unrecognized arguments"),
        (("race",), "CLIP"),
        ((), "COMMAND"),
        (("dance",), "invalid choice"),
        (("replay", "nothing.jsonl"), "There is no race file nothing.jsonl."),
        (("replay", "nothing.jsonl", "--speed", "0"), "The speed is 0"),
        (("race", "broken \x1b[31m.mp4"), "broken [31m.mp4"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(run, arguments, expected):
    status, out, err = run(*arguments)
    assert status == 2
    assert out == ""
    assert expected in err
    assert len(err.splitlines()) == 1
    assert "\x1b" not in err


def test_a_lost_race_is_a_sentence_and_what_there_was_is_saved(run, tmp_path):
    status, _, err = run(*race("--question", "kill", "--save", str(tmp_path / "race.jsonl")))
    assert status == 2
    assert "The race process ended unexpectedly" in err.splitlines()[-1]
    assert len(load_race(tmp_path / "race.jsonl")) == 3


def test_a_failed_lane_is_told_and_exit_1(run, monkeypatch):
    records = fake_race.recorded()
    index = next(number for number, record in enumerate(records) if isinstance(record, LaneEnd) and record.lane == "lvspec")
    records[index] = LaneEnd(**{**vars(records[index]), "finish": "failed", "error": "Out of memory."})

    class Failing:
        def race(self, path, settings, stop, pair=None):
            yield records

    monkeypatch.setattr(cli, "get_worker", Failing)
    status, out, err = run(*race("--json"))
    assert status == 1
    assert "lvspec" in json.loads(out)["lanes"]
    assert "LVSpec failed: Out of memory." in err


def test_ctrl_c_stops_cleanly_and_keeps_what_there_is(run, tmp_path, monkeypatch):
    def keep_and_interrupt(batches, records, keep=cli.keep):
        for number, batch in enumerate(keep(batches, records)):
            yield batch
            if number == 4:
                os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(cli, "keep", keep_and_interrupt)
    before = signal.getsignal(signal.SIGINT)
    status, out, err = run("race", "clip.mp4", "--question", "endless", "--save", str(tmp_path / "race.jsonl"), "--json")
    assert status == 130
    assert err.splitlines()[-1] == "Stopped."
    records = load_race(tmp_path / "race.jsonl")
    assert records[-1] == End("stopped", 1.0)
    assert json.loads(out) == json.loads(json.dumps(race_summary(records)))
    assert all(lane["tokens"] > 0 for lane in json.loads(out)["lanes"].values())
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_before_the_race_ends_at_once(run):
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    status, out, err = run("race", "long.mp4")
    assert (status, out) == (130, "")
    assert err.splitlines() == ["Stopped."]


def test_tools_are_loaded_only_when_asked_for(run, monkeypatch, tmp_path):
    (tmp_path / "fake_tool.py").write_text("def main(argv):\n    print('tool', argv)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(cli.TOOLS, "tool", ("fake_tool", "a tool"))
    monkeypatch.setitem(cli.TOOLS, "ghost", ("no_such_package.ghost", "not there"))
    assert run("tool", "--fast") == (0, "tool ['--fast']\n", "")
    assert run("ghost")[0] == 2
    _, out, _ = run("--help")
    assert "a tool" in out
    assert "ghost" not in out
    assert "fake_tool" not in run("race", "--help")[1]


def test_help_explains_every_setting(run):
    status, out, _ = run("race", "--help")
    assert status == 0
    text = " ".join(out.split())
    for name in RANGES | FURTHER_RANGES:
        assert f"--{name.replace('_', '-')}" in text
    assert f"one of {', '.join(PROPOSALS)} (default: chain)" in text
    assert "default: ar,naive_sd,specvlm,lvspec" in text
    assert set(METHODS) == {"ar", "naive_sd", "specvlm", "lvspec"}


def test_a_replay_into_a_pipe_does_not_wait(run, tmp_path):
    path = save_race(fake_race.recorded(), tmp_path / "race.jsonl")
    started = time.monotonic()
    status, out, _ = run("replay", str(path), "--speed", "0.001")
    assert status == 0
    assert time.monotonic() - started < 2
    assert out.startswith("AR: The clip")


@pytest.mark.clock
def test_a_replay_keeps_the_ratios_of_time():
    records = fake_race.recorded()

    def seconds(speed: float) -> float:
        started = time.monotonic()
        batches = list(cli.paced(records, speed))
        assert sorted(map(repr, (record for batch in batches for record in batch))) == sorted(map(repr, records))
        return time.monotonic() - started

    # AR, the slowest lane, takes 0.06 s of prefill and 40 rounds of 0.01 s
    assert seconds(1.0) == pytest.approx(0.46, abs=0.15)
    assert seconds(0.5) == pytest.approx(0.92, abs=0.2)


def in_a_terminal(script: str) -> tuple[int, str]:
    """Runs a Python script with a pseudo-terminal for its standard streams; returns (exit status, all it printed)."""
    parent, child = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40", "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdin=child, stdout=child, stderr=child, env=environment
    ) as process:
        os.close(child)
        output = b""
        while True:
            try:
                piece = os.read(parent, 65536)
            except OSError:
                break
            if not piece:
                break
            output += piece
        status = process.wait()
    os.close(parent)
    return status, output.decode("utf-8", "replace")


def test_a_terminal_gets_the_live_view(tmp_path):
    path = save_race(fake_race.recorded(), tmp_path / "race.jsonl")
    status, out = in_a_terminal(
        f"import sys; from lvspec_core.__main__ import main; sys.exit(main(['replay', {str(path)!r}, '--speed', '2']))"
    )
    assert status == 0
    assert "\x1b[" in out
    # drawn several times on the way, and whole at the end
    assert out.count("LVSpec") > 4
    assert "decode" in out
    assert "identical" in out


def test_the_module_runs():
    done = subprocess.run([sys.executable, "-m", "lvspec_core", "race", "no such file.mp4"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "no such file.mp4" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_reader_that_leaves_is_no_traceback(tmp_path):
    path = save_race(fake_race.recorded(), tmp_path / "race.jsonl")
    command = f"{sys.executable} -m lvspec_core replay '{path}' --json | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert done.stdout.strip() in ("0", "1")
