"""What the page is sent and made of."""

from __future__ import annotations

import json
import re

import pytest
from fake_race import recorded

from lvspec_core import view
from lvspec_core.records import from_dict
from lvspec_core.settings import METHOD_TITLES


def told(value: list[str]) -> dict:
    (text,) = value
    return json.loads(text)


def batches(records, size):
    return [records[start : start + size] for start in range(0, len(records), size)]


def test_a_feed_carries_only_what_is_new_and_the_batch_before():
    records = recorded()
    feed = view.Feed()
    first, second, third = (told(feed.running(batch)) for batch in batches(records, 5)[:3])
    assert [(value["at"], len(value["records"])) for value in (first, second, third)] == [(0, 5), (0, 10), (5, 10)]
    assert first["race"] == third["race"]
    assert [from_dict(values) for values in third["records"]] == records[5:15]


@pytest.mark.parametrize("lost", range(1, 4))
def test_a_page_that_misses_one_value_misses_nothing(lost):
    records = recorded()
    feed = view.Feed()
    values = [told(feed.running(batch)) for batch in batches(records, 10)]
    del values[lost]
    known: list[dict] = []
    for value in values:
        assert value["at"] <= len(known)
        known += value["records"][len(known) - value["at"] :]
    assert [from_dict(one) for one in known] == records


def test_a_feed_ends_as_the_race_does():
    records = recorded()
    feed = view.Feed()
    assert told(feed.waiting(2))["place"] == 2
    assert told(feed.over(records))["state"] == "finished"
    cut_off = view.Feed()
    cut_off.running(records[:10])
    assert told(cut_off.over())["state"] == "stopped"
    failed = told(cut_off.failed("The worker is gone."))
    assert (failed["state"], failed["message"]) == ("failed", "The worker is gone.")


def test_each_race_has_a_name_of_its_own():
    assert told(view.Feed().waiting(0))["race"] != told(view.Feed().waiting(0))["race"]


def test_scripts_and_records_agree_on_methods():
    script = view.BOARD.script
    for method, title in METHOD_TITLES.items():
        assert re.search(rf'\b{method}: {{ title: "{title}"', script)
    for verdict in ("exact", "loose", "shifted", "correction", "bonus", "ar"):
        assert re.search(rf"^  {verdict}: ", script, re.MULTILINE)


@pytest.mark.parametrize("part", [view.BOARD, view.STRIP, view.SAMPLES, view.TITLE])
def test_markup_survives_gradios_templates(part):
    # Gradio reads markup as a Handlebars template inside a JavaScript template literal
    assert not set("`{}$\\") & set(part.html)
    assert "innerHTML" not in part.script


def test_nothing_the_page_is_made_of_names_another_host():
    for text in (
        view.stylesheet(),
        view.head_script(),
        *(part.html + part.script for part in (view.BOARD, view.STRIP, view.SAMPLES, view.TITLE)),
    ):
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
        assert "@import" not in text


def test_every_colour_that_is_used_is_defined_in_both_themes():
    css = view.stylesheet()
    light, dark = (
        set(re.findall(r"(--[\w-]+):", block)) for block in re.findall(r"(?:^:root|^\.dark) \{(.*?)\}", css, re.DOTALL | re.MULTILINE)
    )
    assert light - dark == {"--lv-font", "--lv-mono"}
    used = set(re.findall(r"var\((--(?:lv|k|lane)-[\w-]+)", css))
    assert used - light == set()


def test_plotly_lies_in_the_folder_that_is_served():
    assert (view.plotly_folder() / "plotly.min.js").is_file()


def test_samples_are_listed_in_order_without_those_that_are_missing(tmp_path):
    for name in ("a.mp4", "b.mp4"):
        (tmp_path / name).touch()
    entries = [{"file": "b.mp4", "title": "second", "alt": "b"}, {"file": "gone.mp4", "title": "gone"}, {"file": "a.mp4", "title": "first"}]
    (tmp_path / "samples.json").write_text(json.dumps(entries))
    assert [(sample.path.name, sample.title, sample.alt) for sample in view.read_samples(tmp_path)] == [
        ("b.mp4", "second", "b"),
        ("a.mp4", "first", ""),
    ]


def test_samples_without_a_list_are_the_videos_of_the_folder(tmp_path):
    for name in ("red-circle.mp4", "notes.txt"):
        (tmp_path / name).touch()
    assert [sample.title for sample in view.read_samples(tmp_path)] == ["red circle"]
    assert view.read_samples(tmp_path / "nowhere") == []
