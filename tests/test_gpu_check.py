"""gpu-check without a GPU: exact shapes, the whole path on models scaled down, failures, and what a cut-off run leaves."""

from __future__ import annotations

import json

import pytest
import torch

from lvspec_core import __main__ as command_line
from lvspec_core.errors import UserError
from lvspec_core.families import fixed, graphs
from lvspec_core.families.cache import KVCache
from lvspec_core.gpu_check import command, steps, timing
from lvspec_core.gpu_check.models import CHECKED, SCALES, noise, random_model
from lvspec_core.gpu_check.rows import Bytes, Row
from lvspec_core.gpu_check.timing import Budget, Timing, measure
from lvspec_core.registry import PAIRS

CPU = torch.device("cpu")
ARGUMENTS = ["--device", "cpu", "--scale", "tiny", "--frames", "2", "--pairs"]
PASSES = ["one AR token", "verification, γ = 4", "verification, γ = 8", "verification, γ = 16", "verification, tree of 25"]
TARGET_STEPS = [name for step in PASSES for name in (step, f"{step}, replayed")]
DRAFT_STEPS = ["prefill of the video", "one draft token", "one draft token, replayed", "8 draft tokens", "8 draft tokens, replayed"]
DRAFT_STEPS += ["8 draft tokens, the host looks at each"]
EVERY_STEP = [
    *(("target", "all", step) for step in ["frames to patches, on the host", "vision tower", "prefill of the video", *TARGET_STEPS]),
    ("draft", "all", "vision tower"),
    *(("draft", share, step) for share in ("all", "10%") for step in DRAFT_STEPS),
]


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """Once is enough where no figure counts."""
    monkeypatch.setattr(timing, "FEWEST", 1)
    monkeypatch.setattr(timing, "MOST", 1)
    torch.set_num_threads(1)


def checked(folder, *pairs, more=()) -> dict:
    assert command.main([*ARGUMENTS, ",".join(pairs), "--out", str(folder), *more]) == 0
    return json.loads((folder / "gpu-check.json").read_text())


@pytest.mark.parametrize("pair", ["qwen2.5-vl-7b", "llava-onevision-7b"])
def test_every_step_of_a_pair_is_measured_and_told(tmp_path, capsys, pair):
    told = checked(tmp_path / "new", pair)
    assert told["state"] == "finished"
    assert [(row["role"], row["sees"], row["step"]) for row in told["rows"]] == EVERY_STEP
    assert all(row["timing"]["median"] > 0 and not row["why"] for row in told["rows"])
    bounded = {row["step"] for row in told["rows"] if row["times_the_limit"]}
    assert bounded == {*TARGET_STEPS, *DRAFT_STEPS[1:]}, "a prefill computes, and is held against no bandwidth"
    one, tree = (next(row for row in told["rows"] if row["step"] == step) for step in (PASSES[0], PASSES[-1]))
    speed = told["bandwidth"]["bytes_per_second"]
    assert one["limit_seconds"] == pytest.approx((one["needs"]["weights"] + one["needs"]["cache"]) / speed)
    assert tree["needs"]["weights"] == one["needs"]["weights"]
    assert tree["rows"] == 26
    assert tree["cached"] == one["cached"], "a step leaves the cache as it was"
    all_of_it, pruned = (
        next(row for row in told["rows"] if row["step"] == DRAFT_STEPS[1] and row["sees"] == sees) for sees in ("all", "10%")
    )
    assert pruned["cached"] < all_of_it["cached"] == one["cached"]
    for step in (*PASSES, "one draft token", "8 draft tokens"):
        eager, replayed = ([row for row in told["rows"] if row["step"] == name] for name in (step, f"{step}, replayed"))
        for kind in ("rows", "cached", "needs", "limit_seconds"):
            assert [row[kind] for row in eager] == [row[kind] for row in replayed], "held against the same limit"
    page = (tmp_path / "new" / "gpu-check.md").read_text()
    assert all(step in page for _, _, step in EVERY_STEP)
    assert "measures nothing real" in page
    assert "one AR token" in capsys.readouterr().out


@pytest.mark.parametrize("name", sorted({name for pair in CHECKED.values() for name in pair}))
def test_the_shapes_are_the_real_ones(name):
    """On a device that holds no numbers: as many parameters as the checkpoint has, and every one of them where it is read."""
    from lvspec_core.checkpoints import CHECKPOINTS

    model = random_model(name, SCALES["full"], torch.bfloat16, torch.device("meta"))
    assert sum(value.numel() for value in model.model.parameters()) == CHECKPOINTS[name].parameters
    text = sum(value.numel() for value in (*model.decoder.parameters(), *({} if tied(model) else model.head.parameters())))
    embeddings = model.embed.weight.numel()
    needs = steps.read_bytes(model, 10)
    assert needs.weights == 2 * (text - (0 if tied(model) else embeddings))
    cache: KVCache = model.new_cache(10)
    tensors = [value for held in vars(cache).values() for value in (held if isinstance(held, tuple) else (held,))]
    assert needs.cache == sum(2 * value.numel() for value in tensors if isinstance(value, torch.Tensor))


