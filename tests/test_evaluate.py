"""An evaluation: the page's and the bench's own figures, whole records whatever ends it, and nothing done twice."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import tracemalloc
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import fake_race
import psutil
import pytest
from video_clips import write

import lvspec_core.__main__ as cli
from lvspec_core import bench
from lvspec_core.errors import DataError
from lvspec_core.evaluation import command, plan, racing
from lvspec_core.evaluation.journal import METRICS, RESULTS, RUN, Journal, finished, merge, read_results
from lvspec_core.evaluation.results import method_metrics, sample_result
from lvspec_core.evaluation.samples import Sample
from lvspec_core.fidelity import Fidelity
from lvspec_core.race_files import load_race
from lvspec_core.records import LaneEnd
from lvspec_core.registry import PAIRS
from lvspec_core.settings import METHODS, RaceSettings
from lvspec_core.video import read_video
from lvspec_core.worker import RaceWorker

ROOT = Path(__file__).resolve().parents[1]
SPECVLM = ("sample_index", "method", "decoding_time", "generate_len", "average_accept_length", "output")
SPECVLM_METRICS = ("method", "avg_generate_len", "avg_decoding_time", "avg_tokens_per_second", "avg_accept_length")
BRIEF = ("--max-new-tokens", "4", "--frames", "2", "--draft-length", "3")


@pytest.fixture
def evaluate(random_pair, monkeypatch, tmp_path):
    """Runs the command on the random pair in this process; returns (exit status, the records it left)."""
    monkeypatch.setitem(PAIRS, random_pair.info.name, random_pair.info)

    def evaluate(data: str, *options: str, folder: str = "run") -> tuple[int, list[dict]]:
        where = tmp_path / folder
        status = cli.main(["evaluate", "--pair", "random", "--data", data, "--save-path", str(where), *BRIEF, *options])
        return status, read_results(where / RESULTS) if (where / RESULTS).exists() else []

    return evaluate


def test_every_sample_and_method_has_a_record_with_specvlms_fields_and_ours(evaluate, tmp_path, capsys):
    status, results = evaluate("shapes:2", "--methods", "ar,specvlm,lvspec")
    assert status == 0
    assert [(result["sample_index"], result["method"]) for result in results] == [
        (sample, method) for sample in (0, 1) for method in ("ar", "specvlm", "lvspec")
    ]
    for result in results:
        assert tuple(result)[: len(SPECVLM)] == SPECVLM
        assert result["generate_len"] == len(result["token_ids"]) == sum(result["verdicts"].values())
        assert result["facts"]["total"] >= 7
        assert result["settings"]["frames"] == 2
        assert {"lvspec", "torch", "device"} <= set(result["environment"])
        assert (result["fidelity"] is None) == (result["method"] == "ar")
    strict = results[1]
    assert strict["same_as_ar"] is True
    assert strict["fidelity"]["edit_distance"] == 0
    metrics = [json.loads(line) for line in (tmp_path / "run" / METRICS).read_text().splitlines()]
    assert [row["method"] for row in metrics] == ["ar", "specvlm", "lvspec"]
    assert tuple(metrics[0])[: len(SPECVLM_METRICS)] == SPECVLM_METRICS
    out = capsys.readouterr().out
    assert out.splitlines()[0].startswith("method")
    assert "SpecVLM" in out


def test_one_bad_video_is_a_record_and_the_run_goes_on(evaluate, tmp_path, capsys):
    clips = tmp_path / "clips"
    clips.mkdir()
    write(clips / "a.mp4", 10), (clips / "b.mp4").write_bytes(b"no video"), write(clips / "c.mp4", 10)
    status, results = evaluate(str(clips), "--methods", "ar,lvspec")
    assert status == 0
    assert [bool(result["error"]) for result in results] == [False, False, True, True, False, False]
    bad = results[2]
    assert "b.mp4" in bad["error"]
    assert (bad["output"], bad["generate_len"], bad["video"]["name"]) == (None, None, "b.mp4")
    assert set(bad) == set(results[0])
    assert "1 of 3 samples failed" in capsys.readouterr().err


def test_nothing_but_failures_is_exit_1(evaluate, tmp_path):
    (tmp_path / "clips").mkdir()
    (tmp_path / "clips" / "b.mp4").write_bytes(b"no video")
    assert evaluate(str(tmp_path / "clips"))[0] == 1


def test_a_bug_in_one_sample_does_not_end_the_run(evaluate, monkeypatch):
    real = racing.run_race

    def broken(pair, clip, settings, *more):
        if clip.name == "shapes-1":
            raise RuntimeError("secret detail")
        return real(pair, clip, settings, *more)

    monkeypatch.setattr(racing, "run_race", broken)
    _, results = evaluate("shapes:3", "--methods", "ar")
    assert [bool(result["error"]) for result in results] == [False, True, False]
    assert "secret" not in results[1]["error"]


def test_a_question_of_ones_own_is_asked_and_no_facts_are_claimed_for_it(evaluate):
    _, (result,) = evaluate("shapes:1", "--methods", "ar", "--question", "What happens?")
    assert result["question"] == "What happens?"
    assert result["facts"] is None


def test_races_are_kept_for_the_inspector(evaluate, tmp_path):
    _, results = evaluate("shapes:1", "--methods", "ar,lvspec", "--keep-races", "--details")
    ends = [record for record in load_race(tmp_path / "run" / results[0]["race"]) if isinstance(record, LaneEnd)]
    assert [list(end.token_ids) for end in ends] == [result["token_ids"] for result in results]


def test_it_goes_on_where_it_stopped(evaluate, monkeypatch, tmp_path):
    """Ctrl-C in the second sample: the first is kept as it is, and the rest is done once, a larger --num too."""
    raced = []
    real = command.Evaluator.results

    def stopping(self, sample):
        raced.append(sample.index)
        if len(raced) == 2:
            raise KeyboardInterrupt
        return real(self, sample)

    monkeypatch.setattr(command.Evaluator, "results", stopping)
    status, first = evaluate("shapes:4", "--num", "3", "--methods", "ar,lvspec")
    assert status == 130
    assert {result["sample_index"] for result in first} == {0}
    status, results = evaluate("shapes:4", "--num", "4", "--methods", "ar,lvspec", "--resume")
    assert status == 0
    assert raced == [0, 1, 1, 2, 3]
    assert results[:2] == first
    assert [result["sample_index"] for result in results] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_other_results_are_never_mixed_in(evaluate, tmp_path, capsys):
    evaluate("shapes:2", "--methods", "ar")
    before = (tmp_path / "run" / RESULTS).read_bytes()
    capsys.readouterr()
    for options, sentence in (
        ((), "already holds results; go on with them by --resume"),
        (("--resume", "--frames", "4"), "begun with frames 2, not 4"),
        (("--resume", "--methods", "ar,lvspec"), "begun with methods ar, not ar, lvspec"),
        (("--resume", "--question", "What?"), "content of the data set"),
        (("--resume", "--num", "1"), "2 samples, not 1"),
    ):
        assert evaluate("shapes:2", *("--methods", "ar"), *options)[0] == 2
        error = capsys.readouterr().err
        assert sentence in error
        assert len(error.splitlines()) == 1
    assert (tmp_path / "run" / RESULTS).read_bytes() == before


@pytest.mark.parametrize("name", [*plan.PAIR, *plan.MACHINE])
def test_going_on_with_another_pair_or_machine_is_refused_by_name(name):
    def made(value):
        return {
            "task": "shapes", "fingerprint": "f", "shuffle": None, "samples": 1, "settings": {}, "keep_races": False,
            "pair": dict.fromkeys(plan.PAIR, value), "environment": dict.fromkeys(plan.MACHINE, value),
        }  # fmt: skip

    old, new = made("x"), made("x")
    assert plan.first_difference(old, new) is None
    (new["pair"] if name in plan.PAIR else new["environment"])[name] = "y"
    assert plan.first_difference(old, new).endswith(f"{name} x, not y")


def test_two_runs_do_not_write_to_one_folder(tmp_path):
    with plan.locked(tmp_path), pytest.raises(DataError, match="Another evaluation is writing"), plan.locked(tmp_path):
        pass


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 1}', '{"format": 99, "settings": {}}'])
def test_a_damaged_plan_is_one_sentence(tmp_path, content):
    (tmp_path / RUN).write_text(content)
    with pytest.raises(DataError):
        plan.read_plan(tmp_path)


def test_a_pair_that_was_never_calibrated_is_so_on_the_first_clip_that_can_be_read(random_pair, monkeypatch):
    seen = []
    monkeypatch.setattr(racing, "calibrate_first", lambda pair, clip, settings: seen.append((clip.name, settings.question)) or iter(()))
    pair = replace(random_pair, info=replace(random_pair.info, folder="/nowhere"), calibration=None)
    samples = [Sample("x.mp4", Path("/nowhere/x.mp4")), Sample("shapes-3", number=3, question="What?"), Sample("shapes-4", number=4)]
    settings = RaceSettings(frames=2)
    racing.calibrate_pair(pair, samples, replace(settings, methods=("ar", "specvlm")))
    racing.calibrate_pair(random_pair, samples, settings)
    assert seen == []
    racing.calibrate_pair(pair, samples, settings)
    assert seen == [("shapes-3", "What?")]


def test_memory_stays_flat(evaluate, monkeypatch):
    sizes = []
    real = Journal.append

    def measured(self, results):
        real(self, results)
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0])

    monkeypatch.setattr(Journal, "append", measured)
    tracemalloc.start()
    evaluate("shapes:18", "--methods", "ar,lvspec")
    tracemalloc.stop()
    assert len(sizes) == 18
    assert sizes[-1] - sizes[5] < 100_000, sizes


# the files


def records(sample: int) -> list[dict]:
    return [{"sample_index": sample, "method": method, "output": "schön"} for method in METHODS]


def test_a_file_that_was_cut_anywhere_keeps_its_whole_samples(tmp_path):
    path = tmp_path / RESULTS
    journal = Journal(path, METHODS)
    ends = [0]
    for sample in range(2):
        journal.append(records(sample))
        ends.append(path.stat().st_size)
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        Journal(path, METHODS).repair()
        assert path.stat().st_size == max(end for end in ends if end <= cut)


def test_zeros_at_the_end_are_cut_off_and_a_damaged_middle_is_told(tmp_path):
    path = tmp_path / RESULTS
    Journal(path, METHODS).append(records(0))
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0" * 100 + b"\n")
    Journal(path, METHODS).repair()
    assert path.read_bytes() == whole
    path.write_bytes(whole + b"rubbish\n" + whole)
    with pytest.raises(DataError, match="Line 5 of"):
        Journal(path, METHODS).repair()


def append_for_ever(path: str) -> None:
    journal, sample = Journal(Path(path), METHODS), 0
    while True:
        journal.append(records(sample))
        sample += 1


def test_killed_at_any_moment_it_loses_no_finished_sample(tmp_path):
    """A process that does nothing but append is killed at thirty moments: what stood there stays, and only whole samples count."""
    dice = random.Random(5)
    for attempt in range(30):
        path = tmp_path / f"{attempt}.jsonl"
        child = get_context("fork").Process(target=append_for_ever, args=(str(path),))
        child.start()
        while not path.exists():
            time.sleep(0.001)
        time.sleep(dice.uniform(0, 0.03))
        before = path.read_bytes()
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        assert path.read_bytes().startswith(before)
        Journal(path, METHODS).repair()
        results = read_results(path)
        assert [(each["sample_index"], each["method"]) for each in results] == [
            (sample, method) for sample in range(len(results) // 4) for method in METHODS
        ]
        assert len(results) >= 4 * (before.count(b"\n") // 4)


def test_the_files_of_several_processes_become_one_in_order(tmp_path):
    for name, samples in ((RESULTS, (0,)), ("results.part-001.jsonl", (3, 1)), ("results.part-000.jsonl", (2, 0))):
        journal = Journal(tmp_path / name, METHODS)
        for sample in samples:
            journal.append(records(sample))
        journal.close()
    assert finished(tmp_path) == {0, 1, 2, 3}
    merged = merge(tmp_path, METHODS)
    assert [(each["sample_index"], each["method"]) for each in merged] == [(sample, method) for sample in range(4) for method in METHODS]
    assert read_results(tmp_path / RESULTS) == merged
    assert [path.name for path in tmp_path.iterdir()] == [RESULTS]


def test_a_full_disk_is_one_sentence(evaluate, monkeypatch, capsys):
    def full(self, results):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Journal, "append", full)
    assert evaluate("shapes:1", "--methods", "ar")[0] == 2
    assert "cannot be saved in" in capsys.readouterr().err


# the figures


def test_averages_are_those_of_specvlms_code_and_failures_stand_apart():
    """Mean length ÷ mean seconds, not the mean of the quotients [code: SpecVLM, inference.py]."""
    rows = [
        {"sample_index": 0, "method": "specvlm", "generate_len": 10, "decoding_time": 1.0, "average_accept_length": 2.0, "output": "a"},
        {"sample_index": 1, "method": "specvlm", "generate_len": 30, "decoding_time": 2.0, "average_accept_length": 3.0, "output": "b"},
        {"sample_index": 2, "method": "specvlm", "generate_len": None, "error": "No video."},
    ]
    (row,) = method_metrics(rows)
    assert {name: row[name] for name in SPECVLM_METRICS} == {
        "method": "specvlm", "avg_generate_len": 20, "avg_decoding_time": 1.5, "avg_tokens_per_second": 13.3333, "avg_accept_length": 2.5,
    }  # fmt: skip
    assert (row["samples"], row["failed"], row["speedup_decode"], row["fidelity"]) == (2, 1, None, None)


def test_a_chosen_option_is_right_or_wrong_and_unknown_where_the_data_does_not_say():
    lane = next(record for record in fake_race.recorded() if isinstance(record, LaneEnd))
    sample = Sample("v", question="Which?", options=("red", "blue"), answer="B")

    def scored(sample, text):
        return sample_result(sample, replace(lane, text=text), {}, {}, None, Fidelity(None, 0.0, None, None))

    assert [scored(sample, text)["correct"] for text in ("B.", "A", "who knows")] == [True, False, False]
    assert scored(replace(sample, answer=""), "B.")["correct"] is None
    assert scored(replace(sample, options=()), "B.")["choice"] is None
    right, wrong = (method_metrics([scored(sample, text)])[0]["accuracy"] for text in ("B", "A"))
    assert (right, wrong) == (1.0, 0.0)


@pytest.mark.slow
def test_the_page_the_bench_and_an_evaluation_agree_on_every_figure_but_the_seconds(tmp_path):
    """One clip, the same settings: a race as the page and `race` run it, `bench`'s, and an evaluation's record."""
    settings = RaceSettings(max_new_tokens=48)
    path = ROOT / "assets" / "samples" / "shapes-4-2-moving.mp4"
    worker = RaceWorker()
    try:
        ends = {record.lane: record for batch in worker.race(path, settings) for record in batch if isinstance(record, LaneEnd)}
    finally:
        worker.close()
    pair = command.open_pair(PAIRS["shapes-qwen"], settings)
    benched = bench.run_case(pair, read_video(path, settings.frames), settings)
    evaluator = racing.Evaluator(pair, settings, {})
    results = {result["method"]: result for result in evaluator.results(Sample("clip", path))}
    kept = bench.fidelity_of(pair, read_video(path, settings.frames), settings, benched)
    assert set(ends) == set(benched) == set(results) == set(METHODS)
    for name, result in results.items():
        for end in (ends[name], benched[name].end):
            assert result["token_ids"] == end.token_ids
            assert result["output"] == end.text
            assert result["average_accept_length"] == end.mean_accepted_length
            assert result["acceptance_rate"] == end.acceptance_rate
            assert result["verdicts"] == end.verdicts
            assert (result["rounds"], result["same_as_ar"], result["generate_len"]) == (end.rounds, end.same_as_ar, end.tokens)
    assert results["lvspec"]["fidelity"] == pytest.approx(vars(kept))


# in processes of their own


def launch(*words: str, **options) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", *words], cwd=ROOT, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, **options
    )


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def until(condition, process: subprocess.Popen, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.stderr.read().decode()
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


def whole_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


ON_SHAPES = ("evaluate", "--methods", "ar,lvspec", "--max-new-tokens", "6", "--data")


@pytest.mark.slow
def test_kill_9_costs_at_most_the_sample_in_flight(tmp_path):
    folder = tmp_path / "run"
    arguments = ("lvspec_core", *ON_SHAPES, "shapes:10", "--save-path", str(folder))
    process = launch(*arguments)
    until(lambda: whole_lines(folder / RESULTS) >= 3, process)
    time.sleep(random.uniform(0, 0.4))
    process.kill()
    process.communicate()
    before = (folder / RESULTS).read_bytes()
    kept = before[: before.rindex(b"\n") + 1].splitlines()
    kept = kept[: len(kept) // 2 * 2]
    again = launch(*arguments, "--resume")
    out, err = again.communicate(timeout=240)
    assert again.returncode == 0, err.decode()
    after = (folder / RESULTS).read_bytes().splitlines()
    assert after[: len(kept)] == kept
    assert [(each["sample_index"], each["method"]) for each in map(json.loads, after)] == [
        (sample, method) for sample in range(10) for method in ("ar", "lvspec")
    ]
    assert b"LVSpec" in out


@pytest.mark.slow
def test_two_processes_share_the_samples_and_one_that_is_killed_loses_only_its_own(tmp_path):
    folder = tmp_path / "run"
    # what `accelerate launch` starts for several GPUs; without MPI it starts a single process on CPUs
    spread = ("torch.distributed.run", "--nproc_per_node", "2", "--master_port", str(free_port()), "-m", "lvspec_core")
    arguments = (*spread, *ON_SHAPES, "shapes:14", "--save-path", str(folder))
    process = launch(*arguments, start_new_session=True)
    parts = [folder / f"results.part-{rank:03d}.jsonl" for rank in (0, 1)]
    until(lambda: all(whole_lines(part) >= 2 for part in parts), process)
    ranks = [each for each in psutil.Process(process.pid).children(recursive=True) if each.environ().get("RANK") == "1"]
    ranks[0].kill()
    process.communicate(timeout=120)
    assert process.returncode != 0
    done = {result["sample_index"] for part in parts for result in read_results(part)}
    assert {number % 2 for number in done} == {0, 1}, "each had its own samples"
    assert len(done) < 14
    again = launch(*arguments, "--resume")
    out, err = again.communicate(timeout=240)
    assert again.returncode == 0, err.decode()
    results = read_results(folder / RESULTS)
    assert [(each["sample_index"], each["method"]) for each in results] == [
        (sample, method) for sample in range(14) for method in ("ar", "lvspec")
    ]
    assert not any(part.exists() for part in parts)
    assert out.count(b"LVSpec") == 1, "one table, not one from each process"


@pytest.mark.slow
@pytest.mark.parametrize(("script", "pair"), [("run_qwenvl.sh", "shapes-qwen"), ("run_llava.sh", "shapes-llava")])
def test_the_scripts_run_as_they_are_with_other_models_and_data(script, pair, tmp_path):
    models = {f"{role.upper()}_PATH": getattr(PAIRS[pair], role) for role in ("target", "draft")}
    wanted = {"DATA_PATH": "shapes:1", "TASK": "", "FRAME_NUM": "4", "MAX_NEW_TOKENS": "4", "SAVE_PATH": str(tmp_path)}
    environment = {**os.environ, **models, **wanted, "PYTHON": sys.executable, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = ["bash", str(ROOT / script), "--methods", "ar,specvlm"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    results = read_results(tmp_path / RESULTS)
    assert [result["method"] for result in results] == ["ar", "specvlm"]
    assert results[0]["settings"]["pruning_ratio"] == 0.9
    assert results[1]["same_as_ar"] is True


def test_the_recorded_long_run_lost_nothing_and_its_memory_stayed_flat():
    """1,000 clips in one process but for six kills at its beginning, as assets/bench/thousand records it."""
    folder = ROOT / "assets" / "bench" / "thousand"
    metrics = [json.loads(line) for line in (folder / "metric.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["method"], row["samples"], row["failed"]) for row in metrics] == [(name, 1000, 0) for name in METHODS]
    rows = [line.split(",") for line in (folder / "memory.csv").read_text(encoding="utf-8").splitlines()[1:]]
    kills = [int(records) for _, memory, records in rows if memory == "killed"]
    assert len(kills) == 6
    records = [int(row[2]) for row in rows]
    assert records == sorted(records), "what was written stays"
    after = [float(memory) for _, memory, records in rows if memory != "killed" and int(records) > kills[-1]]
    tenth = len(after) // 10
    assert sum(after[-tenth:]) < 1.05 * sum(after[:tenth])
