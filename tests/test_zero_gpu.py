"""The contract with ZeroGPU: a forked process behind pickles, nothing computed in this one, and how much GPU is asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import gradio as gr
import graph_stand_in
import pytest

import zero_gpu
from lvspec_core.checkpoints import CHECKPOINTS
from lvspec_core.errors import PairError, WorkerError
from lvspec_core.pair_file import MOST_TRIES, note_failure
from lvspec_core.race import run_race
from lvspec_core.records import Start
from lvspec_core.registry import PAIRS, PairInfo
from lvspec_core.settings import METHODS, PROPOSALS, RaceSettings

HERE = Path(__file__).parent
SAMPLE = HERE.parent / "assets" / "samples" / "shapes-4-2-moving.mp4"
SETTINGS = {"frames": 2, "max_new_tokens": 12, "methods": ["ar", "lvspec"]}


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    """What a Space did, see zero_gpu_space.py: a whole race, one that is stopped, one with a pair that is not within reach, and one for
    which no GPU is free."""
    asked = {"video": str(SAMPLE), "settings": SETTINGS}
    far = {**SETTINGS, "pair": "qwen2.5-vl-7b"}
    races = json.dumps([asked, {**asked, "stops": True}, {**asked, "settings": far}, {**asked, "refuse": True}])
    command = [sys.executable, str(HERE / "zero_gpu_space.py"), races, str(tmp_path_factory.mktemp("space"))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_space_places_its_weights_and_computes_nothing_in_the_main_process(space):
    assert space["cuda"] == {"placed": "cuda", "own": ["cuda", "cuda"], "warmed": 0, "initialised": False}


@pytest.mark.slow
def test_a_race_runs_in_the_process_that_has_the_gpu(space):
    whole = space["races"][0]
    assert whole["ended"]
    assert whole["error"] is None
    assert [whole["types"][0], whole["types"][-1]] == ["Start", "End"]
    assert whole["types"].count("LaneEnd") == 2
    assert whole["batches"] < len(whole["types"]), "rounds cross in batches"
    assert whole["device"] == "cpu", "the forked process runs without the emulation"


@pytest.mark.slow
def test_a_stop_ends_it_there_and_the_next_race_works(space):
    stopped, after = space["races"][1:3]
    assert stopped["ended"]
    assert stopped["error"] is None
    assert "End" not in stopped["types"]
    assert after["ended"]


@pytest.mark.slow
def test_what_a_user_can_put_right_comes_back_as_a_sentence(space):
    far, refused = space["races"][2:]
    assert far["kind"] == "PairError"
    assert far["error"].endswith((".", "?"))
    assert (refused["kind"], refused["error"]) == ("WorkerError", "No GPU was available")


@pytest.mark.slow
def test_gpus_are_asked_for_and_given_back(space):
    asked = [each for each in space["asked"] if each["path"] == "/schedule"]
    expected = zero_gpu.gpu_seconds(None, RaceSettings(**{**SETTINGS, "methods": tuple(SETTINGS["methods"])}))
    assert [each["gpuSize"] for each in asked] == ["large"] * 4
    assert [int(each["durationSeconds"]) for each in (*asked[:2], asked[3])] == [expected] * 3
    assert int(asked[2]["durationSeconds"]) > expected
    assert [each["path"] for each in space["asked"]].count("/release") == 3


def test_a_race_that_is_left_closes_the_other_side(monkeypatch):
    closed = []

    def race(clip, settings) -> Iterator:
        try:
            while True:
                yield [clip]
        finally:
            closed.append(True)

    monkeypatch.setitem(zero_gpu.RACING, "large", race)
    stream = zero_gpu.race("clip", RaceSettings(), threading.Event())
    assert next(stream) == ["clip"]
    stream.close()
    assert closed == [True]
    stop = threading.Event()
    stream = zero_gpu.race("clip", RaceSettings(), stop)
    next(stream)
    stop.set()
    assert list(stream) == []
    assert closed == [True, True]


def test_refusals_and_the_packages_own_errors_are_raised(monkeypatch):
    def refuses(clip, settings) -> Iterator:
        yield zero_gpu.Refusal("PairError", "The pair is missing.")

    def fails(clip, settings) -> Iterator:
        raise gr.Error("GPU task aborted")
        yield

    monkeypatch.setitem(zero_gpu.RACING, "large", refuses)
    with pytest.raises(PairError, match="is missing"):
        list(zero_gpu.race("clip", RaceSettings(), threading.Event()))
    monkeypatch.setitem(zero_gpu.RACING, "large", fails)
    with pytest.raises(WorkerError, match="GPU task aborted"):
        list(zero_gpu.race("clip", RaceSettings(), threading.Event()))


@pytest.mark.slow
def test_records_cross_as_plain_values(random_pair, monkeypatch, make_clip):
    """As the function runs where a GPU is its own: no process between."""
    import lvspec_core.pairs

    monkeypatch.setattr(lvspec_core.pairs, "load_pair", lambda name, settings=None, warm=True: random_pair)
    settings = RaceSettings(frames=2, max_new_tokens=6, methods=("ar", "lvspec")).validated()
    records = [record for batch in zero_gpu.race(make_clip(frames=2), settings, threading.Event()) for record in batch]
    assert isinstance(records[0], Start)


def pair_of(target: str, draft: str) -> PairInfo:
    return PairInfo("pair", "A pair", "qwen2_5_vl", target, draft)


@pytest.mark.parametrize(
    ("target", "draft", "gigabytes", "size"),
    [
        ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen2.5-VL-3B-Instruct", 24.1, "large"),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen2.5-VL-7B-Instruct", 16.6, "large"),
        ("llava-hf/llava-onevision-qwen2-7b-ov-hf", "llava-hf/llava-onevision-qwen2-0.5b-ov-hf", 17.8, "large"),
        ("Qwen/Qwen2.5-VL-32B-Instruct", "Qwen/Qwen2.5-VL-7B-Instruct", 83.5, "xlarge"),
        ("somebody/unknown", "somebody/unknown", 0.0, "large"),
    ],
)
def test_a_pair_that_fills_half_a_gpu_gets_a_whole_one(target, draft, gigabytes, size):
    info = pair_of(target, draft)
    assert zero_gpu.weights(info) / 1e9 == pytest.approx(gigabytes, abs=0.06)
    assert zero_gpu.gpu_size(info) == size


def test_the_bundled_pair_is_as_large_as_its_files():
    assert 10e6 < zero_gpu.weights(PAIRS["shapes-qwen"]) < 20e6
    assert zero_gpu.gpu_size(PAIRS["shapes-qwen"]) == "large"


def test_large_is_as_large_as_the_package_says():
    told = json.loads(files("spaces.zero").joinpath("configs.json").read_text())
    assert told[0]["memory"] == zero_gpu.LARGE
    assert all(2 * parameters.parameters < 2 * zero_gpu.LARGE for name, parameters in CHECKPOINTS.items() if "32B" in name)


def test_a_gpu_is_asked_for_as_long_as_the_settings_need():
    def seconds(**changes) -> int:
        return zero_gpu.gpu_seconds(None, RaceSettings(**changes))

    usual = seconds()
    assert 10 < seconds(frames=4, methods=("ar",), max_new_tokens=16) < usual < 60, "what is asked for counts against a visitor's quota"
    for more in ({"frames": 64}, {"max_new_tokens": 512}, {"pair": "qwen2.5-vl-7b"}):
        assert seconds(**more) > usual
    assert seconds(methods=METHODS[:2]) < usual
    assert seconds(pair="qwen2.5-vl-32b") > seconds(pair="qwen2.5-vl-7b")
    assert seconds(pair="qwen2.5-vl-32b", frames=128, max_new_tokens=1024) == zero_gpu.LONGEST


def test_the_first_race_of_a_pair_that_was_never_calibrated_takes_longer(tmp_path, monkeypatch):
    settings = RaceSettings(pair="qwen2.5-vl-7b")
    monkeypatch.setattr(PairInfo, "calibration", property(lambda info: tmp_path / "pair.json"))
    before = zero_gpu.gpu_seconds(None, settings)
    for _ in range(MOST_TRIES):
        assert zero_gpu.gpu_seconds(None, settings) == before
        note_failure(tmp_path / "pair.json")
    assert zero_gpu.gpu_seconds(None, settings) < before, "it is not tried for ever"
    (tmp_path / "pair.json").write_text('{"relevance": {"scorer": "draft_attention"}}')
    assert zero_gpu.gpu_seconds(None, settings) < before


def test_what_was_placed_at_the_start_stays_beside_another_pair(monkeypatch):
    """The package keeps it, and moves it to the GPU for every race."""
    alone = zero_gpu.gpu_seconds(None, RaceSettings(pair="llava-onevision-7b"))
    monkeypatch.setattr(zero_gpu, "_at_start", "qwen2.5-vl-7b")
    assert zero_gpu.gpu_size(PAIRS["qwen2.5-vl-7b"]) == "large"
    assert zero_gpu.gpu_size(PAIRS["llava-onevision-7b"]) == "large"
    assert zero_gpu.gpu_seconds(None, RaceSettings(pair="llava-onevision-7b")) > alone
    monkeypatch.setattr(zero_gpu, "_at_start", "qwen2.5-vl-32b")
    assert zero_gpu.gpu_size(PAIRS["llava-onevision-7b"]) == "xlarge"


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_recording_cuda_graphs_takes_its_time_too(random_pair, make_clip, monkeypatch, proposal):
    settings = RaceSettings(frames=4, max_new_tokens=8, proposal=proposal)
    before = zero_gpu.gpu_seconds(None, settings)
    graph_stand_in.install(monkeypatch)
    assert before < zero_gpu.gpu_seconds(None, settings) < zero_gpu.LONGEST
    assert all(not getattr(record, "error", "") for record in run_race(random_pair, make_clip(), settings))
    assert len(graph_stand_in.Graph.made) == zero_gpu._graphs(settings)


def test_where_there_is_no_gpu_yet_weights_are_placed_and_the_device_is_not_asked_what_it_has(random_pair_info, monkeypatch):
    """ZeroGPU's main process has no driver: asking would end the Space's start with CUDA's own words."""
    from lvspec_core import loading, pairs

    def asked(width):
        raise RuntimeError("Found no NVIDIA driver")

    monkeypatch.setattr(pairs, "_loaded", {})
    for module in (pairs, loading):
        monkeypatch.setattr(module, "room_here", asked)
    pair = pairs.load_pair(random_pair_info, warm=False)
    assert pair.warmed == set()
    monkeypatch.setattr(pairs, "_loaded", {})
    with pytest.raises(RuntimeError, match="no NVIDIA driver"):
        pairs.load_pair(random_pair_info)
