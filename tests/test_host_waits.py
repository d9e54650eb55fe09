"""On a GPU a round may wait for the device once: to read the verdict. Whatever else waits is written down here."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from endless import endless_lane
from host_waits import HostWaits

from lvspec_core.clock import Clock
from lvspec_core.settings import METHODS, RaceSettings
from lvspec_core.transfer import upload, upload_tensor
from lvspec_core.trees import Tree

SETTINGS = RaceSettings(frames=4, max_new_tokens=40, draft_length=5, adaptive=0.0)
GROWN = "lvspec_core.tree_drafting:_cut"  # the shape of a dynamic tree is what the draft said
DOUBT = "lvspec_core.drafting:_doubtful"  # an adaptive chain asks after every token whether to go on


def waits_of_rounds(lane, rounds: int = 4):
    """For each round after the first what was counted, and what it proposed."""
    lane.round()  # whatever is made once is made here
    for _ in range(rounds):
        waits = HostWaits()
        with waits:
            outcome = lane.round()
        yield waits, outcome


@pytest.mark.parametrize("proposal", ["chain", "static_tree", "dynamic_tree"])
@pytest.mark.parametrize("method", METHODS)
def test_a_greedy_round_reads_the_verdict_and_nothing_else(random_pair, make_clip, method, proposal):
    for waits, outcome in waits_of_rounds(endless_lane(random_pair, make_clip(), method, replace(SETTINGS, proposal=proposal))):
        shape = {GROWN: 1} if proposal == "dynamic_tree" and outcome.proposed else {}
        assert waits.reads == {"lvspec_core.verifiers:judge": 1, **shape}
        assert not waits.copies


@pytest.mark.parametrize("method", ["naive_sd", "lvspec"])
def test_an_adaptive_chain_waits_after_each_of_its_tokens(random_pair, make_clip, method):
    for waits, outcome in waits_of_rounds(endless_lane(random_pair, make_clip(), method, replace(SETTINGS, adaptive=0.3))):
        doubts = waits.reads.pop(DOUBT, 0)
        # beside each token's probability a CPU reads the relevance where that is low; a GPU reads both at once
        assert len(outcome.proposed) <= doubts <= 2 * len(outcome.proposed)
        assert waits.reads == {"lvspec_core.verifiers:judge": 1}
        assert not waits.copies


def test_drawn_rounds_wait_only_where_the_rules_of_drawing_do(random_pair, make_clip):
    settings = replace(SETTINGS, temperature=0.8)
    for waits, _ in waits_of_rounds(endless_lane(random_pair, make_clip(), "naive_sd", settings)):
        assert {place.split(":")[0] for place in waits.reads} <= {"lvspec_core.sampling", "lvspec_core.verifiers"}


def test_the_counter_sees_what_would_wait():
    values = torch.arange(6)
    waits = HostWaits()
    with waits:
        _ = values.tolist(), int(values[1]), float(values[2]), bool(values[3] > 1), values[4].item()
        _ = values[values > 2], values[values[0]]
        _ = values[[1, 2]], torch.tensor([1])
        _ = upload([1], values.device), upload_tensor(values > 1, values.device)
        _ = values[torch.arange(2)], values.topk(2), values[1:3]
    assert sum(waits.reads.values()) == 7
    assert sum(waits.copies.values()) == 2


def test_what_is_put_on_a_device_arrives():
    cpu = torch.device("cpu")
    assert upload([3, 1], cpu).tolist() == [3, 1]
    tree = Tree((-1, -1, 0))
    assert torch.equal(tree.sees_on(cpu), tree.sees)
    assert tree.sees_on(cpu) is tree.sees_on(cpu)


class Device:
    """A GPU that is as slow as it is told: events are noted when the work before them is done."""

    def __init__(self, monkeypatch):
        self.host = self.device = 0.0
        self.waits = 0
        device = self

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self, stream):
                self.at = device.device

            def elapsed_time(self, other):
                return 1000 * (other.at - self.at)

        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
        monkeypatch.setattr(torch.cuda, "synchronize", self.wait)
        monkeypatch.setattr("lvspec_core.clock.time.perf_counter", lambda: self.host)

    def wait(self, device=None):
        self.waits += 1
        self.host = self.device = max(self.host, self.device)

    def work(self, launch: float, seconds: float):
        self.host += launch
        self.device = max(self.device, self.host) + seconds


def test_on_a_gpu_the_clock_waits_at_the_borders_of_a_round_alone(monkeypatch):
    device = Device(monkeypatch)
    clock = Clock(torch.device("cuda"))
    for _ in range(2):
        device.work(0.0, 5.0)  # somebody else's work must not count
        clock.start()
        borders = device.waits
        device.work(0.1, 1.0)
        clock.mark()
        device.work(0.1, 3.0)
        clock.mark()
        assert device.waits == borders
        drafted, scored, ended = clock.stop()
        assert device.waits == borders + 1
        assert (drafted, scored, ended) == pytest.approx((1.1, 4.1, 4.1))
