"""Scorers, the probe, and what a calibration is made of."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lvspec_core.families.attention import attention_weights
from lvspec_core.pruning import keep_count, uniform_keep
from lvspec_core.relevance import AttentionShare, Calibration, Probe, teacher_forced_scores
from lvspec_core.relevance.fitting import Sample, compare, fit, gather
from lvspec_core.relevance.measures import auc, precision_at_recall
from lvspec_core.relevance.probe import choose_probe, fit_probe
from lvspec_core.relevance.reading import ROWS, Reading
from lvspec_core.relevance.scorers import OTHER, SCORERS, divergence

TEXT = [30 + (index * 7) % 120 for index in range(ROWS + 9)]  # longer than one pass


@pytest.fixture(scope="module")
def reading(random_pair, make_clip):
    pair = random_pair
    prompt, other = (pair.target.encode(make_clip(seed=seed), "What?") for seed in (1, 2))
    return Reading(pair.target, pair.draft, prompt, TEXT, uniform_keep(prompt.grid, keep_count(prompt.video_tokens, 0.5)), [other])


# ------------------------------------------------------------------ measures


@pytest.mark.parametrize(
    ("scores", "visual", "expected"),
    [
        ([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], 1.0),
        ([0.8, 0.9, 0.1, 0.2], [0, 0, 1, 1], 0.0),
        ([0.5, 0.5, 0.5, 0.5], [0, 1, 0, 1], 0.5),
        ([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1], 0.75),
    ],
)
def test_auc_is_the_chance_that_a_visual_word_scores_higher(scores, visual, expected):
    assert auc(np.array(scores), np.array(visual, bool)) == pytest.approx(expected)


def test_precision_is_taken_at_the_line_that_finds_enough():
    scores, visual = np.array([0.9, 0.8, 0.7, 0.6, 0.5]), np.array([1, 0, 1, 0, 1], bool)
    assert precision_at_recall(scores, visual, 0.3) == 1.0
    assert precision_at_recall(scores, visual, 0.6) == pytest.approx(2 / 3)
    assert precision_at_recall(scores, visual, 1.0) == pytest.approx(3 / 5)


# ------------------------------------------------------------------ scorers


@pytest.mark.parametrize("name", SCORERS)
def test_every_scorer_scores_every_position(reading, name):
    for variant, scores in SCORERS[name](reading).items():
        assert scores.shape == (len(TEXT),), variant
        assert torch.isfinite(scores).all(), variant
        if name != "similarity":
            assert ((scores >= 0) & (scores <= 1 + 1e-5)).all(), variant


def test_a_reading_says_what_the_loop_would_see(reading, random_pair):
    """Read in pieces, scored layer by layer, the same as the live scorer in one go."""
    for layer in (0, 3):
        live = Calibration("draft_attention", layer, 0.5, (0.0,) * 101)
        expected = teacher_forced_scores(random_pair.draft, live, reading.prompt, TEXT, reading.keep)
        assert SCORERS["draft_attention"](reading)[f"layer {layer}"].tolist() == pytest.approx(expected, abs=1e-5)
        head = Calibration("draft_attention", layer, 0.5, (0.0,) * 101, head=1)
        expected = teacher_forced_scores(random_pair.draft, head, reading.prompt, TEXT, reading.keep)
        assert reading.draft.shares[layer, 1].tolist() == pytest.approx(expected, abs=1e-5)


def test_a_model_that_sees_the_same_video_is_not_contrasted(random_pair, reading):
    same = Reading(random_pair.target, random_pair.draft, reading.prompt, TEXT, reading.keep, [reading.prompt])
    assert SCORERS["contrast"](same)[OTHER].max() < 1e-5
    assert SCORERS["contrast"](reading)[OTHER].mean() > 1e-4
    assert set(SCORERS["contrast"](Reading(random_pair.target, random_pair.draft, reading.prompt, TEXT, None))) == {"no video"}


def test_divergence_is_nothing_for_equals_and_one_bit_for_strangers(reading):
    def seen(*logits):
        return type(reading.target)(torch.empty(0), torch.empty(0), torch.tensor(logits))

    one, other = seen([50.0, 0.0, 0.0]), seen([0.0, 50.0, 0.0])
    assert divergence(one, one).tolist() == pytest.approx([0.0], abs=1e-6)
    assert divergence(one, other).tolist() == pytest.approx([1.0], abs=1e-6)


# ------------------------------------------------------------------ probe


def line(count: int = 400, width: int = 6, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Hidden states whose truth stands in two of their features, with features that say nothing and differ in scale."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(count, width)) * [1, 100, 1, 0.01, 1, 1] + 3
    truth = (hidden[:, 0] - 3) + (hidden[:, 1] - 3) / 100 > 0.8
    return torch.tensor(hidden, dtype=torch.float32), torch.tensor(truth)


def test_a_probe_learns_what_is_there_and_its_score_is_a_probability():
    weights = fit_probe(*line(), 1e-4)
    hidden, truth = line(seed=1)
    scores = Probe.scores(hidden, weights)
    assert auc(scores.numpy(), truth.numpy()) > 0.99
    assert ((scores > 0.5) == truth).float().mean() > 0.95
    torch.testing.assert_close(weights, fit_probe(*line(), 1e-4))


def test_a_probe_of_noise_is_held_back_by_its_penalty():
    hidden, truth = torch.randn(60, 50, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 4 == 0
    weights = choose_probe(hidden, truth, np.arange(60) // 6)
    assert Probe.scores(hidden, weights).std() < 0.25
    assert Probe.scores(hidden, fit_probe(hidden, truth, 1e-4)).std() > 0.35


@torch.inference_mode()
def test_a_live_probe_scores_what_a_stream_reads_pass_by_pass(random_pair, reading):
    draft, prompt = random_pair.draft, reading.prompt
    weights = torch.linspace(-0.5, 0.5, draft.head.weight.shape[1] + 1)
    calibration = Calibration("draft_probe", None, 0.5, (0.0,) * 101, weights=tuple(weights.tolist()))
    stream = draft.prefill(prompt, draft.video_features(prompt), 40)
    watch = calibration.watch(stream)
    assert watch.take() == []
    hidden = [stream.append(torch.tensor(ids), watch)[0] for ids in ([7, 8, 9], [10])]
    expected = [torch.sigmoid(part @ weights[:-1] + weights[-1]) for part in hidden]
    torch.testing.assert_close(watch.last(), expected[1])
    for found, wanted in zip(watch.take(), expected, strict=True):
        torch.testing.assert_close(found, wanted)
    assert watch.take() == []


def test_an_attention_share_of_one_head_is_that_heads():
    weights = attention_weights(torch.randn(2, 2, 1, 4), torch.randn(2, 1, 6, 4), None, 0.5)
    watch, mean = AttentionShare(0, slice(1, 4), head=2), AttentionShare(0, slice(1, 4))
    watch.see(0, weights)
    mean.see(0, weights)
    torch.testing.assert_close(watch.last(), weights[1, 0, :, 1:4].sum(-1))
    torch.testing.assert_close(mean.take()[0], weights[..., 1:4].sum(-1).mean(dim=(0, 1)))


# ------------------------------------------------------------------ fitting


def sample(scores: dict[tuple[str, str], np.ndarray], hidden: torch.Tensor, visual: np.ndarray) -> Sample:
    return Sample(visual, np.arange(len(visual)) // 20, hidden, scores)


def test_the_scorer_that_separates_best_is_taken_and_judged_on_clips_it_was_not_fitted_on():
    hidden, truth = line()
    visual, rng = truth.numpy(), np.random.default_rng(0)
    weak = visual + rng.normal(size=len(visual))
    found = sample({("draft_attention", "layer 1"): weak, ("contrast", OTHER): visual + 0.0}, hidden, visual)
    calibration, rows = fit(found)
    assert calibration.scorer == "draft_probe"
    assert [row["chosen"] for row in rows] == [False, True]
    assert {row["words"] for row in rows} == {found.held_out().sum()} == {160}
    scores = Probe.scores(hidden, torch.tensor(calibration.weights)).numpy()[found.held_out()]
    assert rows[1]["auc"] == pytest.approx(auc(scores, visual[found.held_out()]), abs=1e-4)
    assert compare(found)[0]["auc"] == 1.0


def test_of_a_single_clip_no_probe_is_fitted():
    """Other texts about the same clip cannot tell whether a probe learnt what is visual or that clip's words."""
    hidden, truth = line()
    visual, rng = truth.numpy(), np.random.default_rng(0)
    weak = {("draft_attention", "layer 1"): visual + rng.normal(size=len(visual))}
    found = Sample(visual, np.zeros(len(visual), dtype=int), hidden, weak)
    calibration, rows = fit(found)
    assert (calibration.scorer, calibration.layer) == ("draft_attention", 1)
    assert [(row["scorer"], row["words"]) for row in rows] == [("draft_attention", len(visual))]


