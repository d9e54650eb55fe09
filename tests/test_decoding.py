"""The loop: AR is `generate`, strict methods are AR, budgets are exact, the end of text ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
import stock

from lvspec_core.decoding import METHODS, decode
from lvspec_core.prefill import Prefilling
from lvspec_core.settings import METHODS as NAMES
from lvspec_core.settings import RaceSettings

SETTINGS = RaceSettings(adaptive=0.0, question="Describe the video.", draft_length=4, max_new_tokens=24, frames=4)


def decoded(pair, clip, settings, method, ends=()):
    """A lane and its rounds. ``ends``: the tokens that end a text; random weights say the real one at any time."""
    prefilling = Prefilling(pair, clip, replace(settings, methods=(method,)).validated())
    list(prefilling.run())
    lane = prefilling.lanes[method]
    lane.end_ids = frozenset(ends)
    return lane, list(decode(lane))


def generated(model, clip, question, budget) -> list[int]:
    return stock.generate(model, model.encode(clip, question), budget)


@pytest.mark.parametrize("seed", range(4))
def test_ar_is_generate_and_strict_methods_are_ar(random_pair, make_clip, seed):
    clip = make_clip(frames=4 + seed, seed=seed, seconds=2.0 + seed)
    expected = generated(random_pair.target, clip, SETTINGS.question, SETTINGS.max_new_tokens)
    for method in ("ar", "naive_sd", "specvlm"):
        lane, _ = decoded(random_pair, clip, SETTINGS, method, random_pair.target.end_ids)
        assert lane.token_ids == expected, method


def test_the_table_has_a_row_for_every_method():
    assert tuple(METHODS) == NAMES


@pytest.mark.parametrize("method", NAMES)
@pytest.mark.parametrize("budget", [1, 2, 7])
def test_the_token_budget_is_exact(random_pair, make_clip, method, budget):
    lane, rounds = decoded(random_pair, make_clip(), replace(SETTINGS, max_new_tokens=budget), method)
    assert len(lane.token_ids) == budget
    assert lane.finish == "token budget"
    assert sum(len(outcome.tokens) for outcome in rounds) == budget
    assert all(len(outcome.proposed) <= SETTINGS.draft_length for outcome in rounds)


@pytest.mark.parametrize("method", NAMES)
def test_rounds_account_for_themselves(random_pair, make_clip, method):
    lane, rounds = decoded(random_pair, make_clip(seed=5), SETTINGS, method)
    assert [outcome.index for outcome in rounds] == list(range(len(rounds)))
    assert [token.id for outcome in rounds for token in outcome.tokens] == lane.token_ids
    times = [outcome.seconds for outcome in rounds]
    assert times == sorted(times)
    assert lane.seconds == times[-1] > sum(o.draft_seconds + o.verify_seconds for o in rounds), "judging and the caches take time too"
    assert all(o.verify_seconds > 0 for o in rounds)
    for outcome in rounds:
        assert len(outcome.tokens) == outcome.accepted + 1
        assert [t.id for t in outcome.tokens[:-1]] == list(outcome.proposed[: outcome.accepted])
        own = outcome.tokens[-1].verdict
        assert own == ("ar" if method == "ar" else "bonus" if outcome.accepted == len(outcome.proposed) else "correction")


def identical(pair):
    """The pair with its target as its own draft: every proposal is accepted."""
    return replace(pair, draft=pair.target)


def test_a_perfect_draft_is_always_accepted_in_full(random_pair, make_clip):
    lane, rounds = decoded(identical(random_pair), make_clip(), replace(SETTINGS, max_new_tokens=20), "naive_sd")
    assert [len(outcome.tokens) for outcome in rounds] == [5, 5, 5, 5]
    assert all(outcome.tokens[-1].verdict == "bonus" for outcome in rounds)
    assert lane.token_ids == decoded(random_pair, make_clip(), replace(SETTINGS, max_new_tokens=20), "ar")[0].token_ids


@pytest.mark.parametrize("method", NAMES)
@pytest.mark.parametrize("place", [0, 2, 3, 4, 6])
def test_end_of_text_ends_the_lane_even_inside_a_proposal(random_pair, make_clip, method, place):
    pair, clip = identical(random_pair), make_clip(seed=2)
    text = decoded(pair, clip, replace(SETTINGS, max_new_tokens=12), "ar")[0].token_ids
    end = text[place]
    lane, rounds = decoded(pair, clip, replace(SETTINGS, pruning_ratio=0.0), method, [end])
    assert lane.finish == "end of text"
    assert lane.token_ids == text[: text.index(end) + 1]
    assert rounds[-1].tokens[-1].id == end
    assert rounds[-1].accepted <= len(rounds[-1].tokens)


def test_stop_is_asked_before_every_round(random_pair, make_clip):
    prefilling = Prefilling(random_pair, make_clip(), replace(SETTINGS, methods=("naive_sd",)))
    list(prefilling.run())
    lane = prefilling.lanes["naive_sd"]
    answers = iter([False, False, True])
    assert len(list(decode(lane, lambda: next(answers)))) == 2
    assert lane.finish is None


def test_lvspec_scores_every_proposed_position_as_teacher_forcing_would(random_pair, make_clip):
    from lvspec_core.relevance import teacher_forced_scores

    clip, pair = make_clip(seed=1), random_pair
    settings = replace(SETTINGS, methods=("lvspec",))
    prefilling = Prefilling(pair, clip, settings.validated())
    list(prefilling.run())
    lane = prefilling.lanes["lvspec"]
    lane.end_ids = frozenset()
    rounds = list(decode(lane))
    expected = teacher_forced_scores(pair.draft, pair.calibration, prefilling.prompt, lane.token_ids, prefilling._keep["lvspec"])
    assert len(expected) == len(lane.token_ids)
    committed = [token for outcome in rounds for token in outcome.tokens]
    known = [(token.relevance, score) for token, score in zip(committed, expected, strict=True) if token.relevance is not None]
    assert len(known) > len(committed) / 2
    for relevance, score in known:
        assert relevance == pytest.approx(score, abs=1e-5)
    # the annotator reads the same text in pieces and says the same
    annotated = prefilling.annotators["lvspec"].score(lane.token_ids[:3]) + prefilling.annotators["lvspec"].score(lane.token_ids[3:])
    assert annotated == pytest.approx(expected, abs=1e-5)


def test_lvspec_with_every_knob_shut_is_lossless(random_pair, make_clip):
    shut = replace(SETTINGS, anchor_quantile=0.0, shift=0)
    for seed in range(3):
        clip = make_clip(seed=seed)
        assert decoded(random_pair, clip, shut, "lvspec")[0].token_ids == decoded(random_pair, clip, SETTINGS, "ar")[0].token_ids


def test_lvspec_wide_open_accepts_more_than_exact_match(random_pair, make_clip):
    wide = replace(
        SETTINGS, anchor_quantile=1.0, plausibility=0.0, top_k=50, window=0, entropy_gate=0.0, max_new_tokens=40, pruning_ratio=0.0
    )
    loose, strict = 0, 0
    for seed in range(3):
        loose += sum(o.accepted for o in decoded(random_pair, make_clip(seed=seed), wide, "lvspec")[1]) / 3
        strict += sum(o.accepted for o in decoded(random_pair, make_clip(seed=seed), wide, "naive_sd")[1]) / 3
    assert loose > strict
