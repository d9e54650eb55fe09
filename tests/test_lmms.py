"""The plug-in for lmms-eval: what it takes, refuses and records. The last test runs the real lmms-eval where it is installed."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tomllib
import types
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from PIL import Image
from video_clips import write

import lvspec_core.lmms as plugin
from lvspec_core.errors import DataError, PairError, SettingsError, UserError
from lvspec_core.evaluation.journal import METRICS, RESULTS, read_results
from lvspec_core.evaluation.racing import Evaluator
from lvspec_core.evaluation.samples import Sample
from lvspec_core.lmms import scoring, shapes_task
from lvspec_core.lmms.arguments import NEW_TOKENS, beside_output, read_arguments
from lvspec_core.lmms.generation import Generation, generation_of
from lvspec_core.lmms.recorder import Recorder
from lvspec_core.lmms.runner import STOPPED, Asked, Runner, check_calibrated, plain_question, video_of
from lvspec_core.registry import PAIRS
from lvspec_core.settings import RaceSettings
from lvspec_core.shapes.clips import world_clip

ROOT = Path(__file__).resolve().parents[1]
BRIEF = {"max_new_tokens": 8, "frames": 2, "draft_length": 3}
GREEDY = Generation(8, 0.0, 1.0, ())


def test_pyproject_declares_the_models_and_they_are_there():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, function = project["entry-points"]["lmms_eval.models"]["lvspec"].partition(":")
    assert callable(getattr(importlib.import_module(module), function))
    tree = ast.parse((ROOT / "lvspec_core/lmms/model.py").read_text())
    classes = {node.name: ast.unparse(node) for node in tree.body if isinstance(node, ast.ClassDef)}
    for name, kind in plugin.MODELS.items():
        assert f"family = '{name.removesuffix('_lvspec')}'" in classes[kind]


def test_only_the_plug_in_knows_lmms_eval():
    texts = {path: path.read_text() for path in (ROOT / "lvspec_core").rglob("*.py")}
    users = {path for path, text in texts.items() if "import lmms_eval" in text or "from lmms_eval" in text}
    assert {path.parent.name for path in users} == {"lmms"}
    assert {path.stem for path in users} == {"__init__", "model"}


def test_arguments_become_a_pair_and_settings():
    read = read_arguments({"pair": "shapes-qwen", "method": "specvlm", "pruning_ratio": 0.9, "frames": 16, "save_path": "x"}, "qwen2_5_vl")
    assert (read.info.name, read.settings.methods, read.settings.pruning_ratio, read.settings.frames) == (
        "shapes-qwen",
        ("specvlm",),
        0.9,
        16,
    )
    assert (read.settings.max_new_tokens, read.most, read.folder) == (NEW_TOKENS, None, Path("x"))
    assert read_arguments({"max_new_tokens": 99}, "qwen2_5_vl").most == 99


@pytest.mark.parametrize(("family", "pair"), [("qwen2_5_vl", "qwen2.5-vl-7b"), ("llava_onevision", "llava-onevision-7b")])
def test_without_a_pair_each_model_takes_its_family_s(family, pair):
    assert read_arguments({}, family).info.name == pair


def test_two_checkpoints_are_a_pair():
    info = read_arguments({"target": "a/b", "draft": "c/d", "revision": 7}, "qwen2_5_vl").info
    assert (info.target, info.draft, info.target_revision) == ("a/b", "c/d", "7")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"pretrained": "x"}, "'pretrained'"),
        ({"temperature": 1}, "'temperature'"),
        ({"method": "medusa"}, "Unknown method 'medusa'"),
        ({"pair": "nope"}, "Unknown pair 'nope'"),
        ({"pair": "shapes-llava"}, "llava_onevision_lvspec"),
        ({"draft": "a/b"}, "name the target too"),
        ({"frames": 0}, "frames"),
        ({"frames": "many"}, "frames"),
        ({"device_map": "cuda:0"}, "device_map"),
    ],
)
def test_a_wrong_argument_is_one_sentence(given, told):
    with pytest.raises(UserError, match=told.replace("(", r"\(")) as error:
        read_arguments(given, "qwen2_5_vl")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("command", "folder"),
    [
        (["--model", "x", "--output_path", "out"], Path("out/lvspec")),
        (["--output_path=out/run.json"], Path("out/lvspec")),
        (["--model", "x"], None),
    ],
)
def test_records_go_beside_lmms_eval_s_output(command, folder):
    assert beside_output(command) == folder


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, Generation(100, 0.0, 1.0, ())),
        ({"max_new_tokens": 16, "temperature": 0.0, "do_sample": False, "top_p": 0, "num_beams": 1}, Generation(16, 0.0, 1.0, ())),
        ({"until": ["\n\n"]}, Generation(100, 0.0, 1.0, ())),
        ({"until": "###"}, Generation(100, 0.0, 1.0, ("###",))),
        ({"temperature": 0.7, "top_p": 0.9}, Generation(100, 0.7, 0.9, ())),
        ({"temperature": 0.7, "do_sample": False}, Generation(100, 0.0, 1.0, ())),
        ({"do_sample": True}, Generation(100, 1.0, 1.0, ())),
        ({"top_k": 5}, Generation(100, 0.0, 1.0, ())),
    ],
)
def test_what_a_request_asks_of_generation_is_followed(asked, expected):
    assert generation_of(asked, RaceSettings(max_new_tokens=100)) == expected


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"num_beams": 4}, "num_beams 4"),
        ({"repetition_penalty": 1.1}, "repetition_penalty"),
        ({"max_new_tokens": 4096}, "4,096 new tokens"),
        ({"max_new_tokens": "many"}, "whole number"),
        ({"do_sample": True, "temperature": 0}, "temperature 0"),
        ({"do_sample": True, "top_k": 5}, "top_k"),
        ({"temperature": "hot"}, "temperature"),
        ({"until": 7}, "until"),
        ({"visual_cot": True}, "visual_cot"),
    ],
)
def test_what_cannot_be_followed_is_refused(asked, told):
    with pytest.raises(SettingsError, match=told):
        generation_of(asked, RaceSettings())


def test_the_user_s_own_limit_of_tokens_holds_for_every_request():
    assert generation_of({"max_new_tokens": 4096}, RaceSettings(), 50).max_new_tokens == 50
    assert generation_of({"max_new_tokens": 16}, RaceSettings(), 50).max_new_tokens == 16


def test_a_text_is_cut_at_the_first_stop():
    assert Generation(1, 0.0, 1.0, ("b", "ab")).cut("xabc") == ("x", True)
    assert Generation(1, 0.0, 1.0, ("z",)).cut("xabc") == ("xabc", False)


@pytest.mark.parametrize(
    ("visuals", "told"),
    [
        (None, "without a video"),
        ([], "without a video"),
        ([Image.new("RGB", (4, 4))], "a picture"),
        (["a.mp4", "b.mp4"], "2 visuals"),
        ([{"video_path": "a.mp4", "timestep": 3}], "part of a video"),
    ],
)
def test_only_one_video_is_taken(visuals, told):
    with pytest.raises(DataError, match=told):
        video_of(visuals)


def test_a_question_loses_the_marks_for_a_picture():
    assert plain_question("<image>\nWhat happens?") == "What happens?"
    assert video_of(["a.mp4"]) == Path("a.mp4")


def race_settings(method: str = "lvspec", **more) -> RaceSettings:
    return RaceSettings(pair="random", methods=(method,), **{**BRIEF, **more})


def asked(video: Path, **more) -> Asked:
    return Asked(**{"task": "t", "split": "test", "index": 3, "question": "What?", "video": video, "generation": GREEDY, **more})


@pytest.fixture
def clip(tmp_path) -> Path:
    return write(tmp_path / "a.mp4", 10) or tmp_path / "a.mp4"


@pytest.mark.parametrize("method", ["ar", "specvlm", "lvspec"])
def test_an_answer_is_the_one_of_evaluate_and_its_record_has_the_same_fields(random_pair, clip, method):
    runner = Runner(random_pair, race_settings(method))
    result = runner.result(asked(clip))
    (other,) = Evaluator(random_pair, race_settings(method), {}).results(Sample("a.mp4", clip, "What?", index=3))
    assert set(result) - set(other) == {"task", "split", "repeat", "pair", "settings", "environment"}
    for name in ("sample_index", "method", "output", "token_ids", "rounds", "generate_len", "average_accept_length", "verdicts", "name"):
        assert result[name] == other[name]
    assert set(other) <= set(result)
    assert (result["settings"]["frames"], result["settings"]["methods"]) == (2, [method])
    assert result["decoding_time"] > 0
    json.dumps(result, allow_nan=False)


def test_a_stop_string_ends_an_answer(random_pair, clip):
    runner = Runner(random_pair, race_settings("ar", max_new_tokens=60))
    long = replace(GREEDY, max_new_tokens=60)
    whole = runner.result(asked(clip, generation=long))
    stop = whole["output"].split()[2]
    result = runner.result(asked(clip, generation=replace(long, stops=(stop,))))
    assert result["output"] == whole["output"].split(stop)[0]
    assert result["finish"] == STOPPED
    assert result["generate_len"] <= whole["generate_len"]


def test_a_stop_string_ends_the_race_and_not_only_the_text(random_pair, clip, monkeypatch):
    import lvspec_core.race as race

    monkeypatch.setattr(race, "FLUSH_SECONDS", 0.0)  # every round is told at once
    runner = Runner(random_pair, race_settings("ar"))
    long = replace(GREEDY, max_new_tokens=200)
    stop = runner.result(asked(clip, generation=replace(long, max_new_tokens=4)))["output"].split()[0]
    assert runner.result(asked(clip, generation=replace(long, stops=(stop,))))["generate_len"] < 20


def test_a_video_that_cannot_be_read_is_a_record_and_what_would_fail_always_is_raised(random_pair, clip, tmp_path):
    (tmp_path / "bad.mp4").write_bytes(b"no video")
    runner = Runner(random_pair, race_settings())
    failed = runner.result(asked(tmp_path / "bad.mp4"))
    assert "bad.mp4" in failed["error"]
    assert set(failed) == set(runner.result(asked(clip)))
    with pytest.raises(SettingsError):
        runner.result(asked(clip, question="x" * 5000))


def test_repeated_questions_draw_anew_and_the_same_again_in_another_run(random_pair, clip):
    hot = replace(GREEDY, temperature=1.5)

    def answers():
        runner = Runner(random_pair, race_settings("ar"))
        return [runner.result(asked(clip, generation=hot, repeat=repeat)) for repeat in range(3)]

    first, second = answers(), answers()
    assert len({tuple(result["token_ids"]) for result in first}) > 1
    assert [result["token_ids"] for result in first] == [result["token_ids"] for result in second]
    assert len({json.dumps(result["settings"]) for result in first}) == 1


def test_several_processes_need_a_calibrated_pair(random_pair):
    class Uncalibrated:
        info, uncalibrated = random_pair.info, True

    check_calibrated(random_pair, race_settings(), 4)
    check_calibrated(Uncalibrated(), race_settings("specvlm"), 4)
    check_calibrated(Uncalibrated(), race_settings(), 1)
    with pytest.raises(SettingsError, match="calibrate"):
        check_calibrated(Uncalibrated(), race_settings(), 4)


def record(index: int, method: str, text: str = "", frames: int = 8, repeat: int = 0) -> dict:
    return {
        "sample_index": index, "method": method, "output": text, "repeat": repeat, "pair": "p", "settings": {"frames": frames},
        "generate_len": 4, "decoding_time": 2.0, "average_accept_length": 2.0,
    }  # fmt: skip


def test_the_records_of_all_processes_and_methods_become_one_file(tmp_path):
    for method in ("lvspec", "ar"):
        recorders = [Recorder(tmp_path, method, rank) for rank in (0, 1)]
        for index in range(4):
            recorders[index % 2].add("some/task", record(index, method))
        for recorder in recorders:
            recorder.close()
        (path,) = recorders[0].merge()
    assert path == tmp_path / "some_task" / RESULTS
    assert [(each["sample_index"], each["method"]) for each in read_results(path)] == [(n, m) for n in range(4) for m in ("ar", "lvspec")]
    assert [json.loads(line)["avg_accept_length"] for line in (path.parent / METRICS).read_text().splitlines()] == [2.0, 2.0]
    assert not list(path.parent.glob("results.part-*"))


def test_a_run_replaces_its_own_records_and_no_others(tmp_path):
    def run(*records):
        recorder = Recorder(tmp_path, records[0]["method"])
        for each in records:
            recorder.add("t", each)
        recorder.close()
        recorder.merge()
        return [(each["method"], each["sample_index"], each["output"]) for each in read_results(tmp_path / "t" / RESULTS)]

    run(record(0, "ar", "x"))
    run(record(0, "lvspec", "old"), record(1, "lvspec", "old"))
    assert run(record(1, "lvspec", "new")) == [("ar", 0, "x"), ("lvspec", 0, "old"), ("lvspec", 1, "new")]
    assert run(record(1, "lvspec", "other settings", frames=16)) == [("ar", 0, "x"), ("lvspec", 1, "other settings")]


def test_a_torn_record_of_a_killed_process_is_dropped_and_the_whole_ones_stay(tmp_path):
    (tmp_path / "t").mkdir()
    part = tmp_path / "t" / "results.part-ar-000.jsonl"
    part.write_text(json.dumps(record(0, "ar")) + "\n" + json.dumps(record(1, "ar"))[:30])
    recorder = Recorder(tmp_path, "ar")
    recorder.add("t", record(1, "ar", "whole"))
    recorder.close()
    recorder.merge()
    assert [each["output"] for each in read_results(tmp_path / "t" / RESULTS)] == ["", "whole"]


@dataclass
class FakeInstance:
    args: tuple
    idx: int = 0
    metadata: dict = field(default_factory=dict)


@pytest.fixture
def fake_lmms_eval(monkeypatch):
    """As much of lmms-eval 0.7 as the models touch; yields the figures that they log."""

    class Base:
        def __init__(self):
            self.task_dict, self._rank = {}, 0
            self.cache_hook = types.SimpleNamespace(add_partial=lambda *each: None)

        rank = property(lambda self: self._rank)

        def clean(self):
            pass

    logged: list[dict] = []
    result = dataclass(type("GenerationResult", (), {"__annotations__": {"text": str, "token_counts": object}}))
    counts = dataclass(type("TokenCounts", (), {"__annotations__": {"output_tokens": int}}))
    parts = {
        "lmms_eval.api.instance": {"GenerationResult": result, "Instance": FakeInstance, "TokenCounts": counts},
        "lmms_eval.api.model": {"lmms": Base},
        "lmms_eval.models.model_utils.gen_metrics": {"log_metrics": lambda **values: logged.append(values)},
        "lmms_eval.models.registry_v2": {"ModelManifest": lambda name, **paths: (name, paths)},
        "loguru": {"logger": types.SimpleNamespace(warning=lambda text: logged.append({"warning": text}), info=lambda text: None)},
    }
    for name, values in parts.items():
        steps = name.split(".")
        for end in range(1, len(steps)):
            monkeypatch.setitem(sys.modules, ".".join(steps[:end]), types.ModuleType(".".join(steps[:end])))
        module = types.ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "lvspec_core.lmms.model", raising=False)
    yield logged
    sys.modules.pop("lvspec_core.lmms.model", None)


@pytest.fixture
def make_model(fake_lmms_eval, random_pair, monkeypatch, tmp_path):
    """The model of the random pair's family, on the random pair."""
    monkeypatch.setitem(PAIRS, "random", random_pair.info)
    name = next(kind for name, kind in plugin.MODELS.items() if name == f"{random_pair.info.family}_lvspec")
    kind = getattr(importlib.import_module("lvspec_core.lmms.model"), name)
    return lambda **more: kind(**{"batch_size": 1, "pair": "random", "save_path": str(tmp_path / "out"), **BRIEF, **more})