def test_a_head_that_beats_the_probe_is_taken_with_its_place():
    hidden, truth = torch.randn(400, 3, generator=torch.Generator().manual_seed(0)), np.arange(400) % 5 == 0
    scores = {("draft_attention", "layer 1, head 3"): truth + np.linspace(0, 0.5, 400), ("draft_attention", "layer 1"): np.zeros(400)}
    calibration, _ = fit(sample(scores, hidden, truth))
    assert (calibration.scorer, calibration.layer, calibration.head) == ("draft_attention", 1, 3)
    assert 1 <= calibration.threshold <= 1.5


def test_where_nothing_separates_or_there_is_too_little_to_tell_there_is_no_calibration():
    noise = np.random.default_rng(0)
    hidden, truth = torch.zeros(400, 3), np.arange(400) % 5 == 0
    calibration, rows = fit(sample({("draft_attention", "layer 0"): noise.random(400)}, hidden, truth))
    assert calibration is None
    assert rows
    assert not any(row["chosen"] for row in rows)
    assert fit(sample({}, hidden[:40], truth[:40])) == (None, [])
    assert compare(sample({("lens", ""): noise.random(40)}, hidden[:40], truth[:40])) == []


def test_what_is_gathered_belongs_together(reading):
    truth = np.arange(len(TEXT)) % 3 == 0
    found = gather([(reading, truth), (reading, ~truth)], ("lens", "draft_probe"))
    assert found.visual.tolist() == [*truth, *~truth]
    assert found.clip.tolist() == [0] * len(TEXT) + [1] * len(TEXT)
    assert list(found.scores) == [("lens", "")]
    assert found.hidden.shape == (2 * len(TEXT), reading.draft.hidden.shape[1])
    assert gather([(reading, truth), (reading, ~truth)], ("lens",), one_clip=True).clip.tolist() == [0] * (2 * len(TEXT))
