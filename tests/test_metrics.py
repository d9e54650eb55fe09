"""What a lane's rounds add up to."""

from __future__ import annotations

import pytest

from lvspec_core.metrics import LaneTally, first_difference, lane_end
from lvspec_core.records import Round, Token


def tally(lane: str, rounds: list[list[tuple[int, str]]], seconds: float, prefill: float = 1.0, finish: str = "end of text") -> LaneTally:
    made = LaneTally(lane, prefill_seconds=prefill, finish=finish)
    for index, tokens in enumerate(rounds):
        drafted = sum(kind in ("exact", "loose", "shifted") for _, kind in tokens)
        made.add(
            Round(
                lane=lane,
                index=index,
                seconds=seconds * (index + 1) / len(rounds),
                draft_seconds=0.0,
                verify_seconds=0.0,
                proposed=((0, ""),) * (4 if lane != "ar" else 0),
                accepted=drafted,
                tokens=tuple(Token(token, f" {token}", kind, 0.5, token % 2 == 0) for token, kind in tokens),
            )
        )
    return made


AR = tally("ar", [[(index, "ar")] for index in range(10)], seconds=10.0)
FAST = tally("lvspec", [[(0, "exact"), (1, "exact"), (2, "bonus")], [(9, "loose"), (4, "correction")]], seconds=2.5)


@pytest.mark.parametrize(
    ("ids", "reference", "where"), [([1, 2], [1, 2], None), ([1, 3], [1, 2], 1), ([1], [1, 2], 1), ([1, 2, 3], [1, 2], 2), ([], [1], 0)]
)
def test_the_first_difference_is_an_index_into_the_text(ids, reference, where):
    assert first_difference(ids, reference) == where


def test_ar_is_its_own_measure():
    end = lane_end(AR, AR)
    assert end.mean_accepted_length == 1.0
    assert end.acceptance_rate is None
    assert (end.speedup_decode, end.speedup_total, end.same_as_ar) == (1.0, 1.0, True)
    assert end.tokens_per_second == 1.0


def test_a_lane_is_measured_per_token_with_and_without_prefill():
    end = lane_end(FAST, AR)
    assert end.mean_accepted_length == 2.5
    assert end.acceptance_rate == 3 / 8
    assert end.speedup_decode == pytest.approx((10 / 10) / (2.5 / 5))
    assert end.speedup_total == pytest.approx((11 / 10) / (3.5 / 5))
    assert (end.same_as_ar, end.first_difference) == (False, 3)
    assert sum(end.verdicts.values()) == end.tokens == 5
    assert end.anchors + end.fillers == 5
    assert end.text == " 0 1 2 9 4"


@pytest.mark.parametrize("ar", [None, tally("ar", [[(0, "ar")]], 1.0, finish="stopped"), LaneTally("ar", finish="failed")])
def test_without_a_finished_ar_lane_nothing_is_claimed_against_it(ar):
    end = lane_end(FAST, ar)
    assert (end.speedup_decode, end.speedup_total, end.same_as_ar, end.first_difference) == (None, None, None, None)


def test_a_stopped_lane_that_agrees_so_far_is_not_called_the_same():
    end = lane_end(tally("naive_sd", [[(0, "exact"), (1, "bonus")]], 1.0, finish="stopped"), AR)
    assert (end.same_as_ar, end.first_difference) == (None, None)
    assert end.speedup_decode == pytest.approx(2.0)


def test_a_stopped_lane_that_already_differs_is_called_different():
    end = lane_end(tally("naive_sd", [[(0, "exact"), (7, "bonus")]], 1.0, finish="stopped"), AR)
    assert (end.same_as_ar, end.first_difference) == (False, 1)


def test_a_lane_that_failed_before_its_first_round_has_no_figures():
    end = lane_end(LaneTally("specvlm", finish="failed", error="The memory did not suffice."), AR)
    assert (end.tokens, end.rounds, end.mean_accepted_length, end.tokens_per_second) == (0, 0, 0.0, 0.0)
    assert (end.speedup_decode, end.acceptance_rate) == (None, None)
    assert end.error == "The memory did not suffice."
