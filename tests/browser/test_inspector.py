"""Why a word stands there: the card on hover, pinned with what the models saw, by mouse, keyboard and finger; rounds and steps."""

from __future__ import annotations

import json
import re

import pytest
from conftest import DESKTOP, PHONE, Visit, complaints, until
from fake_race import recorded
from playwright.sync_api import expect
from test_access import serious

from lvspec_core import view
from lvspec_core.race_files import save_race
from lvspec_core.settings import RaceSettings

pytestmark = pytest.mark.timeout(300)
LANE = ".lv-lane[data-lane=lvspec]"
WORDS = f"{LANE} .lv-text .tk"
# where everything stands: whatever opens, no word may move
PLACES = """() => [scrollX, scrollY, ...[...document.querySelectorAll('.lv-text .tk, .lv-lane, .lv-section')].flatMap((node) => {
  const box = node.getBoundingClientRect();
  return [box.x, box.y, box.width, box.height].map(Math.round); })]"""
# for each frame's canvas, the tiles that something is painted over
PAINTED = """(row) => [...row.querySelectorAll('canvas')].map((canvas) => {
  const [side, pen] = [canvas.width / 4, canvas.getContext('2d')];
  const alpha = (tile) => pen.getImageData((tile % 4 + 0.5) * side, (Math.floor(tile / 4) + 0.25) * side, 1, 1).data[3];
  return [...Array(16).keys()].filter(alpha); })"""


@pytest.fixture(scope="module")
def race_file(tmp_path_factory):
    records = recorded(RaceSettings(question="fast", max_new_tokens=40, details=True))
    return save_race(records, tmp_path_factory.mktemp("races") / "details.jsonl")


@pytest.fixture(scope="module")
def opened(browsers, standin, race_file):
    """One tab with the race, for all that leaves it as it was."""
    tab = Visit(browsers, standin.url, DESKTOP, "light")
    tab.open_file(race_file)
    tab.page.wait_for_function("document.querySelectorAll('.lv-history tbody tr').length === 1")
    tab.still()
    yield tab
    errors = complaints(tab)
    browsers.take_back(tab)
    assert errors == []


@pytest.fixture
def tab(opened):
    yield opened
    opened.page.keyboard.press("Escape")
    opened.page.mouse.move(5, 5)
    opened.page.evaluate("document.activeElement.blur()")
    expect(opened.page.locator(".lv-card")).to_be_hidden()


def words(page, lane: str = "lvspec"):
    page.locator(f".lv-lane[data-lane={lane}] .lv-text").scroll_into_view_if_needed()
    return page.locator(f".lv-lane[data-lane={lane}] .lv-text .tk")


def test_a_word_explains_itself_where_it_stands(tab):
    page = tab.page
    card = page.locator(".lv-card")
    chips = words(page)
    tab.still()
    before = page.evaluate(PLACES)
    chips.nth(18).hover()
    expect(card.locator(".lv-card-where")).to_have_text("LVSpec · token 19 of 40")
    told = re.sub(r"\s", " ", card.inner_text())
    assert "The draft said The, the target preferred rather (50 %); both are filler" in told
    assert "and the target gave The 30 %, so it was kept." in told
    assert "Relevance 0.10, threshold 0.50 · filler: not about the video" in told
    assert "Round 4 of 7: guess 1 of 5, 5 kept." in told
    tops = [re.sub(r"\s+", " ", text) for text in card.locator(".lv-top li").all_inner_texts()]
    assert tops[0] == "The 70 %"
    assert tops[2:4] == ["rather 50 %", "The 30 %"]
    assert card.locator(".lv-top li.this").all_inner_texts()[0].startswith("The")
    tab.still()
    assert page.evaluate(PLACES) == before, "nothing has moved"
    chips.nth(5).hover()
    expect(card.locator(".lv-why")).to_contain_text("of its own")
    page.mouse.move(5, 5)
    expect(card).to_be_hidden()
    chips.nth(0).click()
    expect(card).to_have_class(re.compile("pinned"))
    tab.still()
    assert page.evaluate(PLACES) == before
    # a text's first word is known without its space
    expect(card.locator(".lv-top li.this")).to_have_count(2)
    page.mouse.move(5, 5)
    expect(card).to_be_visible()
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    tab.still()
    assert page.evaluate(PLACES) == before


