"""The script that knows the race: what it answers for races that can be worked out by hand."""

from __future__ import annotations

import pytest

from lvspec_core.view.parts import STATIC

HELPERS = """
function raceOf(records) { const race = newRace("test"); takeRecords(race, 0, records); return race; }
function figuresOf(records, t) { const race = raceOf(records); return figuresAt(race, race.lanes.get("lvspec"), t); }
function curveOf(records) { const race = raceOf(records); return speedupCurve(race, race.lanes.get("lvspec"), null); }
function takenTwice(records) {
  const race = raceOf(records.slice(0, 8));
  takeRecords(race, 4, records.slice(4));
  return [race.known, race.lanes.get("ar").ids];
}
"""


@pytest.fixture(scope="module")
def model(chromium):
    page = chromium.new_page()
    page.add_script_tag(content=(STATIC / "model.js").read_text(encoding="utf-8"))
    page.add_script_tag(content=HELPERS)
    yield page
    page.close()


def start(*methods: str) -> dict:
    return {"type": "start", "settings": {"methods": list(methods)}}


def step(lane: str, seconds: float, ids: list[int], verdict: str = "exact", guesses: int = 0, kept: int = 0) -> dict:
    tokens = [{"id": token, "text": f" w{token}", "verdict": verdict, "anchor": False, "relevance": 0.1} for token in ids]
    proposed = [[0, " x"]] * guesses
    return {"type": "round", "lane": lane, "seconds": seconds, "draft_seconds": 0, "proposed": proposed, "accepted": kept, "tokens": tokens}


AR = [step("ar", second, [second], "ar") for second in range(1, 11)]
FAST = [step("lvspec", 2, [1, 2, 3, 4, 5], guesses=4, kept=4), step("lvspec", 4, [6, 7, 99], guesses=4, kept=2)]
RACE = [start("ar", "lvspec"), *AR, *FAST]


def test_speedup_is_tokens_of_the_lane_over_tokens_of_ar_at_its_own_time(model):
    curve = model.evaluate(
        "(records) => { const race = raceOf(records); return speedupCurve(race, race.lanes.get('lvspec'), null); }", RACE
    )
    # at 2 s AR has two tokens, too few to say anything; at 4 s it has four
    assert curve == {"x": [4], "y": [2]}


def test_between_two_tokens_ar_counts_in_part(model):
    count = "(args) => tokensWhen(raceOf(args[0]).lanes.get('ar'), args[1])"
    assert model.evaluate(count, [RACE, 4.5]) == 4.5
    assert model.evaluate(count, [RACE, 11]) is None


def test_figures_of_a_moment(model):
    at = "([records, t]) => figuresOf(records, t)"
    early, late = model.evaluate(at, [RACE, 3]), model.evaluate(at, [RACE, None])
    assert (early["tokens"], early["rounds"], early["same"]) == (5, 1, True)
    assert (late["tokens"], late["perRound"], late["acceptance"]) == (8, 4, 0.75)
    assert (late["same"], late["differsAt"]) == (False, 7)
    assert late["decode"] == pytest.approx(2)


def test_the_text_counts_as_equal_only_as_far_as_both_have_come(model):
    at = "([records, t]) => figuresOf(records, t).same"
    assert model.evaluate(at, [[start("ar", "lvspec"), *AR[:5], *FAST], None]) is True


def test_rounds_are_counted_by_what_they_wrote(model):
    sizes = "(records) => { const race = raceOf(records); return [...race.lanes.values()].map((lane) => roundSizes(lane, null)); }"
    assert model.evaluate(sizes, RACE) == [[10], [0, 0, 1, 0, 1]]


def test_a_failed_lane_claims_nothing(model):
    failed = {"type": "lane", "lane": "lvspec", "finish": "failed", "error": "Out of memory.", "prefill_seconds": 0}
    figures = model.evaluate("(records) => figuresOf(records, null)", [*RACE, failed])
    assert (figures["decode"], figures["same"], figures["error"]) == (None, None, "Out of memory.")


def test_a_batch_that_comes_twice_counts_once(model):
    known = model.evaluate("takenTwice", RACE)
    assert known == [len(RACE), list(range(1, 11))]


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (0.4, "0.40×"), (2.714, "2.71×"), (27.14, "27.1×"), (271.4, "271×")])
def test_numbers_have_three_digits_that_matter(model, value, text):
    assert model.evaluate("(value) => digits(value, '×')", value) == text


@pytest.mark.parametrize(("value", "text"), [(0.0042, "4.2 ms"), (0.042, "42 ms"), (0.42, "0.42 s"), (42, "42.0 s")])
def test_seconds_have_their_unit(model, value, text):
    assert model.evaluate("secondsText", value) == text


def test_only_all_of_it_reads_100(model):
    shares = model.evaluate("(values) => values.map(percent)", [1, 0.9967, 0.5, 0.001, 0, None])
    assert shares == ["100 %", "99 %", "50 %", "1 %", "0 %", "–"]
