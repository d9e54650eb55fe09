"""Passes of fixed shape and CUDA graphs, without a GPU: recorded by a stand-in that repeats what was recorded and nothing else."""

from __future__ import annotations

import logging
from dataclasses import replace

import graph_stand_in
import pytest
import torch
from endless import endless_lane
from graph_stand_in import Graph
from host_waits import HostWaits

from lvspec_core import graph_plan
from lvspec_core.clock import Clock
from lvspec_core.decoding import decode
from lvspec_core.families import graphs
from lvspec_core.families.cache import KVCache
from lvspec_core.families.fixed import FixedPass, FixedRows, Weights
from lvspec_core.prefill import Prefilling
from lvspec_core.race import environment, run_race
from lvspec_core.records import Prefill
from lvspec_core.relevance import Calibration
from lvspec_core.settings import METHODS, RaceSettings
from lvspec_core.trees import tree_of

SETTINGS = RaceSettings(frames=4, max_new_tokens=40, draft_length=5, adaptive=0.0)
PROPOSALS = ("chain", "static_tree", "dynamic_tree")
PRUNED = list(range(0, 16, 3))
BRANCHES = (-1, -1, 0, 0, 1)
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


@pytest.fixture
def gpu(monkeypatch):
    return graph_stand_in.install(monkeypatch)


def streams_of(pair, clip, keep=None):
    """The same stream twice, at the prompt's end."""
    prompt = pair.target.encode(clip, "What?")
    stream = pair.target.prefill(prompt, pair.target.video_features(prompt), len(prompt.tail) + 30, keep)
    stream.read_tail(prompt)
    return stream, stream.fork()


def text_of(lane):
    list(decode(lane))
    return lane.token_ids


@pytest.mark.parametrize("keep", [None, PRUNED])
@torch.inference_mode()
def test_a_pass_of_fixed_shape_says_what_the_eager_one_says(random_pair, make_clip, keep):
    """Chains and branches of any number of rows up to its own, one after another, with what is rolled back and kept between them."""
    mine, theirs = streams_of(random_pair, make_clip(), keep)
    fixed = FixedPass(mine, 8, (0, 3))
    tree = tree_of(BRANCHES)
    for count, sees in ((1, None), (8, None), (3, None), (6, tree.sees), (2, None), (2, tree.sees[4:, 1:])):
        ids = torch.arange(5, 5 + count)
        seen, expected = Weights((0, 3)), Weights((0, 3))
        if sees is not None and len(sees) == 2:  # a level of a tree whose first level was read before
            sees = torch.tensor([[True, False, True, False], [False, True, False, True]])
        torch.testing.assert_close(fixed.read(ids, seen, sees), theirs.append(ids, expected, sees), **CLOSE)
        for layer in (0, 3):
            torch.testing.assert_close(seen.of[layer], expected.of[layer], **CLOSE)
        assert mine.length == theirs.length
        if count == 6:
            for stream in (mine, theirs):
                stream.keep(stream.length - 6, [0, 2, 4])
        elif count == 3:
            for stream in (mine, theirs):
                stream.rollback(stream.length - 2)


@torch.inference_mode()
def test_padding_writes_nothing_of_its_own(random_pair, make_clip):
    """Right behind its last row stands what stood there, and the rows that it did write are the eager ones."""
    mine, theirs = streams_of(random_pair, make_clip())
    fixed = FixedPass(mine, 8)
    (store,), (other,) = mine.cache.stores, theirs.cache.stores
    before = mine.length
    store[:, :, :, before:] = 7.0
    fixed.read(torch.tensor([5, 6, 7]))
    theirs.append(torch.tensor([5, 6, 7]))
    assert (store[:, :, :, before + 3 :] == 7.0).all()
    torch.testing.assert_close(store[:, :, :, : before + 3], other[:, :, :, : before + 3], **CLOSE)


@torch.inference_mode()
def test_memory_that_holds_no_numbers_disturbs_no_pass(random_pair, make_clip):
    mine, theirs = streams_of(random_pair, make_clip())
    for stream in (mine, theirs):
        stream.cache.stores[0][:, :, :, stream.length :] = float("nan")
    found = FixedPass(mine, 4).read(torch.tensor([5, 6]))
    torch.testing.assert_close(found, theirs.append(torch.tensor([5, 6])), **CLOSE)


@torch.inference_mode()
def test_what_a_replay_left_stays_when_the_next_one_comes(random_pair, make_clip, gpu):
    stream, _ = streams_of(random_pair, make_clip())
    recorded = graphs.recorded(stream, 2, (1,))
    seen, later = Weights((1,)), Weights((1,))
    hidden = recorded.read(torch.tensor([5, 6]), seen)
    before = hidden.clone(), seen.of[1].clone()
    assert not torch.equal(recorded.read(torch.tensor([9, 4]), later), hidden)
    assert torch.equal(hidden, before[0])
    assert torch.equal(seen.of[1], before[1])