def tied(model) -> bool:
    return model.head.weight is model.embed.weight


def test_the_pairs_are_those_of_the_registry():
    for name in CHECKED.keys() & PAIRS.keys():
        assert CHECKED[name] == (PAIRS[name].target, PAIRS[name].draft)


def test_without_a_gpu_it_is_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert command_line.main(["gpu-check"]) == 2
    out, told = capsys.readouterr()
    assert (out, told.count("\n")) == ("", 1)
    assert "no CUDA GPU" in told


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--pairs", "nope"], "Unknown pair 'nope'"),
        (["--pairs", ","], "at least one pair"),
        (["--frames", "0"], "whole numbers from 1 to 128"),
        (["--frames", "eight"], "whole numbers"),
        (["--budget-seconds", "0"], "between 1 and"),
        (["--device", "cpu"], "add --scale tiny"),
    ],
)
def test_what_cannot_be_asked_gets_a_sentence(arguments, sentence):
    with pytest.raises(UserError, match=sentence):
        command.main(arguments)


def test_a_folder_that_cannot_be_written_gets_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="Nothing can be written"):
        checked(tmp_path / "file", "qwen2.5-vl-7b")


def failing(monkeypatch, bad: str, error: Exception):
    """Steps of this name fail from now on."""

    def stepped(self, row, step):
        if step.name == bad:
            step.work = lambda: (_ for _ in ()).throw(error)
        return before(self, row, step)

    before = command.Check._step
    monkeypatch.setattr(command.Check, "_step", stepped)


