"""Phone width, dark mode, contrast, and that nothing on the page is ever read as markup."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_race import recorded
from playwright.sync_api import expect

from lvspec_core.records import to_dict
from lvspec_core.settings import RaceSettings

pytestmark = pytest.mark.timeout(300)
PHONE = {"width": 360, "height": 740}

CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
DARK = "document.body.classList.contains('dark')"
OVERFLOW = """() => [...document.querySelectorAll('.lv-head *, .lv-table td, .lv-table th')]
  .filter((node) => node.clientWidth && node.scrollWidth > node.clientWidth + 1).map((node) => node.textContent)"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_keeps_its_contrast_in_both_themes(standin, visit, theme):
    tab = visit(standin, theme=theme)
    tab.sample(5)
    tab.race()
    tab.state("finished")
    tab.until(lambda: tab.page.evaluate(DARK), theme == "dark")
    tab.page.mouse.move(2, 2)
    tab.still()
    tab.shot(f"look-desktop-{theme}")
    contrast = tab.page.evaluate(CONTRAST)
    assert any("k-anchor" in key for key in contrast)
    assert {key: round(value, 2) for key, value in contrast.items() if value < 4.5} == {}


def test_the_theme_switch_is_remembered(standin, visit):
    tab = visit(standin)
    page = tab.page
    page.click(".lv-theme")
    tab.until(lambda: page.evaluate(DARK))
    tab.reload()
    page.wait_for_selector(".lv-lane")
    # Gradio sets the system's theme once more while it starts
    page.wait_for_timeout(500)
    tab.until(lambda: page.evaluate(DARK))
    expect(page.locator(".lv-theme")).to_have_text("Light")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_shows_a_strip_of_figures_and_one_text(standin, visit, theme):
    tab = visit(standin, PHONE, theme)
    page = tab.page
    tab.sample(0)
    tab.race()
    tab.state("running", "finished")
    tab.shot(f"look-phone-{theme}-racing", full=False)
    tab.state("finished")
    tab.still()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    expect(page.locator(".lv-head:visible")).to_have_count(4)
    expect(page.locator(".lv-body:visible")).to_have_count(1)
    heads = page.evaluate("[...document.querySelectorAll('.lv-head')].map((head) => head.getBoundingClientRect().top)")
    assert len(set(heads)) == 1
    assert page.evaluate(OVERFLOW) == []
    page.locator(".lv-lane[data-lane=ar] .lv-pick").click()
    expect(page.locator(".lv-lane[data-lane=ar] .lv-body")).to_be_visible()
    expect(page.locator(".lv-body:visible")).to_have_count(1)
    tab.shot(f"look-phone-{theme}")


def test_stop_stays_in_reach_on_a_phone(standin, visit):
    tab = visit(standin, PHONE)
    tab.sample(0)
    tab.ask("endless")
    tab.race()
    tab.state("running")
    tab.until(lambda: 600 < tab.page.locator("#stop").bounding_box()["y"] < 740 - 20, why="Stop is at the bottom of the screen")
    tab.page.click("#stop")
    tab.state("stopped")


def test_markup_in_a_race_file_stays_text(standin, visit, tmp_path):
    evil = "<img src=x onerror='window.hacked=1'>"
    records = [to_dict(record) for record in recorded(RaceSettings(question="fast", max_new_tokens=40, details=True))]
    records[0]["video"]["name"] = records[0]["pair"]["title"] = evil
    for record in records:
        for token in record.get("tokens", []) if record["type"] == "round" else []:
            token["text"] = f" {evil}${{alert(1)}}{{{{this}}}}"
        if record["type"] == "round":
            record["target_top"] = record["draft_top"] = [[[evil, 0.5]]] * (len(record["proposed"]) + 1)
            record["proposed"] = [[token, evil] for token, _ in record["proposed"]]
        if record["type"] == "lane" and record["lane"] == "lvspec":
            record.update(finish="failed", error=evil)
    path = tmp_path / "evil.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    tab = visit(standin)
    tab.open_file(path)
    expect(tab.page.locator(".lv-lane[data-lane=ar] .lv-text")).to_contain_text(evil)
    tab.page.locator(".lv-lane[data-lane=ar] .lv-text .tk").first.hover()
    expect(tab.page.locator(".lv-card")).to_contain_text(evil)
    tab.page.locator(".lv-lane[data-lane=lvspec] .lv-text .tk").first.click()
    tab.page.locator(".lv-lane[data-lane=lvspec] .lv-fold").click()
    tab.page.get_by_role("button", name="Step", exact=True).click()
    tab.page.wait_for_timeout(300)
    assert tab.page.locator(".lv-board img:not([src^='data:image/jpeg;base64,'])").count() == 0
    assert tab.page.evaluate("window.hacked") is None


def test_a_file_that_is_no_race_gets_a_sentence(standin, visit, tmp_path):
    path = tmp_path / "no race & more.jsonl"
    path.write_text('{"type": "<img src=x>"}\n')
    tab = visit(standin)
    tab.page.locator("input[type=file][accept='.jsonl']").set_input_files(path)
    notice = tab.page.locator(".toast-body")
    notice.wait_for()
    expect(notice).to_contain_text("Line 1")
    assert notice.locator("img").count() == 0
