"""What rounds cost and what the formula makes of it: worked out by hand and from the paper."""

from __future__ import annotations

import pytest
from test_model import start, step

from lvspec_core.view.parts import STATIC

OF_RACE = """(records) => {
  const race = newRace("test");
  takeRecords(race, 0, records);
  return measuredInputs(race, race.lanes.get("lvspec"));
}"""
INPUTS = {"token": 0.02, "pass": 0.02, "draft": 0.002, "verify": 0.02, "other": 0, "otherAr": 0, "gamma": 5, "alpha": 0.8, "speedup": 2}
SPEEDUP = "([inputs, alpha, gamma]) => expectedSpeedup(inputs, alpha, gamma)"


@pytest.fixture(scope="module")
def model(chromium):
    page = chromium.new_page()
    for name in ("model.js", "costs.js"):
        page.add_script_tag(content=(STATIC / name).read_text(encoding="utf-8"))
    yield page
    page.close()


def timed(record: dict, draft: float, verify: float) -> dict:
    return {**record, "draft_seconds": draft, "verify_seconds": verify}


AR = [timed(step("ar", 0.02 * place, [place], "ar"), 0, 0.018) for place in range(1, 11)]
# two rounds of 0.04 s: the first keeps 4 of 4, the second 2 of 4
FAST = [
    timed(step("lvspec", 0.04, [1, 2, 3, 4, 5], guesses=4, kept=4), 0.008, 0.03),
    timed(step("lvspec", 0.08, [6, 7, 8], guesses=4, kept=2), 0.008, 0.03),
]
RACE = [start("ar", "lvspec"), *AR, *FAST]


def test_the_inputs_are_what_the_race_measured(model):
    inputs = model.evaluate(OF_RACE, RACE)
    assert inputs == pytest.approx(
        {
            "token": 0.02, "pass": 0.018, "otherAr": 0.002, "draft": 0.002, "verify": 0.03, "other": 0.002, "gamma": 4,
            # six guesses kept, one rejected; the one behind it was never judged
            "alpha": 6 / 7, "speedup": (8 / 0.08) * 0.02,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    "records",
    [
        [start("lvspec"), *FAST],
        [start("ar", "lvspec"), *AR],
        [start("ar", "lvspec"), *FAST],
        [start("ar", "lvspec"), *AR, {**FAST[0], "parents": [-1, 0, 0, 1]}],
        [start("ar", "lvspec"), *AR, {**FAST[0], "proposed": [], "accepted": 0}],
    ],
)
def test_where_the_formula_does_not_apply_there_are_no_inputs(model, records):
    assert model.evaluate(OF_RACE, records) is None


@pytest.mark.parametrize(("alpha", "gamma", "tokens"), [(0, 5, 1), (1, 5, 6), (0.5, 1, 1.5), (0.8, 5, 3.68928), (0.9, 2, 2.71)])
def test_expected_tokens_of_a_round(model, alpha, gamma, tokens):
    assert model.evaluate("([alpha, gamma]) => expectedTokens(alpha, gamma)", [alpha, gamma]) == pytest.approx(tokens)


@pytest.mark.parametrize(
    ("alpha", "gamma", "improvement"),
    # the speed column of the paper's table 1, where a draft step costs nothing
    [(0.6, 2, 1.96), (0.7, 3, 2.53), (0.8, 2, 2.44), (0.8, 5, 3.69), (0.9, 2, 2.71), (0.9, 10, 6.86)],
)
def test_the_papers_own_speeds_come_out(model, alpha, gamma, improvement):
    inputs = {**INPUTS, "draft": 0}
    assert model.evaluate(SPEEDUP, [inputs, alpha, gamma]) == pytest.approx(improvement, abs=0.006)


def test_a_draft_as_slow_as_the_target_only_loses(model):
    inputs = {**INPUTS, "draft": INPUTS["token"]}
    assert model.evaluate(SPEEDUP, [inputs, 0.8, 5]) == pytest.approx(3.68928 / 6)
    assert model.evaluate("([inputs]) => bestGamma(inputs, 0.5, 24)", [inputs]) == 1


def test_the_best_draft_length_is_the_best_of_all(model):
    of_all = "([inputs]) => [...Array(24).keys()].map((less) => expectedSpeedup(inputs, 0.8, less + 1))"
    speedups = model.evaluate(of_all, [INPUTS])
    assert model.evaluate("([inputs]) => bestGamma(inputs, 0.8, 24)", [INPUTS]) == speedups.index(max(speedups)) + 1


def test_a_longer_verification_is_a_straight_line_through_both_measured_ones(model):
    inputs = {**INPUTS, "verify": 0.03}
    seconds = "([inputs, gamma]) => verifySeconds(inputs, gamma)"
    assert model.evaluate(seconds, [inputs, 0]) == pytest.approx(0.02)
    assert model.evaluate(seconds, [inputs, 5]) == pytest.approx(0.03)
    assert model.evaluate(seconds, [inputs, 10]) == pytest.approx(0.04)
    assert model.evaluate(seconds, [{**inputs, "verify": 0.01}, 10]) == pytest.approx(0.02), "never faster than one token"


def test_on_other_hardware_a_pass_is_the_weights_over_the_bandwidth(model):
    sizes = {"target": 32e9, "draft": 7e9, "bytes": 2, "bandwidth": 2e12}
    inputs = model.evaluate("([inputs, sizes]) => onHardware(inputs, sizes)", [INPUTS, sizes])
    assert inputs == {**INPUTS, "token": 0.032, "pass": 0.032, "verify": 0.032, "draft": 0.007}
    assert model.evaluate(SPEEDUP, [inputs, 0.8, 5]) == pytest.approx(3.68928 / (5 * 7 / 32 + 1))


@pytest.mark.parametrize(
    ("relevance", "share", "anchors", "threshold"),
    [
        ({"threshold": 0.2}, None, [(0.1, False), (0.9, True)], 0.2),
        ({"threshold": 0.2}, 0.5, [(0.4, False), (0.6, True)], 0.5),
        (None, None, [(0.4, False), (0.6, True)], 0.5),
        (None, None, [(0.4, False)], 0.4),
        (None, None, [(0.6, True)], 0.6),
        (None, None, [(None, None)], None),
    ],
)
def test_the_threshold_of_a_race(model, relevance, share, anchors, threshold):
    tokens = [{"id": 1, "text": "a", "verdict": "exact", "relevance": score, "anchor": anchor} for score, anchor in anchors]
    records = [
        {"type": "start", "pair": {"relevance": relevance}, "settings": {"methods": ["lvspec"], "anchor_quantile": share}},
        {**step("lvspec", 1, [1]), "tokens": tokens},
    ]
    answer = model.evaluate("(records) => { const race = newRace('x'); takeRecords(race, 0, records); return thresholdOf(race); }", records)
    assert answer == (None if threshold is None else pytest.approx(threshold))
