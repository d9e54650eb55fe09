"""Which video tokens a draft keeps."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lvspec_core.pruning import VideoTokenAttention, evenly, keep_count, specvlm_keep, uniform_keep

grids = st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6))


@pytest.mark.parametrize(("total", "ratio", "kept"), [(64, 0.5, 32), (64, 0.9, 6), (64, 0.0, 64), (3, 0.95, 1), (1, 0.9, 1)])
def test_pruning_ratio_is_the_share_that_goes_and_one_token_always_stays(total, ratio, kept):
    assert keep_count(total, ratio) == kept


@pytest.mark.parametrize(("count", "kept"), [(1, [4]), (2, [2, 6]), (4, [1, 3, 5, 7]), (8, list(range(8))), (0, [])])
def test_evenly_takes_the_middles_of_equal_parts(count, kept):
    assert evenly(list(range(8)), count) == kept


def test_half_of_a_grid_is_a_chequerboard_that_turns_with_time():
    kept = set(uniform_keep((2, 4, 4), 16))
    for frame in range(2):
        for row in range(4):
            columns = {token % 4 for token in kept if token // 16 == frame and token // 4 % 4 == row}
            assert columns in ({0, 2}, {1, 3})
            assert columns != {token % 4 for token in kept if token // 16 == frame and token // 4 % 4 == row + 1}


@given(grids, st.floats(0, 1))
def test_uniform_pruning_keeps_exactly_the_budget_sorted_and_spread_over_time(grid, share):
    total = grid[0] * grid[1] * grid[2]
    count = max(1, round(share * total))
    kept = uniform_keep(grid, count)
    assert kept == sorted(set(kept))
    assert len(kept) == count
    assert kept[0] >= 0
    assert kept[-1] < total
    per_frame = [sum(token // (grid[1] * grid[2]) == frame for token in kept) for frame in range(grid[0])]
    assert max(per_frame) - min(per_frame) <= 1


def test_specvlm_takes_the_most_attended_until_they_hold_forty_percent_then_fills_uniformly():
    scores = torch.full((16,), 0.04)
    scores[5], scores[11] = 0.3, 0.14  # together 44 %: the first holds 30 %, so the second is still taken
    kept = specvlm_keep(scores, (1, 4, 4), 6)
    assert {5, 11} <= set(kept)
    assert len(kept) == 6
    rest = [token for token in kept if token not in (5, 11)]
    assert [token // 4 for token in rest] == [0, 1, 2, 3] or len({token // 4 for token in rest}) >= 3


def test_specvlm_never_exceeds_the_budget_when_attention_is_flat():
    assert len(specvlm_keep(torch.full((100,), 0.01), (4, 5, 5), 10)) == 10


def test_specvlm_without_any_attention_is_uniform_pruning():
    assert len(specvlm_keep(torch.zeros(16), (1, 4, 4), 4)) == 4


@given(grids, st.floats(0, 1), st.integers(0, 2**16))
def test_specvlm_keeps_exactly_the_budget_and_the_best_token(grid, share, seed):
    total = grid[0] * grid[1] * grid[2]
    count = max(1, round(share * total))
    scores = torch.rand(total, generator=torch.Generator().manual_seed(seed)) + 0.01
    kept = specvlm_keep(scores, grid, count)
    assert kept == sorted(set(kept))
    assert len(kept) == count
    assert int(scores.argmax()) in kept


def test_the_watch_averages_over_layers_heads_and_queries():
    watch = VideoTokenAttention(slice(1, 3))
    first = torch.tensor([[[[0.1, 0.2, 0.3, 0.4], [0.0, 0.4, 0.5, 0.1]]]])  # one key/value head, one head, two queries
    watch.see(0, first)
    watch.see(1, torch.zeros(1, 1, 2, 4))
    assert watch.wants(7)
    assert watch.scores.tolist() == pytest.approx([0.15, 0.2])
