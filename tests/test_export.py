"""A race as one HTML file: everything is in it, nothing in it can act."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from fake_race import recorded

import lvspec_core.__main__ as cli
from lvspec_core import view
from lvspec_core.race_files import save_race
from lvspec_core.records import from_dict
from lvspec_core.view.export import RACE_MARK
from lvspec_core.view.parts import plotly_folder


def value_in(page: str) -> dict:
    """The race's value as a browser would read it: up to the first end of its script element."""
    text = page.split('<script type="application/json" id="lv-value">')[1].split("</script")[0]
    return json.loads(text)


def test_the_page_holds_the_whole_race():
    records = recorded()
    value = value_in(view.race_page(records))
    assert [from_dict(values) for values in value["records"]] == records
    assert value["state"] == "finished"
    assert set(value["compare"]) == {"naive_sd", "specvlm", "lvspec"}


def test_the_page_loads_nothing():
    page = view.race_page(recorded())
    plotly = (plotly_folder() / "plotly.min.js").read_text(encoding="utf-8")
    assert plotly in page
    own = page.replace(plotly, "")
    assert not re.search(r"<(?:script|link|img|iframe)[^>]*\b(?:src|href)=", own)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", own)
    assert "default-src 'none'" in own
    assert set(re.findall(r"@[A-Z]+@", own)) == {"@RACE@"}, "which the script that fills a template names"


def test_every_script_and_style_of_the_board_comes_along():
    template = view.export_template()
    assert view.BOARD.script.replace("</script", "<\\/script") in template
    assert "--lv-ink" in template
    assert template.count(RACE_MARK) == 1


@pytest.mark.parametrize("evil", ["</script><script>alert(1)</script>", "<!--<script>", "\u2028\u2029", '"@RACE@"', "${alert(1)}", "$&$'"])
def test_no_text_of_a_race_ends_its_element(evil):
    records = recorded()
    records[0] = replace(records[0], video={**records[0].video, "name": evil}, settings={**records[0].settings, "question": evil})
    page = view.race_page(records)
    assert value_in(page)["records"][0]["video"]["name"] == evil
    assert page.count("<script") == view.export_template().count("<script")


def test_the_command_line_exports(tmp_path, capsys):
    race = save_race(recorded(), tmp_path / "race.jsonl")
    out = tmp_path / "race.html"
    assert cli.main(["export", str(race), "--out", str(out)]) == 0
    assert "written: " in capsys.readouterr().err
    assert len(value_in(out.read_text(encoding="utf-8"))["records"]) == len(recorded())
    assert cli.main(["export", str(tmp_path / "none.jsonl"), "--out", str(out)]) == 2
    assert cli.main(["export", str(race), "--out", str(tmp_path / "no" / "race.html")]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2
    assert all(line.startswith("error: ") for line in errors)
