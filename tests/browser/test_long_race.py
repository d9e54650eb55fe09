"""A race of 1,000 tokens a lane stays smooth, and a tab that races on and on does not grow."""

from __future__ import annotations

import json

import pytest
from fake_race import recorded
from test_extras import RACES

from lvspec_core.race_files import save_race
from lvspec_core.settings import RaceSettings

pytestmark = [pytest.mark.timeout(300), pytest.mark.clock]

# how long the page is busy for an action: its script, and script and layout of the frame that shows it; waiting for a frame is no work
BUSY = """(act) => new Promise((done) => {
  let began;
  let frame;
  requestAnimationFrame(() => { frame = performance.now(); });
  began = performance.now();
  act();
  const script = performance.now() - began;
  requestAnimationFrame(() => { document.body.offsetHeight; done(script + performance.now() - frame); });
})"""
ACTIONS = {
    "scrub the replay": """(turn) => {
      const slider = document.querySelector('.lv-replay .lv-slider');
      slider.value = 900 - turn; slider.dispatchEvent(new Event('input')); }""",
    "rest on a word": """(turn) => {
      const word = document.querySelectorAll('.lv-lane[data-lane=ar] .lv-text .tk')[300 + turn];
      word.dispatchEvent(new PointerEvent('pointermove', { bubbles: true, pointerType: 'mouse' })); }""",
    "pin a word": """(turn) => document.querySelectorAll('.lv-lane[data-lane=lvspec] .lv-text .tk')[500 + turn].click()""",
    "walk to the next word": """() => document.activeElement.dispatchEvent(
      new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true, cancelable: true }))""",
    "let go of it": "() => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }))",
    "unfold a lane": "() => document.querySelector('.lv-lane[data-lane=ar] .lv-fold').click()",
    "step": """(turn) => {
      if (document.querySelector('.lv-step').hidden) document.querySelector('.lv-step-in').click();
      else document.querySelector('.lv-step-buttons button:nth-child(2)').click(); }""",
    "only differences": "(turn) => document.querySelector('.lv-compare input').click()",
    "set the draft length": """(turn) => {
      const slider = document.querySelector('.lv-whatif .lv-range');
      slider.value = 3 + turn; slider.dispatchEvent(new Event('input')); }""",
    "sort the history": """(turn) => {
      const order = document.querySelector('.lv-history select');
      order.selectedIndex = turn % 3; order.dispatchEvent(new Event('change')); }""",
}


@pytest.fixture(scope="module")
def long_race(tmp_path_factory):
    records = recorded(RaceSettings(question="fast", max_new_tokens=1000, details=True))
    return save_race(records, tmp_path_factory.mktemp("long") / "long.jsonl")


def test_every_interaction_takes_at_most_50_ms(standin, visit, long_race):
    tab = visit(standin, fresh=True)
    page = tab.page
    tab.open_file(long_race)
    page.locator(".lv-whatif").scroll_into_view_if_needed()
    page.wait_for_selector(".lv-whatif .lv-chart.drawn")
    page.wait_for_function("document.querySelectorAll('.lv-history tbody tr').length === 1")
    page.wait_for_timeout(1000)
    took = {}
    for name, action in ACTIONS.items():
        times = []
        for turn in range(7):
            times.append(page.evaluate(f"() => ({BUSY})(() => ({action})({turn}))"))
            page.wait_for_timeout(120)
        # the best but two: what the page needs, whatever else the machine is doing
        took[name] = round(sorted(times)[2], 1)
    print(took)
    assert {name: time for name, time in took.items() if time > 50} == {}


def test_twenty_races_in_one_tab_do_not_make_it_grow(standin, visit, long_race):
    tab = visit(standin, fresh=True)
    page = tab.page
    session = page.context.new_cdp_session(page)

    def held() -> dict:
        session.send("HeapProfiler.collectGarbage")
        metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
        return {"megabytes": metrics["JSHeapUsedSize"] / 1e6, "nodes": metrics["Nodes"], "listeners": metrics["JSEventListeners"]}

    examples = json.loads((RACES / "races.json").read_text(encoding="utf-8"))
    session.send("Performance.enable")
    page.evaluate("for (const node of document.querySelectorAll('.lv-examples button')) node.click()")
    tab.open_file(long_race)
    counts = []
    for race in range(20):
        if race in (4, 19):
            page.wait_for_timeout(1500)
            counts.append(held())
        page.locator(".lv-examples button").nth(race % 2).click()
        page.wait_for_function(f"document.querySelectorAll('.lv-history tbody tr').length >= {min(24, race + 1)}")
    print(counts)
    early, late = counts
    # fifteen races are kept as text, of two bytes a letter
    kept = 15 * 2 * sum((RACES / each["file"]).stat().st_size for each in examples[:2]) / 2 / 1e6
    assert late["megabytes"] - early["megabytes"] < kept + 5
    assert late["nodes"] < early["nodes"] * 1.3 + 500
    assert late["listeners"] < early["listeners"] * 1.3 + 200
