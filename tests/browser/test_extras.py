"""What is around a race: comparison, what if, links, exports, drops, the tour, the history and races in a row."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from conftest import PHONE, until
from fake_race import recorded
from playwright.sync_api import expect

from lvspec_core.examples import EXAMPLES
from lvspec_core.race_files import load_race
from lvspec_core.records import to_dict
from lvspec_core.settings import RaceSettings

pytestmark = pytest.mark.timeout(300)
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WITHOUT_DELETED = """(node) => {
  const copy = node.cloneNode(true);
  copy.querySelectorAll("del").forEach((each) => each.remove());
  return copy.textContent;
}"""
RACES = ROOT / "assets" / "races"


def departing() -> list[dict]:
    """A race whose LVSpec lane words one filler otherwise, states another fact, and says so."""
    records = [json.loads(json.dumps(to_dict(record))) for record in recorded()]
    swaps = {" slowly": (" gently", 91), " red": (" blue", 92)}
    ids = []
    for record in records:
        if record["type"] != "round" or record["lane"] != "lvspec":
            continue
        for token in record["tokens"]:
            if token["text"] in swaps:
                token["text"], token["id"] = swaps.pop(token["text"])
            ids.append(token["id"])
    end = next(record for record in records if record["type"] == "lane" and record["lane"] == "lvspec")
    end.update(token_ids=ids, same_as_ar=False, first_difference=ids.index(92), finish="end of text")
    next(record for record in records if record["type"] == "lane" and record["lane"] == "ar")["finish"] = "end of text"
    return records


@pytest.fixture(scope="module")
def race_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("races") / "departing.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in departing()))
    return path


def test_lanes_are_compared_with_ar_word_by_word(standin, visit, race_file):
    tab = visit(standin)
    page = tab.page
    tab.open_file(race_file)
    compare = page.locator(".lv-compare")
    expect(compare).to_be_visible()
    lanes = compare.locator(".lv-compare-lane")
    expect(lanes).to_have_count(3)
    assert re.fullmatch(r"All \d+ words are AR’s\.", lanes.first.locator("p").inner_text())
    counts = lanes.nth(2).locator(".lv-compare-counts li").all_inner_texts()
    assert counts[1:] == ["1 reworded", "1 another fact"]
    assert lanes.nth(2).locator(".d-reworded del").inner_text() == "slowly"
    assert lanes.nth(2).locator(".d-reworded ins").inner_text() == "gently"
    assert (lanes.nth(2).locator(".d-fact del").inner_text(), lanes.nth(2).locator(".d-fact ins").inner_text()) == ("red", "blue")
    assert "anchor" in compare.locator(".lv-note").inner_text(), "it is said how that is decided"
    text = lanes.nth(2).locator(".lv-compare-text").evaluate(WITHOUT_DELETED)
    assert text.split() == page.locator(".lv-lane[data-lane=lvspec] .lv-text").inner_text().replace("≠ AR", "").split()
    compare.get_by_label("only differences").check()
    places = compare.locator(".lv-compare-places li")
    expect(places).to_have_count(2)
    expect(places.first).to_have_text(re.compile("^… clip shows two small red blue circles that move"))
    expect(compare.locator(".lv-compare-text")).to_have_count(0)


@pytest.mark.parametrize(
    ("near", "badge", "look", "tip"),
    [(True, " · rounding", "off", "0.0000029 apart"), (False, "", "bad", "That is a fault"), (None, "", "off", "worded differently")],
)
def test_a_lossless_lane_that_leaves_ar_says_why(standin, visit, tmp_path, near, badge, look, tip):
    records = [json.loads(json.dumps(to_dict(record))) for record in recorded()]
    rounds = [record for record in records if record["type"] == "round" and record["lane"] == "naive_sd"]
    rounds[-1]["tokens"][-1].update(id=93, text=" else")
    ids = [token["id"] for record in rounds for token in record["tokens"]]
    end = next(record for record in records if record["type"] == "lane" and record["lane"] == "naive_sd")
    gap = None if near is None else 2.86e-6
    end.update(token_ids=ids, same_as_ar=False, first_difference=len(ids) - 1, finish="end of text", near_tie=near, departure_gap=gap)
    path = tmp_path / "tie.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    tab = visit(standin)
    tab.open_file(path)
    shown = tab.page.locator(".lv-lane[data-lane=naive_sd] .lv-badge")
    expect(shown).to_have_text(f"leaves AR at token {len(ids)}{badge}")
    expect(shown).to_have_attribute("data-look", look)
    expect(shown).to_have_attribute("data-tip", re.compile(re.escape(tip)))
    expect(tab.page.locator(".lv-table").first).to_contain_text(f"≠ at {len(ids)}{' (rounding)' if near else ''}")


def test_what_if_starts_from_what_was_measured(standin, visit, race_file):
    tab = visit(standin)
    page = tab.page
    tab.open_file(race_file)
    panel = page.locator(".lv-whatif")
    answer = panel.locator(".lv-whatif-answer")
    expect(answer).to_have_text(re.compile(r"Expected: [\d.]+×.*Measured in this race: [\d.]+× at γ = 5\."))
    before = answer.inner_text()
    expect(panel).to_contain_text("2211.17192")
    # a quarter of 16 ms over 5 guesses
    expect(panel.locator("dl dd").nth(1)).to_have_text("0.8 ms")
    panel.get_by_label("Draft length γ").fill("20")
    expect(answer).not_to_have_text(before)
    panel.get_by_label("Hardware").select_option("other")
    expect(panel).to_contain_text("An assumption, not a measurement")
    panel.get_by_label("Bytes a weight").fill("0")
    expect(answer).to_contain_text("above 0")
    panel.get_by_text("As measured", exact=True).click()
    expect(answer).to_have_text(before)
    panel.get_by_label("Lane").select_option("naive_sd")
    expect(answer).not_to_have_text(before)
    expect(panel.locator(".lv-chart.drawn .plot-container")).to_be_visible()


def test_a_race_leaves_as_one_page_that_opens_offline(standin, visit, race_file, chromium, tmp_path):
    tab = visit(standin)
    page = tab.page
    tab.open_file(race_file)
    with page.expect_download() as download:
        page.get_by_text("Save as a web page").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    assert path.name == "race-clip.html"
    context = chromium.new_context(viewport=PHONE, color_scheme="dark", offline=True)
    alone = context.new_page()
    errors: list[str] = []
    requests: list[str] = []
    alone.on("pageerror", lambda error: errors.append(str(error)))
    alone.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    alone.on("request", lambda request: requests.append(request.url))
    alone.goto(path.as_uri())
    alone.wait_for_selector(".lv-board[data-state=finished]")
    for lane in ("ar", "lvspec"):
        words = f".lv-lane[data-lane={lane}] .lv-text .tk"
        expect(alone.locator(words)).to_have_text(page.locator(words).all_text_contents())
    expect(alone.locator(".lv-compare-lane")).to_have_count(3)
    alone.locator(".lv-whatif").scroll_into_view_if_needed()
    alone.wait_for_selector(".lv-whatif .lv-chart.drawn .plot-container")
    alone.locator(".lv-play").click()
    alone.wait_for_selector(".lv-ghosts i", state="attached")
    until(alone, lambda: alone.evaluate("document.documentElement.scrollWidth"), 360, "the page is as wide as the phone")
    expect(alone.locator("body")).to_have_class(re.compile(r"\bdark\b"))
    expect(alone.locator(".lv-share button:visible, .lv-history:visible")).to_have_count(0)
    assert requests == [path.as_uri()]
    assert errors == []
    context.close()


def test_a_link_reopens_the_page_with_settings_and_sample(standin, visit):
    tab = visit(standin)
    page = tab.page
    tab.sample(1)
    tab.ask("Which colour & shape?")
    page.locator("#methods input").nth(1).uncheck()
    tab.race()
    tab.state("finished")
    page.get_by_text("Copy a link to these settings").click()
    page.wait_for_function("document.querySelector('.lv-share-say').textContent.startsWith('Cop')")
    address = page.evaluate("document.querySelector('.lv-link-field').value")
    query = parse_qs(urlsplit(address).query)
    assert query == {
        "sample": ["shapes-2-1-moving.mp4"], "question": ["Which colour & shape?"], "methods": ["ar,specvlm,lvspec"]
    }  # fmt: skip
    page.goto(f"{address}&draft_length=5&frames=999&shutdown=now")
    expect(tab.strip()).to_contain_text("shapes-2-1-moving.mp4")
    expect(page.locator("#question textarea")).to_have_value("Which colour & shape?")
    expect(page.locator("#methods input:checked")).to_have_count(3)
    expect(page.locator(".toast-body").first).to_contain_text("left out: 'frames', 'shutdown'.")
    tab.advanced()
    expect(page.get_by_label("number input for Draft length γ")).to_have_value("5")
    expect(page.get_by_label("number input for Frames")).to_have_value("8")


def test_a_file_dropped_anywhere_opens(standin, visit, race_file):
    tab = visit(standin)
    tab.page.evaluate(
        """(text) => {
          const files = new DataTransfer();
          files.items.add(new File([text], "dropped.jsonl"));
          const target = document.querySelector("#video");
          target.dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
        }""",
        race_file.read_text(),
    )
    tab.state("finished")
    tab.until(lambda: tab.tokens("lvspec"), 40)


def test_the_tour_takes_six_steps_and_is_remembered(standin, visit):
    tab = visit(standin)
    page = tab.page
    card = page.locator(".lv-tour-card")
    expect(card).to_be_hidden()
    page.locator(".lv-invite").click()
    card.wait_for()
    tab.state("finished")
    headlines = []
    for step in range(1, 7):
        expect(card).to_contain_text(f"Step {step} of 6")
        headlines.append(card.locator("h2").inner_text())
        expect(card.locator("#lv-tour-title")).to_be_focused()
        expect(page.locator(".lv-tour-spot")).to_have_count(1)
        # with the keyboard alone: from the title over Skip and Back to Next
        card.get_by_role("button").last.focus()
        page.keyboard.press("Enter")
    assert len(set(headlines)) == 6
    expect(card).to_be_hidden()
    expect(page.locator(".lv-tour-spot")).to_have_count(0)
    expect(page.locator(".lv-tour")).to_be_focused()
    expect(page.locator(".lv-tour")).to_have_text("? Tour")
    tab.reload()
    page.wait_for_selector(".lv-lane")
    expect(page.locator(".lv-invite")).to_be_hidden()
    page.locator(".lv-tour").click()
    card.wait_for()
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()


def test_recorded_races_open_at_once_and_the_tab_remembers_them(standin, visit):
    tab = visit(standin)
    page = tab.page
    examples = page.locator(".lv-examples button")
    tab.until(lambda: examples.count() >= 2, why="two recorded races are offered")
    for index in range(2):
        examples.nth(index).click()
        page.wait_for_function(f"document.querySelectorAll('.lv-history tbody tr').length === {index + 1}")
    rows = page.locator(".lv-history tbody tr")
    expect(rows.first.locator("button")).to_have_attribute("aria-current", "true")
    second = page.locator(".lv-lane[data-lane=lvspec] .lv-text").inner_text()
    rows.nth(1).locator("button").click()
    page.wait_for_function("document.querySelector('.lv-history tbody tr:nth-child(2) button').ariaCurrent === 'true'")
    tab.until(lambda: page.locator(".lv-lane[data-lane=lvspec] .lv-text").inner_text() != second, why="the first race stands on the board")
    expect(page.locator(".lv-compare-lane")).to_have_count(3)
    page.get_by_label("Order of the races").select_option("fastest")

    def sorted_by_speed() -> bool:
        speeds = [float(text.rstrip("×")) for text in rows.locator("td:nth-child(3)").all_inner_texts()]
        return len(speeds) == 2 and speeds == sorted(speeds, reverse=True)

    tab.until(sorted_by_speed, why="the fastest race comes first, and what is opened again is not a new race")


def test_several_videos_race_one_after_the_other(standin, visit, tmp_path):
    tab = visit(standin)
    page = tab.page
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video")
    files = sorted((ROOT / "assets" / "samples").glob("shapes-[12]*.mp4"))
    page.locator("#several ~ input[type=file], input[type=file][multiple]").first.set_input_files([files[0], broken, files[1]])
    page.wait_for_function("document.querySelectorAll('.lv-history tbody tr').length === 2", timeout=60_000)
    names = page.locator(".lv-history tbody th")
    tab.until(lambda: sorted(names.all_inner_texts()), [path.name for path in files])
    expect(page.locator(".toast-body")).to_contain_text("1 of 3 videos could not be raced")


def test_the_examples_are_races_that_can_be_read():
    entries = json.loads((RACES / "races.json").read_text(encoding="utf-8"))
    assert len(entries) >= 2
    for entry in entries:
        assert (RACES / entry["file"]).stat().st_size < 1.5 * 2**20
        records = load_race(RACES / entry["file"])
        lanes = {record.lane: record for record in records if record.type == "lane"}
        assert {lane: each.speedup_decode for lane, each in lanes.items()} == entry["speedups"]
        assert all(lanes[lane].same_as_ar for lane in ("naive_sd", "specvlm"))
        title, alt, _, changes = EXAMPLES[entry["file"]]
        assert (entry["title"], entry["alt"]) == (title, alt)
        for setting, value in changes.items():
            assert records[0].settings[setting] == value != getattr(RaceSettings(), setting), "what sets it apart is no default"


def test_the_tours_card_fits_a_narrow_window(standin, visit):
    tab = visit(standin, PHONE)
    tab.page.locator(".lv-tour").click()
    tab.page.locator(".lv-tour-card").wait_for()
    tab.still()
    box = tab.page.locator(".lv-tour-card").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE["width"]