def test_a_pinned_word_shows_where_the_target_looked_and_what_the_drafts_see(tab):
    page = tab.page
    words(page).nth(6).click()
    rows = page.locator(".lv-film-row")
    expect(rows).to_have_count(3)
    says = [re.sub(r"\s", " ", text) for text in rows.locator("p").all_inner_texts()]
    assert says == [
        "Where the target looked for circles: 8.0 % of its attention above this text’s average on the warmest tile.",
        "What LVSpec’s draft sees: 8 of 16 tiles.",
        "What SpecVLM’s draft sees: 8 of 16 tiles.",
    ]
    expect(rows.locator("img")).to_have_count(6)
    tab.until(lambda: rows.nth(0).evaluate(PAINTED), [[6], [6]], "token 6 was looked for in tile 6, in both frames of the slice")
    tab.until(lambda: rows.nth(1).evaluate(PAINTED), [list(range(1, 16, 2))] * 2, "every second tile is kept clear")
    page.get_by_label("Next word").click()
    tab.until(lambda: rows.nth(0).evaluate(PAINTED), [[7], [7]])
    words(page, "naive_sd").nth(2).click()
    expect(page.locator(".lv-evidence")).to_contain_text("naive SD’s draft sees all 16 tiles.")
    tab.still()
    assert serious(page, ".lv-card") == {}
    tab.shot("inspector-pinned", full=False)
    page.get_by_label("Close").click()
    expect(page.locator(".lv-card")).to_be_hidden()


def test_the_arrow_keys_walk_from_word_to_word(tab):
    page = tab.page
    focused = "document.activeElement.dataset.index"
    words(page)
    stop = page.locator(f"{LANE} .lv-text [tabindex='0']")
    # the Tab key stops at one word of a text
    expect(stop).to_have_count(1)
    stop.focus()
    card = page.locator(".lv-card")
    expect(card).to_be_visible()
    for key, place in (("End", 39), ("ArrowRight", 39), ("Home", 0), ("ArrowRight", 1), ("ArrowLeft", 0)):
        page.keyboard.press(key)
        tab.until(lambda: page.evaluate(focused), str(place), f"{key} goes to word {place}")
        expect(card.locator(".lv-card-where")).to_have_text(f"LVSpec · token {place + 1} of 40")
    page.keyboard.press("Enter")
    expect(card).to_have_class(re.compile("pinned"))
    page.keyboard.press("ArrowRight")
    tab.until(lambda: page.evaluate(focused), "1")
    page.keyboard.press("Enter")
    tab.until(lambda: page.evaluate("document.activeElement.closest('.lv-card') !== null"), why="Enter goes on into the card")
    page.keyboard.press("ArrowRight")
    expect(card.locator(".lv-card-where")).to_have_text("LVSpec · token 3 of 40")
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    tab.until(lambda: page.evaluate(focused), "2", "and back to the word")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_on_a_phone_the_card_is_a_sheet_below_the_word(standin, visit, race_file, theme):
    tab = visit(standin, PHONE, theme)
    page = tab.page
    tab.open_file(race_file)
    chip = words(page).nth(30)
    tab.still()
    before = page.evaluate("scrollY")
    chip.tap()
    card = page.locator(".lv-card.pinned")
    expect(card).to_be_visible()
    tab.still()
    sheet, word = card.bounding_box(), chip.bounding_box()
    assert (sheet["x"], sheet["width"], round(sheet["y"] + sheet["height"])) == (0, 360, 740)
    assert word["y"] + word["height"] < sheet["y"], "the word is not hidden by its sheet"
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert card.evaluate("(node) => node.scrollWidth <= node.clientWidth")
    assert serious(page, ".lv-card") == {}
    tab.shot(f"inspector-phone-{theme}", full=False)
    page.get_by_label("Close").tap()
    expect(card).to_be_hidden()
    tab.until(lambda: page.evaluate("scrollY"), before, "the page is back where it was")


def test_a_lane_unfolds_into_its_rounds(tab):
    page = tab.page
    lane = page.locator(LANE)
    fold = lane.locator(".lv-fold")
    fold.click()
    rounds = lane.locator(".lv-round")
    expect(rounds).to_have_count(7)
    expect(rounds.first).to_contain_text("5 of 5 kept")
    # what was not kept is struck out
    expect(rounds.last.locator(".lv-lost")).to_have_count(2)
    rounds.first.locator(".tk").nth(1).click()
    expect(page.locator(".lv-card-where")).to_have_text("LVSpec · token 2 of 40")
    page.keyboard.press("Escape")
    page.locator(".lv-lane[data-lane=ar] .lv-fold").click()
    long = page.locator(".lv-lane[data-lane=ar] .lv-round")
    # no more is drawn than is read
    expect(long).to_have_count(16)
    page.locator(".lv-lane[data-lane=ar] .lv-rounds-list").evaluate("(list) => { list.scrollTop = list.scrollHeight; }")
    expect(long).to_have_count(32)
    fold.click()
    expect(rounds.first).to_be_hidden()
    page.locator(".lv-lane[data-lane=ar] .lv-fold").click()


