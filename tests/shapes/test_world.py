"""The shapes world: scenes that can be told apart, captions that state their facts, truth about which words are visual."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lvspec_core.shapes.captions import FREE, read_facts, score_facts, to_text, vocabulary, write_caption
from lvspec_core.shapes.render import render
from lvspec_core.shapes.scene import ATTRIBUTES, COLOURS, Scene, Thing, sample_scene

seeds = st.integers(0, 2**31)


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_a_caption_states_every_fact_of_its_scene_in_order(seed):
    rng = np.random.default_rng(seed)
    scene = sample_scene(rng)
    caption = to_text(write_caption(scene, rng))
    assert read_facts(caption) == scene.facts()
    assert all(right == total for right, total in score_facts(caption, scene).values())


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_captions_are_long_enough_to_race_and_use_known_words_only(seed):
    rng = np.random.default_rng(seed)
    words = write_caption(sample_scene(rng), rng)
    assert 55 <= len(words) <= 150
    assert {word.text for word in words} <= set(vocabulary())


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_objects_stay_in_the_frame_and_apart(seed):
    scene = sample_scene(np.random.default_rng(seed))
    for share in (0.0, 0.5, 1.0):
        for thing in scene.things:
            x, y = thing.centre(share)
            assert thing.radius <= x <= 1 - thing.radius
            assert thing.radius <= y <= 1 - thing.radius
        for a, b in itertools.combinations(scene.things, 2):
            (ax, ay), (bx, by) = a.centre(share), b.centre(share)
            assert max(abs(ax - bx), abs(ay - by)) > a.radius + b.radius


def test_no_word_belongs_to_two_attributes_or_to_a_free_slot():
    words = [word for group in ATTRIBUTES.values() for word in group]
    assert len(words) == len(set(words))
    free = {word for options, _ in FREE.values() for word in " ".join(options).split()}
    assert not free & set(words)


@pytest.mark.parametrize(("change", "attribute"), [("red", "colour"), ("ring", "shape"), ("large", "size"), ("still", "motion")])
def test_a_wrong_fact_costs_exactly_that_fact(change, attribute):
    thing = Thing("small", "blue", "cross", "centre", "upwards", 0.5, 0.5, 0.0)
    scene = Scene("white", (thing,), 4.0)
    rng = np.random.default_rng(0)
    words = [change if word.attribute == attribute else word.text for word in write_caption(scene, rng)]
    scores = score_facts(" ".join(words), scene)
    assert scores[attribute] == (0, 1)
    assert all(right == total for name, (right, total) in scores.items() if name != attribute)


def test_an_object_that_is_not_told_counts_as_wrong():
    rng = np.random.default_rng(3)
    scene = next(scene for scene in iter(lambda: sample_scene(rng), None) if len(scene.things) == 3)
    words = [word.text for word in write_caption(scene, rng)]
    last = max(index for index, word in enumerate(words) if word in ATTRIBUTES["colour"])
    scores = score_facts(" ".join(words[:last] + words[last + 1 :]), scene)
    assert scores["colour"] == (2, 3)


def test_visual_words_are_those_whose_odds_depend_on_the_scene():
    """Measured on the grammar itself: among captions that share all words so far, the next word's odds differ between scenes
    for words marked visual and do not for the others."""
    rng = np.random.default_rng(5)
    thing = Thing("small", "blue", "cross", "centre", "upwards", 0.5, 0.5, 0.0)
    still = Thing("small", "blue", "cross", "centre", "still", 0.5, 0.5, 0.0)
    after_it: dict[str, dict[tuple[str, bool], int]] = {"upwards": {}, "still": {}}
    for one in (thing, still):
        for _ in range(3000):
            words = write_caption(Scene("white", (one,), 4.0), rng)
            spot = next(i for i, word in enumerate(words) if word.text in ("It", "figure") or (word.text == "object" and i > 20))
            following = words[spot + 1]
            key = (following.text, following.visual)
            after_it[one.motion][key] = after_it[one.motion].get(key, 0) + 1
    for word, visual in set(after_it["upwards"]) | set(after_it["still"]):
        shares = [after_it[motion].get((word, visual), 0) / 3000 for motion in ("upwards", "still")]
        differs = abs(shares[0] - shares[1]) > 0.05
        assert differs == visual, (word, shares)


def test_a_settled_word_is_not_visual():
    still = Thing("small", "blue", "cross", "centre", "still", 0.5, 0.5, 0.0)
    words = write_caption(Scene("white", (still,), 4.0), np.random.default_rng(1))
    verb, final = [word for word in words if word.text in ("stays", "rests", "remains", "still")]
    assert verb.visual
    assert not final.visual
    assert final.attribute == "motion"


def test_rendering_puts_the_colour_where_the_thing_is():
    thing = Thing("large", "red", "square", "upper-left", "rightwards", 0.25, 0.25, 0.0)
    frames = render(Scene("black", (thing,), 4.0), np.array([0.0, 1.0]), side=100)
    assert frames.shape == (2, 100, 100, 3)
    assert frames.dtype == np.uint8
    assert tuple(frames[0, 25, 25]) == COLOURS["red"]
    assert tuple(frames[1, 25, 53]) == COLOURS["red"]
    assert frames[1, 25, 25].max() < 40
