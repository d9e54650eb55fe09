"""The report's page: a run is added, its clips open in the inspector, a bad one costs nothing."""

from __future__ import annotations

import json

import pytest
from conftest import DESKTOP, PHONE
from fake_race import recorded
from playwright.sync_api import expect
from test_access import serious

from lvspec_core.race_files import save_race

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
    tab.loaded()
    page.get_by_role("link", name="Report").click()
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