def requests_of(model, videos, **generation):
    model.task_dict = {"t": {"test": [{"video": str(video)} for video in videos]}}
    return [FakeInstance(("What?", generation, lambda row: [row["video"]], index, "t", "test")) for index in range(len(videos))]


def test_manifests_name_simple_models(fake_lmms_eval):
    assert dict(plugin.models())["qwen2_5_vl_lvspec"] == {"simple_class_path": "lvspec_core.lmms.model.Qwen2_5_VL"}


def test_requests_are_answered_in_order_recorded_and_padding_is_not(make_model, fake_lmms_eval, clip, tmp_path):
    (tmp_path / "bad.mp4").write_bytes(b"no video")
    model = make_model(method="naive_sd")
    requests = requests_of(model, [clip, tmp_path / "bad.mp4", clip], max_new_tokens=5)
    padding = FakeInstance(requests[2].args, metadata={"__padding_only__": True})
    first = FakeInstance(requests[0].args, metadata={"__padding_only__": True})
    assert model.generate_until([first])[0].text
    assert not (tmp_path / "out" / "t").exists()
    answers = model.generate_until([requests[0], requests[1], requests[2], requests[2], padding])
    model.clean()
    assert [bool(answer.text) for answer in answers] == [True, False, True, True, True]
    assert [answer.token_counts.output_tokens for answer in answers] == [5, 0, 5, 5, 5]
    results = read_results(tmp_path / "out" / "t" / RESULTS)
    assert [(each["sample_index"], each["repeat"], bool(each["error"])) for each in results] == [
        (0, 0, False),
        (1, 0, True),
        (2, 0, False),
        (2, 1, False),
    ]
    assert results[0]["output"] == answers[0].text
    warning, figures = fake_lmms_eval
    assert "1 of 4 samples failed" in warning["warning"]
    assert figures["total_gen_tokens"] == 15
    assert figures["additional_metrics"]["method"] == "naive_sd"
    assert figures["total_elapsed_time"] > figures["additional_metrics"]["decoding_seconds"] > 0


