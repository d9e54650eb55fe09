"""Lanes against AR: what counts as the same, as worded otherwise, as another fact, and as nothing at all."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from fake_race import recorded
from hypothesis import given
from hypothesis import strategies as st

from lvspec_core.comparison import KINDS, compare_race, compare_words, words_of
from lvspec_core.records import LaneEnd, Round, Start, Token


def tokens(text: str, anchors: str = "", scored: bool = True) -> list[Token]:
    """One token a word, its leading space included."""
    pieces = [f" {word}" for word in text.split()]
    return [Token(index, piece, "exact", None, piece.strip() in anchors.split() if scored else None) for index, piece in enumerate(pieces)]


def compared(ar: str, lane: str, anchors: str = "", bundled: bool = False, cut: bool = False, scored: bool = True) -> dict:
    return compare_words(words_of(tokens(ar, anchors, scored)), words_of(tokens(lane, anchors, scored)), bundled, cut)


def kinds(result: dict) -> list[str]:
    return [kind for kind, _, _ in result["spans"]]


@pytest.mark.parametrize(
    ("ar", "lane", "expected"),
    [
        ("a red ring", "a red ring", ["same"]),
        ("it slowly moves", "it gently moves", ["same", "reworded", "same"]),
        ("it moves", "it quietly moves", ["same", "reworded", "same"]),
        ("it quietly moves", "it moves", ["same", "reworded", "same"]),
        ("a red ring", "a blue ring", ["same", "fact", "same"]),
        ("a ring", "a red ring", ["same", "fact", "same"]),
        ("a red ring", "a ring", ["same", "fact", "same"]),
    ],
)
def test_a_difference_that_touches_an_anchor_is_another_fact(ar, lane, expected):
    result = compared(ar, lane, anchors="red blue")
    assert kinds(result) == expected
    assert result["decided"] == "anchors"
    assert result["counts"]["same"] == sum(len(text.split()) for kind, _, text in result["spans"] if kind == "same")
    assert sum(result["counts"][kind] for kind in KINDS[1:]) == len(expected) - expected.count("same")


def test_the_bundled_world_reads_its_facts_itself():
    # the verb is an anchor there, and drifting is still moving
    assert kinds(compared("it moves upwards", "it drifts upwards", anchors="moves drifts", bundled=True)) == ["same", "reworded", "same"]
    assert kinds(compared("it moves upwards", "it moves downwards", anchors="", bundled=True)) == ["same", "fact"]
    assert compared("a", "a", bundled=True)["decided"] == "facts"


def test_where_nothing_is_scored_nothing_is_claimed():
    result = compared("a red ring", "a blue ring", scored=False)
    assert (result["decided"], kinds(result)) == ("", ["same", "differs", "same"])


def test_an_end_cut_by_the_budget_is_no_difference():
    assert kinds(compared("a red ring moves", "a red ring", anchors="moves", cut=True)) == ["same", "cut"]
    assert kinds(compared("a red ring moves", "a red ring", anchors="moves", cut=False)) == ["same", "fact"]
    # only the end of both: what differs before it counts
    assert kinds(compared("a red ring moves", "a ring", anchors="red", cut=True)) == ["same", "fact", "same", "cut"]


def test_words_do_not_depend_on_how_they_were_cut_into_tokens():
    whole = [Token(1, " upper-left", "ar", None, True), Token(2, " it's", "ar", None, False), Token(3, ".", "ar", None, False)]
    parts = [Token(4, " upp", "ar", None, False), Token(5, "er-left", "ar", None, True), *whole[1:]]
    assert words_of(whole) == words_of(parts)
    assert [word.text for word in words_of(whole)] == ["upper-left", "it's", "."]
    assert [word.text for word in words_of([Token(1, "赤い輪。 ok", "ar")])] == ["赤", "い", "輪", "。", "ok"]
    assert words_of([Token(1, "", "ar")]) == []


@given(st.lists(st.sampled_from("ab.red"), max_size=30), st.lists(st.sampled_from("ab.red"), max_size=30), st.booleans(), st.booleans())
def test_the_spans_are_the_two_texts(ar, lane, bundled, cut):
    theirs, mine = words_of(tokens(" ".join(ar))), words_of(tokens(" ".join(lane)))
    spans = compare_words(theirs, mine, bundled, cut)["spans"]
    assert "".join(text for _, _, text in spans).replace(" ", "") == "".join(word.text for word in mine)
    reference = "".join(text if kind == "same" else other for kind, other, text in spans)
    assert reference.replace(" ", "") == "".join(word.text for word in theirs)


def test_every_finished_lane_is_compared_with_a_finished_ar():
    race = recorded()
    result = compare_race(race)
    assert list(result) == ["naive_sd", "specvlm", "lvspec"]
    assert all(kinds(lane) == ["same"] for lane in result.values())
    stopped = [replace(each, finish="stopped") if isinstance(each, LaneEnd) and each.lane == "lvspec" else each for each in race]
    assert list(compare_race(stopped)) == ["naive_sd", "specvlm"]
    no_ar = [replace(each, finish="failed") if isinstance(each, LaneEnd) and each.lane == "ar" else each for each in race]
    assert compare_race(no_ar) == compare_race([]) == compare_race(race[:20]) == {}


def endless(count: int, text: str) -> list:
    start = recorded()[0]
    lanes = [LaneEnd(lane, "end of text", "", (), 0, 0, 0, None, 0, 0, 0, None, None, None, None, 0, 0, {}) for lane in ("ar", "lvspec")]
    written = {lane: tuple(Token(place % (2 + index), text, "ar") for place in range(count)) for index, lane in enumerate(("ar", "lvspec"))}
    rounds = [Round(lane, 0, 1.0, 0, 0, (), 0, listed) for lane, listed in written.items()]
    assert isinstance(start, Start)
    return [start, *rounds, *lanes]


@pytest.mark.parametrize(("count", "text"), [(20_000, " a b"), (3, " x" * 100_001)])
def test_a_file_cannot_make_the_comparison_take_long(count, text):
    race = endless(count, text)
    began = time.process_time()
    assert compare_race(race) == {}
    assert time.process_time() - began < 2
