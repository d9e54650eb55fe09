"""The worker: what crosses the border, and what happens when the other side stops, fails, hangs or dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from itertools import pairwise
from pathlib import Path

import fake_race
import psutil
import pytest
from PIL import Image

from lvspec_core.errors import PairError, SettingsError, VideoError, WorkerError
from lvspec_core.records import End, LaneEnd, Prefill, Round, Start
from lvspec_core.settings import RaceSettings
from lvspec_core.worker import RaceWorker, get_worker
from lvspec_core.worker.runner import threads

TESTS = Path(__file__).parent
CLIP = "clip.mp4"


@pytest.fixture(scope="module")
def worker():
    worker = RaceWorker(runner="fake_race:run", reader=fake_race.read)
    yield worker
    worker.close()


def settings(question: str = "fast", **changes) -> RaceSettings:
    return RaceSettings(**{"question": question, "max_new_tokens": 40, **changes})


def race(worker: RaceWorker, question: str = "fast", **changes) -> list:
    return [record for batch in worker.race(CLIP, settings(question, **changes)) for record in batch]


def wait_until(condition, seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_race_arrives_whole_and_in_order(worker):
    assert race(worker) == fake_race.recorded()


@pytest.mark.clock
def test_batches_come_at_most_fifteen_times_a_second(worker):
    times, kinds = [], []
    for batch in worker.race(CLIP, settings("plain", max_new_tokens=150)):
        times.append(time.monotonic())
        kinds.append({type(record) for record in batch})
    gaps = [after - before for before, after in pairwise(times)]
    assert len(times) > 4
    # the last batch is not held back
    assert all(gap > 0.055 for gap in gaps[:-1])
    assert Start in kinds[0]
    assert End in kinds[-1]


def test_a_slow_reader_delays_nobody_and_loses_nothing(worker):
    batches = []
    for batch in worker.race(CLIP, settings("plain", max_new_tokens=150)):
        batches.append(batch)
        time.sleep(0.25)
    assert len(batches) <= 6
    assert [record for batch in batches for record in batch] == fake_race.recorded(settings(question="plain", max_new_tokens=150))


@pytest.mark.clock
def test_closing_the_generator_ends_the_race_within_a_round(worker):
    race(worker)
    child = psutil.Process(worker.pid)
    generator = worker.race(CLIP, settings("endless"))
    assert isinstance(next(generator)[0], Start)
    generator.close()
    started = time.monotonic()
    assert race(worker, methods=("ar",), max_new_tokens=1)[-1].finish == "finished"
    assert time.monotonic() - started < 0.5
    used = sum(child.cpu_times()[:2])
    time.sleep(0.2)
    assert sum(child.cpu_times()[:2]) - used < 0.05
    assert worker.pid == child.pid


def test_stop_keeps_what_was_generated(worker):
    stop = threading.Event()
    records = []
    for batch in worker.race(CLIP, settings("endless"), stop):
        records += batch
        if any(isinstance(record, Round) for record in records):
            stop.set()
    assert records[-1] == End("stopped", 1.0)
    ends = [record for record in records if isinstance(record, LaneEnd)]
    assert {end.lane for end in ends} == {"ar", "naive_sd", "specvlm", "lvspec"}
    for end in ends:
        seen = [token.id for record in records if isinstance(record, Round) and record.lane == end.lane for token in record.tokens]
        assert list(end.token_ids) == seen


def test_memory_does_not_grow_over_stopped_races(worker):
    def once():
        generator = worker.race(CLIP, settings("endless ballast"))
        while not any(isinstance(record, Round) for record in next(generator)):
            pass
        generator.close()

    for _ in range(3):
        once()
    race(worker, max_new_tokens=1)
    child = psutil.Process(worker.pid)
    before = child.memory_info().rss
    for _ in range(20):
        once()
    race(worker, max_new_tokens=1)
    assert child.memory_info().rss - before < 16 * 2**20
    assert worker._racer._replies == {}


def test_a_killed_child_costs_one_race(worker):
    generator = worker.race(CLIP, settings("endless"))
    next(generator)
    child = worker.pid
    os.kill(child, signal.SIGKILL)
    with pytest.raises(WorkerError, match=r"^The race process ended unexpectedly \(SIGKILL\).*\.$"):
        for _ in generator:
            pass
    assert race(worker) == fake_race.recorded()
    assert worker.pid != child


def test_a_child_that_kills_itself_keeps_failing_with_a_sentence(worker):
    for _ in range(2):
        with pytest.raises(WorkerError):
            race(worker, "kill")
    assert race(worker)[-1] == End("finished", 1.0)


def test_a_hung_race_is_ended_by_a_stop(worker, monkeypatch):
    monkeypatch.setattr("lvspec_core.worker.PATIENCE_SECONDS", 0.3)
    stop = threading.Event()
    batches = worker.race(CLIP, settings("hang"), stop)
    next(batches)
    stop.set()
    with pytest.raises(WorkerError, match="ended unexpectedly"):
        list(batches)
    assert race(worker) == fake_race.recorded()


def test_a_user_error_crosses_with_its_kind_and_sentence(worker):
    with pytest.raises(PairError, match=r"^The pair cannot be loaded; choose another\.$"):
        race(worker, "refuse")
    with pytest.raises(VideoError, match=r"^broken\.mp4 is not a video\.$"):
        next(worker.race("broken.mp4", settings()))
    with pytest.raises(SettingsError, match="frames"):
        next(worker.race(CLIP, settings(frames=0)))
    with pytest.raises(VideoError, match="Choose a video first"):
        worker.strip("", 8)


def test_an_unexpected_error_crosses_without_its_details(capfd):
    worker = RaceWorker(runner="fake_race:run", reader=fake_race.read)
    with pytest.raises(WorkerError) as caught:
        race(worker, "raise")
    assert str(caught.value) == "Something went wrong (ValueError); the server's log says what."
    assert "secret detail" in capfd.readouterr().err
    assert race(worker)[-1] == End("finished", 1.0)
    worker.close()


@pytest.mark.clock
def test_reading_does_not_wait_behind_a_race_or_a_long_file(worker):
    generator = worker.race(CLIP, settings("endless"))
    next(generator)
    threading.Thread(target=worker.read, args=("long.mp4", 8)).start()
    started = time.monotonic()
    assert worker.read(CLIP, 3) == fake_race.FakeClip(CLIP, 3)
    assert time.monotonic() - started < 0.3
    generator.close()


def test_a_strip_shows_what_the_models_will_see(tmp_path):
    picture = tmp_path / "picture.png"
    Image.new("RGB", (64, 48), "red").save(picture)
    strip = RaceWorker(runner="fake_race:run").strip(picture, 2)
    assert strip["video"]["name"] == "picture.png"
    assert [set(frame) for frame in strip["frames"]] == [{"time", "image"}] * 2


def test_races_take_turns(worker):
    order = []

    def one(name):
        for batch in worker.race(CLIP, settings("plain")):
            order.extend((name, type(record)) for record in batch)

    both = [threading.Thread(target=one, args=(name,)) for name in "ab"]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    names = [name for name, _ in order]
    first = names[0]
    assert names == [first] * names.count(first) + [name for name in names if name != first]
    assert sum(kind is End for _, kind in order) == 2


def test_a_waiting_race_can_be_stopped(worker):
    generator = worker.race(CLIP, settings("endless"))
    next(generator)
    stop = threading.Event()
    stop.set()
    assert list(worker.race(CLIP, settings(), stop)) == []
    generator.close()


def test_warming_happens_at_once_and_again_after_a_crash(tmp_path, monkeypatch):
    trace = tmp_path / "trace"
    monkeypatch.setenv("FAKE_WARM_TRACE", str(trace))
    worker = RaceWorker(runner="fake_race:run", reader=fake_race.read)
    try:
        worker.warm("some-pair")
        wait_until(trace.exists)
        with pytest.raises(WorkerError):
            race(worker, "kill")
        wait_until(lambda: len(trace.read_text().splitlines()) == 2)
        pids = {line.split()[0] for line in trace.read_text().splitlines()}
        assert len(pids) == 2
    finally:
        worker.close()
    assert worker.pid is None


def test_a_pair_loads_while_the_file_is_read(tmp_path, monkeypatch):
    trace = tmp_path / "trace"
    monkeypatch.setenv("FAKE_WARM_TRACE", str(trace))

    def read(path, frames):
        wait_until(trace.exists)
        return fake_race.read(path, frames)

    worker = RaceWorker(runner="fake_race:run", reader=read)
    assert race(worker)[-1] == End("finished", 1.0)
    assert race(worker)[-1] == End("finished", 1.0)
    assert trace.read_text().split()[1:] == ["shapes-qwen"]
    worker.close()


def test_the_child_ends_with_its_parent():
    script = """
        import sys, time
        sys.path.insert(0, sys.argv[1])
        import fake_race
        from lvspec_core.settings import RaceSettings
        from lvspec_core.worker import RaceWorker
        worker = RaceWorker(runner="fake_race:run", reader=fake_race.read)
        race = worker.race("clip.mp4", RaceSettings(question="endless"))
        next(race)
        print(worker.pid, flush=True)
        time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(TESTS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=TESTS.parent, text=True) as parent:
        child = int(parent.stdout.readline())
        assert is_running(child)
        parent.kill()
    wait_until(lambda: not is_running(child))


