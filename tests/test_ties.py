"""Where a lossless text leaves AR's: a tie that rounding decides is told from a fault."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from lvspec_core import prefill, ties
from lvspec_core.decoding import decode
from lvspec_core.prefill import Prefilling
from lvspec_core.race import is_lossless, run_race
from lvspec_core.records import LaneEnd
from lvspec_core.settings import RaceSettings
from lvspec_core.terminal_words import same_as_ar
from lvspec_core.verifiers import StrictVerifier

SETTINGS = RaceSettings(question="Describe the video.", draft_length=4, max_new_tokens=12, frames=4)
ONLY = replace(SETTINGS, methods=("ar", "naive_sd"))


def raising(error: Exception):
    def fail(*_):
        raise error

    return fail


@pytest.mark.parametrize(
    ("gap", "size", "dtype", "near"),
    [
        (0.0, 10.0, torch.float32, True),
        (8e-6, 10.0, torch.float32, True),
        (1.2e-5, 10.0, torch.float32, False),
        (0.5, 10.0, torch.bfloat16, True),
        (0.5, -10.0, torch.bfloat16, True),
        (0.7, 10.0, torch.bfloat16, False),
    ],
)
def test_rounding_is_measured_in_steps_of_the_precision(gap, size, dtype, near):
    assert ties.is_near(gap, size, dtype) is near


def test_the_logits_looked_at_are_those_that_the_token_was_chosen_from(random_pair, make_clip):
    prefilling = Prefilling(random_pair, make_clip(), ONLY.validated())
    list(prefilling.run())
    before = {name: prefilling.target_before(name) for name in prefilling.lanes}
    list(decode(prefilling.lanes["ar"]))
    text = prefilling.lanes["ar"].token_ids
    for at in (0, 5, len(text) - 1):
        logits = ties.logits_at(before["ar"].fork(), prefilling.last, text, at)
        assert int(logits.argmax()) == text[at]


class SecondBest(StrictVerifier):
    """Takes the target's second choice for the text's first token, as a pass that rounds otherwise might."""

    begun = False

    def judge(self, proposal, logits):
        if not self.begun:
            logits = logits.clone()
            logits[0, logits[0].argmax()] = -torch.inf
        self.begun = True
        return super().judge(proposal, logits)


@pytest.fixture
def slipping(random_pair, make_clip, monkeypatch):
    """Races AR and naive SD, whose first token is the target's second choice; returns naive SD's summary."""

    def race() -> LaneEnd:
        made = iter((StrictVerifier, SecondBest))
        monkeypatch.setattr(prefill, "StrictVerifier", lambda sampler: next(made)(sampler))
        return next(record for record in run_race(random_pair, make_clip(), ONLY) if isinstance(record, LaneEnd) and record.lane != "ar")

    return race


def test_a_fault_is_not_taken_for_rounding(slipping):
    end = slipping()
    assert (end.same_as_ar, end.first_difference, end.near_tie) == (False, 0, False)
    assert end.departure_gap > 1e-3


def test_two_tokens_that_are_equally_probable_are_a_tie(slipping, random_pair, make_clip):
    first = next(record for record in run_race(random_pair, make_clip(), replace(ONLY, methods=("ar",))) if isinstance(record, LaneEnd))
    best, weight = first.token_ids[0], random_pair.target.head.weight
    twin = next(token for token in range(best + 1, len(weight)) if token not in first.token_ids)
    kept = weight[twin].detach().clone()
    try:
        with torch.no_grad():
            weight[twin] = weight[best]
        end = slipping()
    finally:
        with torch.no_grad():
            weight[twin] = kept
    assert (end.same_as_ar, end.first_difference, end.near_tie) == (False, 0, True)
    assert {end.token_ids[0]} <= {best, twin}
    assert end.departure_gap < 1e-5


@pytest.mark.parametrize(("where", "name"), [(ties, "logits_at"), (prefill.Prefilling, "target_before")])
def test_a_failure_costs_the_figures_not_the_race(slipping, monkeypatch, where, name):
    monkeypatch.setattr(where, name, raising(RuntimeError("out of memory")))
    end = slipping()
    assert (end.same_as_ar, end.near_tie, end.departure_gap) == (False, None, None)


def test_what_may_leave_ar_is_not_looked_into(random_pair):
    assert is_lossless(random_pair, SETTINGS, "specvlm")
    assert not is_lossless(random_pair, SETTINGS, "lvspec")
    assert not is_lossless(random_pair, replace(SETTINGS, temperature=0.5), "specvlm")
    assert is_lossless(replace(random_pair, calibration=None), SETTINGS, "lvspec")


def test_a_table_says_how_many_texts_left_by_rounding():
    assert same_as_ar({"same_as_ar": 0.9967, "near_ties": 1}) == "99.7%, 1 rounding tie"
    assert same_as_ar({"same_as_ar": 0.5, "near_ties": 3}) == "50.0%, 3 rounding ties"
    assert same_as_ar({"same_as_ar": 0.5}) == "50.0%"
    assert same_as_ar({"same_as_ar": None, "near_ties": 0}) == "–"