def test_a_step_without_memory_is_a_row_and_the_rest_goes_on(tmp_path, monkeypatch):
    failing(monkeypatch, "verification, γ = 8", torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"))
    rows = checked(tmp_path, "qwen2.5-vl-7b")["rows"]
    assert [(row["step"], row["why"]) for row in rows if row["timing"] is None] == [("verification, γ = 8", "out of memory")]
    assert len(rows) == len(EVERY_STEP)


def test_a_graph_that_cannot_be_recorded_is_a_row_and_the_rest_goes_on(tmp_path, monkeypatch):
    def recorded(stream, size, *rest):
        if size > 8:
            raise RuntimeError("operation not permitted when stream is capturing")
        return record(stream, size, *rest)

    record = graphs.recorded
    monkeypatch.setattr(graphs, "recorded", recorded)
    rows = checked(tmp_path, "qwen2.5-vl-7b")["rows"]
    assert len(rows) == len(EVERY_STEP)
    failed = {row["step"]: row["why"] for row in rows if row["timing"] is None}
    assert set(failed) == {f"{step}, replayed" for step in PASSES[2:]}
    assert set(failed.values()) == {"RuntimeError: operation not permitted when stream is capturing"}


@torch.inference_mode()
def test_replayed_steps_replay_and_the_others_do_not(monkeypatch):
    """What is recorded is recorded once, in the warm-up, and a step leaves the stream as it was."""
    model = random_model("Qwen/Qwen2.5-VL-3B-Instruct", SCALES["tiny"], torch.float32, CPU)
    site = steps.Site(model, "draft", noise(2, SCALES["tiny"].side))
    recorded, read = [], []
    for place, name, told in ((graphs, "recorded", recorded), (fixed.FixedPass, "read", read)):
        before = getattr(place, name)
        monkeypatch.setattr(place, name, lambda *given, before=before, told=told: (told.append(given), before(*given))[1])
    for step in steps.opening(site):
        step.work()
    eager = None
    for step in next(steps.groups_of(site)):
        recorded.clear()
        step.work()
        assert len(recorded) == step.name.endswith("replayed")
        read.clear()
        said = step.work()
        assert len(read) == (step.rows if step.name.endswith("replayed") else 0)
        assert len(recorded) == step.name.endswith("replayed")
        if step.cached:
            stream = site.streams["all"]
            assert (stream.passes, stream.length) == (None, step.cached)
            if step.name.endswith("replayed"):
                assert torch.equal(said, eager), "the same tokens"
            eager = said


def test_what_needs_a_failed_step_is_left_out(tmp_path, monkeypatch):
    failing(monkeypatch, "prefill of the video", RuntimeError("cuBLAS: no\nmore lines"))
    rows = checked(tmp_path, "qwen2.5-vl-7b")["rows"]
    failed = [(row["role"], row["sees"]) for row in rows if row["why"] == "RuntimeError: cuBLAS: no"]
    assert failed == [("target", "all"), ("draft", "all"), ("draft", "10%")]
    assert {row["step"] for row in rows} == {"frames to patches, on the host", "vision tower", "prefill of the video"}


def test_models_that_cannot_be_made_are_rows(tmp_path, monkeypatch):
    def make(name, *rest):
        if "3B" in name:
            raise torch.OutOfMemoryError("no")
        return random_model(name, *rest)

    monkeypatch.setattr(command, "random_model", make)
    told = checked(tmp_path, "qwen2.5-vl-7b", "llava-onevision-7b")
    assert [(row["pair"], row["why"]) for row in told["rows"] if row["why"]] == [("qwen2.5-vl-7b", "out of memory")]
    assert {row["role"] for row in told["rows"] if row["pair"] == "qwen2.5-vl-7b" and row["timing"]} == {"target"}
    assert told["state"] == "finished"


def test_what_the_copy_took_is_given_back_before_it_is_looked_at_what_fits(tmp_path, monkeypatch):
    done = []
    for name in ("_tidy", "_built"):
        before = getattr(command.Check, name)

        def noted(self, *given, name=name, before=before):
            done.append(name)
            return before(self, *given)

        monkeypatch.setattr(command.Check, name, noted)
    checked(tmp_path, "qwen2.5-vl-7b")
    assert done.index("_tidy") < done.index("_built")


def test_a_run_that_is_cut_off_keeps_its_rows(tmp_path, monkeypatch):
    failing(monkeypatch, "verification, γ = 16", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        checked(tmp_path, "qwen2.5-vl-7b")
    told = json.loads((tmp_path / "gpu-check.json").read_text())
    assert told["state"] == "running"
    assert [row["step"] for row in told["rows"]][-1] == "verification, γ = 8, replayed"
    assert "verification, γ = 8" in (tmp_path / "gpu-check.md").read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"gpu-check.json", "gpu-check.md"}


def test_it_ends_within_its_budget(tmp_path, monkeypatch):
    """On a clock that runs only while steps work: eight steps of ten seconds do not fit into a minute."""
    now = [0.0]
    monkeypatch.setattr(command, "Budget", lambda seconds: Budget(seconds, lambda: now[0]))

    def stepped(self, row, step):
        work = step.work
        step.warm_ups, step.work = 0, lambda: (work(), now.__setitem__(0, now[0] + 10))
        return before(self, row, step)

    before = command.Check._step
    monkeypatch.setattr(command.Check, "_step", stepped)
    told = checked(tmp_path, "qwen2.5-vl-7b", more=["--budget-seconds", "60"])
    assert told["state"] == "out of time"
    assert len(told["rows"]) == 7
    assert told["rows"][-1]["why"] == "left out: no time"
    assert told["seconds"] == 60


def test_a_step_that_took_long_is_not_begun_when_little_time_is_left(tmp_path):
    now = [0.0]
    budget = Budget(100, lambda: now[0])
    check = command.Check(CPU, "tiny", FakeReport(), budget, FakeConsole())
    row = Row("p", "target", "m", 8, "prefill of the video")
    check.took[("p", "target", "prefill of the video", "all")] = (8, 1.0)
    with pytest.raises(command.OutOfTime):
        check._step(Row("p", "target", "m", 8 * 20, row.step), steps.Step(row.step, lambda: None))


class FakeReport:
    def add(self, row):
        self.row = row

    def line(self, row):
        return ""


class FakeConsole:
    def print(self, *told, **how):
        pass


def test_work_is_warmed_up_repeated_and_given_as_median_and_quartiles(monkeypatch):
    monkeypatch.setattr(timing, "FEWEST", 3)
    monkeypatch.setattr(timing, "MOST", 5)
    monkeypatch.setattr(timing, "ENOUGH_SECONDS", 0.4)
    clock, spent, calls = [0.0], iter([9, 9, 0.1, 0.3, 0.2, 7]), []

    def work():
        calls.append(1)
        clock[0] += next(spent)

    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])
    found = measure(work, CPU, Budget(60, lambda: 0.0))
    assert len(calls) == 5, "two to warm up; three suffice, as they took long enough"
    assert (found.low, found.median, found.high, found.repeats) == pytest.approx((0.1, 0.2, 0.3, 3))
    assert found.host is None
    assert found.peak is None


def test_the_limit_is_bytes_by_bandwidth_and_a_slow_host_is_named():
    row = Row("p", "target", "m", 8, "one AR token", timing=Timing(0.02, 0.02, 0.02, 5, host=0.018), needs=Bytes(14_000, 2_000))
    told = row.to_dict(1e6)
    assert told["limit_seconds"] == pytest.approx(0.016)
    assert told["times_the_limit"] == pytest.approx(1.25)
    assert told["host_sets_the_pace"]
    assert not Row("p", "target", "m", 8, "one AR token", timing=Timing(0.02, 0.02, 0.02, 5, host=0.004)).launching()
