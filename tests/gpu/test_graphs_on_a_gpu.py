"""CUDA graphs, recorded: the same texts as eagerly, no further waits, and the eager pass where recording fails."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
import torch
from endless import endless_lane
from test_rounds_on_a_gpu import SETTINGS, waits_in

from lvspec_core import graph_plan
from lvspec_core.decoding import decode
from lvspec_core.families import graphs
from lvspec_core.families.fixed import FixedPass
from lvspec_core.settings import METHODS

PROPOSALS = ("chain", "static_tree", "dynamic_tree")


@pytest.fixture
def always(monkeypatch):
    """Graphs are used whether or not they are faster."""
    monkeypatch.setenv(graph_plan.VARIABLE, "1")
    monkeypatch.setattr(graphs, "_paces", lambda stream, fixed: (2.0, 1.0))


def recorded_in(lane) -> list[FixedPass | None]:
    streams = [lane.target, *([lane.drafter.stream] if METHODS.index(lane.method) else [])]
    return [fixed for stream in streams for fixed in stream.passes.fixed.values()]


@pytest.mark.parametrize("proposal", PROPOSALS)
@pytest.mark.parametrize("method", METHODS)
def test_replayed_texts_are_the_eager_ones(pair, make_clip, monkeypatch, request, method, proposal):
    settings = replace(SETTINGS, proposal=proposal)
    eager = endless_lane(pair, make_clip(), method, settings)
    list(decode(eager))
    request.getfixturevalue("always")
    lane = endless_lane(pair, make_clip(), method, settings)
    assert all(fixed is not None and fixed.graph is not None for fixed in recorded_in(lane))
    list(decode(lane))
    assert lane.token_ids == eager.token_ids


@pytest.mark.parametrize(("proposal", "most"), [("chain", 1), ("static_tree", 1), ("dynamic_tree", 2)])
@pytest.mark.parametrize("method", METHODS)
def test_a_round_that_replays_waits_for_its_verdict_alone(pair, make_clip, always, method, proposal, most):
    lane = endless_lane(pair, make_clip(), method, replace(SETTINGS, proposal=proposal))
    lane.round()
    for _ in range(3):
        assert 1 <= waits_in(lane.round) <= most


def test_a_pair_this_small_is_launched_faster(pair, make_clip, monkeypatch):
    monkeypatch.setenv(graph_plan.VARIABLE, "1")
    assert all(recorded_in(endless_lane(pair, make_clip(), "lvspec", SETTINGS)))


def test_what_cannot_be_recorded_runs_eagerly(pair, make_clip, always, monkeypatch, caplog):
    """The host reads while it records, which CUDA refuses; the device goes on as if nothing had been tried."""
    run = FixedPass.run
    here = torch.cuda.current_stream()
    monkeypatch.setattr(FixedPass, "run", lambda self: (run(self), float(self.hidden.sum())))
    with caplog.at_level(logging.WARNING):
        lane = endless_lane(pair, make_clip(), "naive_sd", SETTINGS)
    assert not any(recorded_in(lane))
    assert "run eagerly" in caplog.text
    assert torch.cuda.current_stream() == here
    list(decode(lane))
    assert len(lane.token_ids) == SETTINGS.max_new_tokens