def test_what_the_models_cannot_do_is_one_sentence(make_model, clip):
    model = make_model()
    for call in (model.loglikelihood, model.generate_until_multi_round):
        with pytest.raises(NotImplementedError, match="not supported"):
            call([])
    with pytest.raises(SettingsError, match="apply_chat_template"):
        _ = model.chat_template
    (request,) = requests_of(model, [clip], num_beams=3)
    with pytest.raises(SettingsError, match="num_beams"):
        model.generate_until([request])
    picture = FakeInstance(("What?", {}, lambda row: [Image.new("RGB", (4, 4))], 0, "t", "test"))
    with pytest.raises(DataError, match="picture"):
        model.generate_until([picture])


def test_a_model_that_cannot_be_made_says_why(make_model, monkeypatch):
    with pytest.raises(SettingsError, match="batch_size"):
        make_model(batch_size="4")
    with pytest.raises(SettingsError, match="CUDA_VISIBLE_DEVICES"):
        make_model(device="meta")
    with pytest.raises(PairError):
        make_model(pair="nope")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SettingsError, match="ACCELERATE_USE_CPU"):
        make_model()


def test_the_shapes_tasks_hold_the_truth_and_three_wrong_descriptions(tmp_path):
    shapes_task.write_tasks(tmp_path, 3)
    rows = [json.loads(line) for line in (tmp_path / "shapes_choice.jsonl").read_text().splitlines()]
    captions = [json.loads(line) for line in (tmp_path / "shapes_captions.jsonl").read_text().splitlines()]
    assert len(rows) == len(captions) == 3
    for row in rows:
        assert Path(row["video"]).is_file()
        assert len(set(row["options"])) == 4
        assert row["options"]["ABCD".index(row["answer"])] == row["truth"]
        assert scoring.choice_results(row, [row["truth"]])["accuracy"] == {"choice": row["answer"], "score": 100.0}
        wrong = next(option for option in row["options"] if option != row["truth"])
        assert scoring.choice_results(row, [wrong])["accuracy"]["score"] == 0
        assert scoring.choice_results(row, ["nothing"])["accuracy"] == {"choice": "", "score": 0.0}
    right = scoring.caption_results(captions[0], [captions[0]["truth"]])["facts_right"]
    assert right["right"] == right["total"] == sum(map(len, world_clip(0)[0].facts().values()))
    assert scoring.pooled([right, {"right": 0, "total": right["total"]}]) == 50
    yaml = (tmp_path / "shapes_captions.yaml").read_text()
    for line in yaml.splitlines():
        if "!function" in line:
            module, _, name = line.split("!function ")[1].rpartition(".")
            assert callable(getattr(importlib.import_module(module), name))