def test_closing_ends_the_child_and_the_next_race_starts_it_again():
    worker = RaceWorker(runner="fake_race:run", reader=fake_race.read)
    worker.close()
    race(worker)
    pid = worker.pid
    assert is_running(pid)
    worker.close()
    assert not is_running(pid)
    assert race(worker)[-1] == End("finished", 1.0)
    worker.close()


def test_there_is_one_worker_per_process():
    assert get_worker() is get_worker()


def test_a_runner_that_does_not_exist_is_a_sentence(capfd):
    worker = RaceWorker(runner="fake_race:missing", reader=fake_race.read)
    with pytest.raises(WorkerError, match="AttributeError"):
        race(worker)
    worker.close()


@pytest.mark.parametrize(("wanted", "tiny", "expected"), [("", True, 1), ("", False, 6), ("3", True, 3), (" 2 ", False, 2)])
def test_the_number_of_threads(monkeypatch, wanted, tiny, expected):
    monkeypatch.setenv("LVSPEC_THREADS", wanted)
    assert threads(tiny, 6) == expected


@pytest.mark.parametrize("wanted", ["0", "-1", "two", "1.5", "99999"])
def test_a_wrong_number_of_threads_is_a_sentence(monkeypatch, wanted):
    monkeypatch.setenv("LVSPEC_THREADS", wanted)
    with pytest.raises(SettingsError, match="LVSPEC_THREADS"):
        threads(True, 6)


def test_prefill_is_told_at_once(worker):
    generator = worker.race(CLIP, settings("endless", methods=("ar",)))
    first = next(generator)
    assert isinstance(first[0], Start)
    seen = list(first)
    while not any(isinstance(record, Prefill) for record in seen):
        seen += next(generator)
    generator.close()