@pytest.mark.parametrize("proposal", PROPOSALS)
@pytest.mark.parametrize("method", METHODS)
def test_replayed_texts_are_the_eager_ones(random_pair, make_clip, monkeypatch, method, proposal):
    settings = replace(SETTINGS, proposal=proposal)
    eager = endless_lane(random_pair, make_clip(), method, settings)
    expected = list(decode(eager))
    graph_stand_in.install(monkeypatch)
    lane = endless_lane(random_pair, make_clip(), method, settings)
    made, before = len(Graph.made), [graph.replays for graph in Graph.made]
    found = list(decode(lane))
    assert lane.token_ids == eager.token_ids
    assert [each.proposed for each in found] == [each.proposed for each in expected]
    for mine, theirs in zip(found, expected, strict=True):
        shares = [[token.relevance for token in each.tokens if token.relevance is not None] for each in (mine, theirs)]
        assert shares[0] == pytest.approx(shares[1], abs=1e-4)
    assert len(Graph.made) == made, "a round records nothing"
    assert made == sum(len(stream.passes.fixed) for stream in streams_in(lane)) >= (1 if method == "ar" else 3)
    for stream in streams_in(lane):
        assert any(fixed.graph.replays > before[Graph.made.index(fixed.graph)] for fixed in stream.passes.fixed.values())


def streams_in(lane):
    return [lane.target, lane.drafter.stream] if hasattr(lane.drafter, "stream") else [lane.target]


def eager_passes(monkeypatch) -> list[int]:
    """The rows of the passes that run eagerly from now on."""
    rows = []
    run = graphs.VideoLM.run

    def counted(self, hidden, rotary, cache, *rest):
        rows.append(hidden.shape[1])
        return run(self, hidden, rotary, cache, *rest)

    monkeypatch.setattr(graphs.VideoLM, "run", counted)
    return rows


@pytest.mark.parametrize("proposal", PROPOSALS)
@pytest.mark.parametrize("method", METHODS)
def test_every_pass_of_a_round_is_replayed(random_pair, make_clip, gpu, monkeypatch, method, proposal):
    lane = endless_lane(random_pair, make_clip(), method, replace(SETTINGS, proposal=proposal))
    rows = eager_passes(monkeypatch)
    list(decode(lane))
    assert rows == []
    with torch.inference_mode():
        lane.target.passes = None
        lane.target.rollback(lane.target.length - 1)
        lane.target.append(torch.tensor([5]))
    assert rows == [1], "the counter counts"


def test_a_probe_reads_the_rows_that_were_replayed(random_pair, make_clip, monkeypatch):
    torch.manual_seed(0)
    width = random_pair.draft.head.weight.shape[1]
    weights = tuple((torch.randn(width + 1) / 8).tolist())
    probe = Calibration("draft_probe", None, 0.5, tuple(index / 100 for index in range(101)), weights=weights)
    pair = replace(random_pair, calibration=probe)
    shares = []
    for turn in range(2):
        if turn:
            graph_stand_in.install(monkeypatch)
        lane = endless_lane(pair, make_clip(), "lvspec", SETTINGS)
        shares.append([token.relevance for outcome in decode(lane) for token in outcome.tokens if token.relevance is not None])
    assert len({round(share, 3) for share in shares[0]}) > 5
    assert shares[1] == pytest.approx(shares[0], abs=1e-3)


@pytest.mark.parametrize("proposal", PROPOSALS)
@pytest.mark.parametrize("method", METHODS)
def test_a_round_that_replays_waits_no_more_than_an_eager_one(random_pair, make_clip, gpu, method, proposal):
    lane = endless_lane(random_pair, make_clip(), method, replace(SETTINGS, proposal=proposal))
    lane.round()
    for _ in range(4):
        waits = HostWaits()
        with waits:
            outcome = lane.round()
        grown = {"lvspec_core.tree_drafting:_cut": 1} if proposal == "dynamic_tree" and outcome.proposed else {}
        assert waits.reads == {"lvspec_core.verifiers:judge": 1, **grown}
        assert not waits.copies