def test_a_fact_in_another_object_s_place_is_not_stated():
    truth = "two white small red ring centre still large blue cross lower-left upwards."
    assert scoring.stated(truth, truth) == (12, 12)
    assert scoring.stated(truth.replace("red", "blue", 1), truth) == (11, 12)
    assert scoring.chosen("red", ["one red", "two red"]) == "", "two options share as much"


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("lmms_eval") is None, reason="lmms-eval is not installed (LMMS_EVAL.md says how)")
@pytest.mark.timeout(600)
def test_lmms_eval_runs_the_models_and_lossless_methods_score_as_ar(tmp_path):
    shapes_task.write_tasks(tmp_path / "tasks", 3)
    environment = {**os.environ, "HF_HOME": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    scores = {}
    for name, pair in (("qwen2_5_vl_lvspec", "shapes-qwen"), ("llava_onevision_lvspec", "shapes-llava")):
        for method in ("ar", "naive_sd", "specvlm", "lvspec"):
            out = tmp_path / pair / method
            command = [
                *(sys.executable, "-m", "lmms_eval", "--model", name, "--tasks", "shapes_captions,shapes_choice"),
                *("--model_args", f"pair={pair},method={method},save_path={tmp_path / 'records' / pair}"),
                *("--include_path", str(tmp_path / "tasks"), "--output_path", str(out), "--log_samples"),
            ]
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
            found = list(out.rglob("*_results.json"))
            assert found, done.stdout[-3000:] + done.stderr[-3000:]
            results = json.loads(found[0].read_text())["results"]
            scores[pair, method] = (results["shapes_captions"]["facts_right,none"], results["shapes_choice"]["accuracy,none"])
        assert scores[pair, "ar"] == scores[pair, "naive_sd"] == scores[pair, "specvlm"]
        assert scores[pair, "lvspec"][0] >= scores[pair, "ar"][0] - 5  # three clips: a single fact is some points
        records = read_results(tmp_path / "records" / pair / "shapes_captions" / RESULTS)
        texts = {(each["sample_index"], each["method"]): each["token_ids"] for each in records}
        assert len(texts) == 12
        assert all(texts[index, "ar"] == texts[index, method] for index in range(3) for method in ("naive_sd", "specvlm"))
        assert all(each["average_accept_length"] > 2 for each in records if each["method"] == "lvspec")