def test_a_lecture_goes_round_by_round(tab):
    page = tab.page
    page.get_by_role("button", name="Step", exact=True).click()
    step = page.locator(".lv-step")
    where, say = step.locator(".lv-step-where"), step.locator(".lv-step-say")
    expect(where).to_have_text("Round 1 of 7")
    expect(say).to_have_text("The draft guessed 5 words; in one pass the target kept all 5 (2 loosely) and added red of its own.")
    tab.until(lambda: tab.tokens("lvspec"), 6)
    page.keyboard.press("ArrowRight")
    expect(where).to_have_text("Round 2 of 7")
    tab.until(lambda: tab.tokens("lvspec"), 12)
    expect(page.locator(f"{LANE} .tk.stepped")).to_have_count(6)
    tab.until(lambda: tab.tokens("ar"), 3, "the others stand where their own clocks are")
    for _ in range(9):
        page.keyboard.press("ArrowRight")
    expect(where).to_have_text("Round 7 of 7")
    expect(say).to_contain_text("a word about the video must match exactly")
    page.keyboard.press("ArrowLeft")
    expect(where).to_have_text("Round 6 of 7")
    step.get_by_role("button", name="AR", exact=True).click()
    expect(where).to_have_text("Round 9 of 40")
    tab.still()
    assert serious(page, ".lv-step") == {}
    tab.shot("step", full=False)
    step.get_by_role("button", name="Done").click()
    expect(step).to_be_hidden()
    tab.until(lambda: tab.tokens("lvspec"), 40)


def test_an_exported_race_has_it_all_offline(chromium, race_file, tmp_path):
    path = tmp_path / "race.html"
    path.write_text(view.race_page(recorded(RaceSettings(question="fast", max_new_tokens=40, details=True))), encoding="utf-8")
    context = chromium.new_context(viewport=DESKTOP, offline=True)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto(path.as_uri())
    page.wait_for_selector(".lv-board[data-state=finished]")
    page.locator(WORDS).nth(6).click()
    until(page, lambda: page.locator(".lv-film-row").first.evaluate(PAINTED), [[6], [6]])
    until(page, lambda: page.locator(".lv-film-row img").evaluate_all("(all) => all.every((each) => each.naturalWidth > 0)"))
    page.keyboard.press("Escape")
    page.locator(f"{LANE} .lv-fold").click()
    expect(page.locator(f"{LANE} .lv-round")).to_have_count(7)
    page.get_by_role("button", name="Step", exact=True).click()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".lv-step-where")).to_have_text("Round 2 of 7")
    assert errors == []
    context.close()


def test_a_race_without_details_says_what_it_lacks(standin, visit, tmp_path):
    tab = visit(standin)
    page = tab.page
    tab.open_file(save_race(recorded(), tmp_path / "old.jsonl"))
    words(page).nth(18).click()
    card = page.locator(".lv-card")
    expect(card).to_contain_text("recorded without the models’ probabilities")
    expect(card).to_contain_text("recorded without its frames")
    expect(card.locator(".lv-why")).to_contain_text("The draft said The, the target preferred another word")


def test_a_live_race_has_details_and_a_drawn_one_says_what_is_the_same(standin, visit, tmp_path):
    tab = visit(standin)
    page = tab.page
    tab.sample(0)
    page.locator("#advanced button").first.click()
    page.get_by_label("number input for Temperature").fill("0.8")
    page.get_by_label("number input for Temperature").press("Enter")
    page.get_by_role("combobox", name="Proposal").click()
    page.get_by_role("option", name="dynamic tree").click()
    tab.ask("fast")
    tab.race()
    tab.state("finished")
    expect(page.locator(".lv-lane[data-lane=naive_sd] .lv-badge")).to_have_text("same distribution as AR")
    expect(page.locator(".lv-lane[data-lane=ar] .lv-badge")).to_be_hidden()
    words(page).nth(2).click()
    expect(page.locator(".lv-film-row").first).to_contain_text("Where the target looked for shows")
    page.keyboard.press("Escape")
    with page.expect_download() as download:
        page.locator("#download").click()
    start = json.loads(download.value.path().read_text().splitlines()[0])
    assert (start["settings"]["temperature"], start["settings"]["proposal"], start["settings"]["details"]) == (0.8, "dynamic_tree", True)
