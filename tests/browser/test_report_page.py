"""The report's page: a run is added, its clips open in the inspector, a bad one costs nothing."""

from __future__ import annotations

import json
import re

import pytest
from conftest import DESKTOP, PHONE, until
from fake_race import recorded
from playwright.sync_api import expect
from test_access import serious

from lvspec_core.race_files import save_race
from lvspec_core.report.page import html_report
from lvspec_core.report.runs import read_run

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """Three clips, two methods, the first clip's race kept."""
    folder = tmp_path_factory.mktemp("runs") / "three-clips"
    (folder / "races").mkdir(parents=True)
    save_race(recorded(), folder / "races" / "000000.jsonl")
    with (folder / "results.jsonl").open("w") as file:
        for sample in range(3):
            for method, speedup in (("ar", 1.0), ("lvspec", 2.0 + sample)):
                row = {
                    "sample_index": sample, "method": method, "decoding_time": 4 / speedup, "generate_len": 40, "rounds": 40,
                    "average_accept_length": speedup, "speedup_decode": speedup, "speedup_total": speedup, "same_as_ar": method == "ar",
                    "output": f"<b>{method}</b> says {sample}", "name": f"clip {sample}", "question": "What?",
                    "race": "races/000000.jsonl" if sample == 0 else None,
                }  # fmt: skip
                file.write(json.dumps(row) + "\n")
    return folder


@pytest.mark.parametrize(("viewport", "theme"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_a_run_is_added_and_its_clip_opens(standin, visit, run_folder, viewport, theme):
    tab = visit(standin, viewport, theme)
    page = tab.page
    tab.follow("Report")
    expect(page.locator(".lv-report-empty")).to_contain_text("No run yet")
    folder = page.locator("#run-folder textarea")
    folder.fill(str(run_folder / "gone"))
    folder.press("Enter")
    expect(page.locator(".toast-body").first).to_contain_text("There is no")
    page.locator(".toast-close").first.click()
    folder.fill(str(run_folder))
    folder.press("Enter")
    rows = page.locator(".lv-report-table tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(2)).to_contain_text("3.00×")
    with page.expect_file_chooser() as chooser:
        page.locator("#add-files").click()
    chooser.value.set_files(run_folder / "results.jsonl")
    expect(rows).to_have_count(6)
    assert page.locator(".lv-report b", has_text="says").count() == 0, "texts are inert"
    expect(page.locator("#save-html")).to_be_enabled()
    tab.still()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert serious(page, ".lv-report") == {}
    tab.shot(f"report-{theme}")
    expect(page.locator(".lv-board")).to_be_hidden()
    page.locator(".lv-report-clips button").first.click()
    tab.state("finished")
    expect(page.locator(".lv-board")).to_be_visible()
    expect(page.locator(".lv-lane[data-lane=lvspec] .lv-text")).to_contain_text("The clip shows")
    page.locator("#clear-runs").click()
    expect(page.locator(".lv-report-empty")).to_be_visible()


def test_runs_wait_for_who_left_and_for_nobody_else(standin, visit, run_folder):
    tab = visit(standin)
    tab.follow("Report")
    rows, folder = tab.page.locator(".lv-report-table tbody tr"), tab.page.locator("#run-folder textarea")
    folder.fill(str(run_folder))
    folder.press("Enter")
    expect(rows).to_have_count(3)
    tab.follow("Race")
    tab.page.locator(".lv-samples").wait_for()
    tab.follow("Report")
    expect(rows).to_have_count(3)
    expect(tab.page.locator("#save-html")).to_be_enabled()
    tab.page.locator(".lv-report-clips button").first.click()
    expect(tab.page.locator(".lv-lane[data-lane=lvspec] .lv-text")).to_contain_text("The clip shows")
    folder.fill(str(run_folder))
    folder.press("Enter")
    expect(rows).to_have_count(6)
    other = visit(standin, fresh=True)
    other.follow("Report")
    expect(other.page.locator(".lv-report-empty")).to_be_visible()
    other.loaded()


def test_a_report_on_paper_is_light_and_whole(chromium, run_folder, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(html_report([read_run(run_folder)])[0])
    page = chromium.new_page(viewport={"width": 880, "height": 900}, color_scheme="dark")
    page.goto(path.as_uri())
    expect(page.locator(".lv-chart.drawn")).to_have_count(2)
    chart = page.locator(".lv-chart .main-svg").first
    label = page.locator(".lv-chart .ytick text").first
    colour = "node => getComputedStyle(node).fill"
    dark, wide = label.evaluate(colour), chart.bounding_box()["width"]
    assert wide > 700, "or there would be nothing to make narrower"
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(page.locator("body")).not_to_have_class("dark")
    assert label.evaluate(colour) != dark
    assert chart.bounding_box()["width"] <= 660
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 700, "height": 1000})  # what a sheet of A4 leaves between its margins
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    table = page.locator(".lv-report-table")
    assert table.bounding_box()["x"] + table.bounding_box()["width"] <= 700
    expect(page.locator(".lv-title-buttons")).to_be_hidden()
    expect(page.locator(".lv-report summary").first).to_be_hidden()
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 880, "height": 900})
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(page.locator("body")).to_have_class("dark")
    until(page, lambda: label.evaluate(colour), dark)
    until(page, lambda: chart.bounding_box()["width"], wide)
    page.close()


def test_hostile_runs_cost_no_other(standin, visit, run_folder, tmp_path):
    """Runs that are added while others still are; methods named as what every object has; a race that cannot be read."""
    rows = [json.loads(line) for line in (run_folder / "results.jsonl").read_text().splitlines()]
    for number, method in enumerate(("constructor", "__proto__", "lvspec")):
        folder = tmp_path / f"run-{number}"
        (folder / "races").mkdir(parents=True)
        (folder / "races" / "000000.jsonl").write_text('{"type": "start", "version": 99}\n')
        named = [row | {"method": method, "name": "n" * 900} if row["method"] == "lvspec" else row for row in rows]
        (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in named))
    tab = visit(standin)
    page = tab.page
    tab.follow("Report")
    expect(page.locator(".lv-report-empty")).to_be_visible()
    folder = page.locator("#run-folder textarea")
    for place in (tmp_path / "run-0", tmp_path / "run-1", tmp_path / "run-2", "~no-such-user/here"):
        folder.fill(str(place))
        # what stands in the field when the page asks is what it asks for
        with page.expect_request(re.compile("queue/join")):
            folder.press("Enter")
    expect(page.locator(".lv-report-run")).to_have_count(3)
    expect(page.locator(".toast-body").first).to_contain_text("There is no ~no-such-user/here")
    page.locator(".toast-close").first.click()
    for run in ("1", "2"):
        page.locator(".lv-select").first.select_option(run)
    expect(page.locator(".lv-chart.drawn")).to_have_count(2)
    assert page.locator(".lv-report-clip b").first.bounding_box()["height"] < 100
    button = page.locator(".lv-report-clips button").first
    button.click()
    expect(page.locator(".toast-body").first).to_contain_text("format 99")
    expect(page.locator(".lv-board")).to_be_hidden()
    assert button.get_attribute("aria-current") is None
