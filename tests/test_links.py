"""The page's address: what it may set, and that whatever else it holds is left out with one sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import app
from lvspec_core.links import Link, read_link
from lvspec_core.settings import RaceSettings

OFFERED = app.LINKED
SAMPLES = ("ring.mp4", "sea.mp4")


def read(**query: str) -> Link:
    return read_link(query, OFFERED, SAMPLES)


def test_an_address_without_parameters_asks_for_nothing():
    assert read() == Link()
    assert read(__theme="dark", _x="1") == Link()


def test_settings_and_sample_are_read():
    link = read(
        sample="sea.mp4", methods="ar,lvspec", draft_length="12", pruning_ratio="0.25", question="Who & what?", anchor_quantile="0.5"
    )
    assert link.sample == "sea.mp4"
    assert link.complaint == ""
    assert link.settings == {
        "methods": ("ar", "lvspec"), "draft_length": 12, "pruning_ratio": 0.25, "question": "Who & what?", "anchor_quantile": 0.5
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("draft_length", "99"), ("draft_length", "1.5"), ("draft_length", ""), ("draft_length", "9" * 3000), ("frames", "0"),
        ("methods", "ar,warp"), ("methods", ""), ("question", " "), ("question", "x" * 2001), ("pair", "nope"), ("pair", "../../etc"),
        ("pruning_ratio", "nan"), ("pruning_ratio", "inf"), ("sample", "../secret.mp4"), ("sample", ""), ("shutdown", "now"),
        ("tree_nodes", "3" * 5000),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_left_out_with_a_sentence(name, text):
    link = read(**{name: text, "frames" if name != "frames" else "seed": "4"})
    assert name not in link.settings
    assert link.sample is None
    assert len(link.settings) == 1, "the rest of the link still counts"
    assert link.complaint == f"Part of the link makes no sense here and was left out: '{name}'."


def test_the_sentence_stays_short_and_plain():
    link = read(**{f"<img{index}>" + "x" * 100: "1" for index in range(9)})
    assert len(link.complaint) < 220
    assert link.complaint.endswith(", ….")


@given(st.dictionaries(st.sampled_from([*OFFERED, "sample", "x"]), st.text()))
def test_no_address_does_harm(query):
    link = read_link(query, OFFERED, SAMPLES)
    RaceSettings(**link.settings).validated()


def test_the_page_takes_the_samples_path_and_its_controls_values():
    sample = app.SAMPLES[0].path
    names = ["pair", "methods", "calibrated", "anchor_quantile", "frames"]
    video, pair, methods, calibrated, share, frames = app.open_link(
        {"sample": sample.name, "methods": "ar", "anchor_quantile": "0.7", "frames": "4"}, names
    )
    assert (video, methods, calibrated, share, frames) == (str(sample), ["ar"], False, 0.7, 4)
    assert pair == app.gr.skip()
