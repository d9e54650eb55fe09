"""Any two checkpoints become a pair on a page of one's own, and what a pair takes stands under it."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import PHONE
from playwright.sync_api import expect

PAIR = Path(__file__).resolve().parents[2] / "assets" / "shapes-qwen"


def test_a_typed_pair_is_chosen_and_raced(standin, visit):
    tab = visit(standin, PHONE, "dark")
    page = tab.page
    page.get_by_text("Own pair", exact=True).click()
    target, draft = (page.locator(f"#own-{role} textarea, #own-{role} input") for role in ("target", "draft"))
    target.fill("not / a model")
    page.click("#use-pair")
    expect(page.get_by_text("neither a folder here nor a hub name")).to_be_visible()
    target.fill(str(PAIR / "target"))
    draft.fill(str(PAIR / "draft"))
    page.click("#use-pair")
    expect(page.get_by_label("Models: target and draft")).to_have_value("target with draft")
    expect(page.locator("#pair-notice")).to_contain_text("reckoned from its configurations")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    tab.shot("own-pair-phone-dark")
    tab.sample()
    tab.ask("fast")
    tab.race()
    assert tab.state("finished", "failed") == "finished"
    with page.expect_download() as saved:
        page.click("#download")
    start = json.loads(Path(saved.value.path()).read_text().splitlines()[0])
    assert start["pair"]["title"] == "target with draft"
    assert start["settings"]["pair"].startswith("own-")


def test_what_a_pair_takes_follows_the_settings(standin, visit):
    tab = visit(standin)
    page = tab.page
    page.get_by_label("Models: target and draft").click()
    page.get_by_role("option", name="Qwen2.5-VL 7B with 3B").click()
    expect(page.locator("#pair-notice")).to_contain_text("This pair needs about 25 GB of GPU memory at 8 frames and 4 lanes")
    page.locator("#methods input").nth(1).uncheck()
    expect(page.locator("#pair-notice")).to_contain_text("3 lanes")
    tab.shot("real-pair")