def test_recording_is_a_part_of_the_prefill_that_its_lane_pays(random_pair, make_clip, gpu, monkeypatch):
    running = []
    for name, value in (("start", True), ("stop", False)):
        before = getattr(Clock, name)
        monkeypatch.setattr(Clock, name, lambda self, before=before, value=value: (running.append(value), before(self))[1])
    made = Graph.__init__

    def init(self):
        assert not (running and running[-1]), "on a lane's clock"
        made(self)

    monkeypatch.setattr(Graph, "__init__", init)
    records = list(run_race(random_pair, make_clip(), replace(SETTINGS, max_new_tokens=8)))
    parts = [record for record in records if isinstance(record, Prefill) and record.part == "CUDA graphs"]
    assert [part.lanes for part in parts] == [(name,) for name in METHODS]
    assert all(part.seconds > 0 for part in parts)
    assert Graph.made
    assert running
    assert not any(getattr(record, "error", "") for record in records)


def refused(random_pair, make_clip, caplog, method="naive_sd"):
    """A lane whose graphs were all refused, and what the log says."""
    with caplog.at_level(logging.WARNING):
        lane = endless_lane(random_pair, make_clip(), method, SETTINGS)
    assert [fixed for stream in streams_in(lane) for fixed in stream.passes.fixed.values() if fixed] == []
    return lane, [record.message for record in caplog.records if "run eagerly" in record.message]


def test_what_is_not_faster_is_not_used(random_pair, make_clip, monkeypatch, caplog):
    expected = text_of(endless_lane(random_pair, make_clip(), "naive_sd", SETTINGS))
    graph_stand_in.install(monkeypatch, eager=0.001, replayed=0.001)
    lane, told = refused(random_pair, make_clip, caplog)
    assert len(told) == len(Graph.made) == 3
    assert all("replayed they take 1.00 ms, eagerly 1.00 ms" in line for line in told)
    assert text_of(lane) == expected


def test_what_cannot_be_recorded_runs_eagerly(random_pair, make_clip, monkeypatch, caplog):
    expected = text_of(endless_lane(random_pair, make_clip(), "naive_sd", SETTINGS))
    streams = graph_stand_in.install(monkeypatch)
    usual, run = streams.current, FixedPass.run

    def reads(self):
        run(self)
        float(self.hidden.sum())  # the host looks

    monkeypatch.setattr(FixedPass, "run", reads)
    lane, told = refused(random_pair, make_clip, caplog)
    assert len(told) == 3
    assert all("operation not permitted when stream is capturing" in line for line in told)
    assert streams.current is usual
    assert text_of(lane) == expected


def stale_ids(self, ids, sees=None):
    fill(self, torch.zeros_like(ids), sees)


def stale_place(self, ids, sees=None):
    kept = self.places.clone()
    fill(self, ids, sees)
    self.places.copy_(kept)


def stale_sight(self, ids, sees=None):
    fill(self, ids, None)


def no_numbers(self, ids, sees=None):
    fill(self, ids, sees)
    if sees is not None:
        self.cache.stores[0][:, :, :, self.cache.length :] = float("nan")


fill = FixedPass.fill


@pytest.mark.parametrize("broken", [stale_ids, stale_place, stale_sight, no_numbers])
def test_a_replay_that_says_something_else_is_not_used(random_pair, make_clip, gpu, monkeypatch, caplog, broken):
    monkeypatch.setattr(FixedPass, "fill", broken)
    with caplog.at_level(logging.WARNING):
        lane = endless_lane(random_pair, make_clip(), "naive_sd", SETTINGS)
    told = [record.message for record in caplog.records if "from the eager pass" in record.message]
    # a single row sees the same in a tree
    assert len(told) == (2 if broken is stale_sight else 3)
    assert lane.target.passes.fixed == {8: None}


def test_numbers_that_are_recorded_instead_of_read_are_found_out(random_pair, make_clip, gpu, monkeypatch, caplog):
    run = FixedPass.run

    def baked(self):
        start = self.cache.length - self.base  # right as long as the stream stands where it stood then
        self.places.copy_(self.coming[:, start : start + self.size])
        run(self)

    monkeypatch.setattr(FixedPass, "run", baked)
    _, told = refused(random_pair, make_clip, caplog)
    assert all("Disagreement" in line for line in told)


def test_what_recording_spoils_is_found_out(random_pair, make_clip, gpu, monkeypatch, caplog):
    record = graphs._record

    def spoiling(fixed, pool):
        fixed.cache.stores[0][:, :, :, fixed.cache.length - 1] += 1
        record(fixed, pool)

    monkeypatch.setattr(graphs, "_record", spoiling)
    _, told = refused(random_pair, make_clip, caplog)
    assert all("Disagreement" in line for line in told)


def test_a_pass_that_writes_nothing_does_not_live_on_what_the_eager_one_wrote(random_pair, make_clip, gpu, monkeypatch, caplog):
    def unwritten(self, key_states, value_states, layer_idx, *args, **kwargs):
        return self.parts[2 * layer_idx], self.parts[2 * layer_idx + 1]

    monkeypatch.setattr(FixedRows, "update", unwritten)
    _, told = refused(random_pair, make_clip, caplog)
    assert all("Disagreement" in line for line in told)


