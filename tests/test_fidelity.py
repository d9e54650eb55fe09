"""What a text keeps of AR's, on small cases whose answers are known."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from lvspec_core import fidelity
from lvspec_core.bench import opened
from lvspec_core.records import Token
from lvspec_core.settings import RaceSettings

SETTINGS = RaceSettings(max_new_tokens=40)


def tokens(text: str) -> list[Token]:
    """Letters; capital ones are anchors."""
    return [Token(ord(letter), letter, "exact", None, letter.isupper()) for letter in text]


@pytest.mark.parametrize(
    ("ar", "text", "kept"),
    [
        ("aBcD", "aBcD", 1.0),
        ("aBcD", "xxByyyD", 1.0),  # fillers do not count
        ("aBcD", "aDcB", 0.5),  # another order
        ("aBcD", "ac", 0.0),
        ("aBcB", "aBc", 0.5),  # said once instead of twice
        ("abc", "abc", None),
    ],
)
def test_anchors_are_kept_in_their_order(ar, text, kept):
    assert fidelity.anchors_kept(tokens(ar), tokens(text)) == kept


@pytest.mark.parametrize(("ar", "text", "distance"), [("abcd", "abcd", 0), ("abcd", "abxd", 0.25), ("abcd", "ab", 0.5), ("ab", "xy", 1)])
def test_edit_distance_counts_tokens_of_the_longer_text(ar, text, distance):
    assert fidelity.edit_distance([*map(ord, ar)], [*map(ord, text)]) == distance


def test_the_log_likelihood_is_that_of_a_plain_pass(random_pair, make_clip, monkeypatch):
    """In pieces through the cache as in one pass of the stock model without any."""
    lane = opened(random_pair, make_clip(), SETTINGS, "ar")
    ids = [token for token in range(60) if token not in random_pair.target.tokenizer.all_special_ids][:35]
    monkeypatch.setattr(fidelity, "ROWS", 8)
    found = fidelity.log_likelihood(lane.target.fork(), lane.pending, ids)
    prompt = random_pair.target.encode(make_clip(), SETTINGS.question)
    inputs = {name: value for name, value in prompt.inputs.items() if isinstance(value, torch.Tensor)}
    more = torch.tensor([ids])
    for name, value in inputs.items():
        if value.shape[:2] == prompt.inputs["input_ids"].shape:
            filled = more if name == "input_ids" else torch.full_like(more, 1 if name == "attention_mask" else 0)
            inputs[name] = torch.cat([value, filled.to(value.dtype)], dim=1)
    with torch.inference_mode():
        logits = random_pair.target.model(**inputs).logits[0].float().log_softmax(-1)
    start = len(prompt.ids)
    expected = sum(float(logits[start + index - 1, token]) for index, token in enumerate(ids)) / len(ids)
    assert found == pytest.approx(expected, abs=1e-4)


def test_the_targets_stream_is_left_as_it_is_and_equal_texts_are_read_once(random_pair, make_clip):
    lane = opened(random_pair, make_clip(), SETTINGS, "ar")
    before = lane.target.length
    text = [replace(token, id=index + 5) for index, token in enumerate(tokens("aBcD"))]
    same = fidelity.fidelity(lane.target, lane.pending, text, text)
    assert lane.target.length == before
    assert (same.anchors_kept, same.edit_distance) == (1.0, 0.0)
    assert same.log_likelihood == same.log_likelihood_ar < 0


def test_medians_leave_out_what_is_not_known():
    rows = [fidelity.Fidelity(None, 0.0, -1.0, -1.0), fidelity.Fidelity(0.5, 0.5, -2.0, -1.0), fidelity.Fidelity(1.0, 1.0, -3.0, -1.0)]
    found = fidelity.medians(rows)
    assert found == {"anchors_kept": 0.75, "edit_distance": 0.5, "log_likelihood": -2.0, "log_likelihood_ar": -1.0}
    assert fidelity.medians(rows[:1])["anchors_kept"] is None
    assert not math.isnan(found["edit_distance"])