def test_weights_that_differ_are_found_out(random_pair, make_clip, gpu, monkeypatch, caplog):
    see = Weights.see
    monkeypatch.setattr(Weights, "see", lambda self, layer, weights: see(self, layer, weights.roll(1, -1)))
    with caplog.at_level(logging.WARNING):
        lane = endless_lane(random_pair, make_clip(), "lvspec", SETTINGS)
    assert not any(lane.drafter.stream.passes.fixed.values())
    assert all(lane.target.passes.fixed.values())


def test_passes_that_were_not_recorded_run_eagerly(random_pair, make_clip, gpu, monkeypatch):
    lane = endless_lane(random_pair, make_clip(), "ar", SETTINGS)
    stream, rows = lane.target, eager_passes(monkeypatch)
    with torch.inference_mode():
        stream.append(torch.tensor([5, 6]))
        stream.append(torch.tensor([5]), Weights((1,)))
        assert rows == [2, 1]
        stream.append(torch.tensor([5]))
        stream.append(torch.tensor([5]), Weights(()))
        assert rows == [2, 1]
        for _ in range(stream.cache.capacity - stream.length):
            stream.append(torch.tensor([5]))
        assert rows == [2, 1]
        with pytest.raises(RuntimeError):
            stream.append(torch.tensor([5]))
        assert rows == [2, 1, 1]
    assert stream.fork().passes is None


def test_without_the_variable_nothing_is_recorded(random_pair, make_clip, gpu, monkeypatch):
    monkeypatch.delenv(graph_plan.VARIABLE)
    lane = endless_lane(random_pair, make_clip(), "lvspec", SETTINGS)
    assert Graph.made == []
    assert all(stream.passes is None for stream in streams_in(lane))
    assert "cuda_graphs" not in environment(random_pair)


@pytest.mark.parametrize("place", ["cpu", "several"])
def test_where_graphs_cannot_be_had_the_log_says_why(random_pair, make_clip, gpu, monkeypatch, caplog, place):
    if place == "cpu":
        monkeypatch.setattr(graphs, "on_gpu", lambda device: device.type == "cuda")
    else:
        monkeypatch.setattr(random_pair.target, "spread", True)
    with caplog.at_level(logging.WARNING):
        lane = endless_lane(random_pair, make_clip(), "naive_sd", SETTINGS)
    told = [record.message for record in caplog.records if "No CUDA graphs" in record.message]
    assert len(told) == (2 if place == "cpu" else 1)
    assert ("not on a GPU" if place == "cpu" else "several devices") in told[0]
    assert lane.target.passes is None
    assert (lane.drafter.stream.passes is None) == (place == "cpu")


def test_a_race_tells_that_graphs_were_asked_for(random_pair, monkeypatch):
    monkeypatch.setenv(graph_plan.VARIABLE, "1")
    assert "cuda_graphs" not in environment(random_pair), "there are none on a CPU"
    monkeypatch.setattr(type(random_pair.target), "device", torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    assert environment(random_pair)["cuda_graphs"] is True


@pytest.mark.parametrize(("rows", "size"), [(1, 1), (2, 2), (3, 4), (9, 16), (26, 32), (65, 128)])
def test_rows_are_padded_to_powers_of_two(rows, size):
    assert graph_plan.padded(rows) == size


def test_graphs_need_no_further_room_in_the_caches(random_pair, make_clip, monkeypatch):
    """So the estimate of a race's memory holds with them as without."""
    made, before = [], KVCache.__init__

    def init(self, layers, heads, capacity, *rest):
        made[-1].append((layers, heads, capacity))
        before(self, layers, heads, capacity, *rest)

    monkeypatch.setattr(KVCache, "__init__", init)
    for turn in range(2):
        if turn:
            graph_stand_in.install(monkeypatch)
        made.append([])
        list(Prefilling(random_pair, make_clip(), replace(SETTINGS, proposal="static_tree").validated()).run())
    assert sorted(made[0]) == sorted(made[1]) != []


def test_a_caches_memory_is_given_back_with_its_stream(random_pair, make_clip, gpu):
    """At once, not when the garbage collector comes: no cycle keeps it."""
    import gc
    import weakref

    lane = endless_lane(random_pair, make_clip(), "lvspec", SETTINGS)
    gc.collect()
    gc.disable()
    try:
        caches = [weakref.ref(stream.cache) for stream in streams_in(lane)]
        Graph.made.clear()
        del lane
        assert [cache() for cache in caches] == [None, None]
    finally:
        gc.enable()
