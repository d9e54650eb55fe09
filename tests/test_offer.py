"""Which pairs a page offers, as the environment says."""

from __future__ import annotations

import pytest

from lvspec_core.errors import PairError
from lvspec_core.offer import Offer
from lvspec_core.registry import PAIRS

SEVEN, BUNDLED = "qwen2.5-vl-7b", "shapes-qwen"


@pytest.mark.parametrize(
    ("environment", "names", "default"),
    [
        ({}, list(PAIRS), BUNDLED),
        ({"LVSPEC_PAIR": "", "LVSPEC_PAIRS": " , "}, list(PAIRS), BUNDLED),
        ({"LVSPEC_PAIR": SEVEN}, list(PAIRS), SEVEN),
        ({"LVSPEC_PAIRS": f"{SEVEN}, {BUNDLED} ,{SEVEN}"}, [SEVEN, BUNDLED], SEVEN),
        ({"LVSPEC_PAIR": BUNDLED, "LVSPEC_PAIRS": SEVEN}, [BUNDLED, SEVEN], BUNDLED),
        ({"LVSPEC_PAIR": BUNDLED, "LVSPEC_PAIRS": f"{SEVEN},{BUNDLED}"}, [SEVEN, BUNDLED], BUNDLED),
    ],
)
def test_the_environment_chooses(environment, names, default):
    offer = Offer.read(environment)
    assert [info.name for info in offer.pairs] == names
    assert offer.default == default
    assert offer.pair(default) == PAIRS[default]


@pytest.mark.parametrize("environment", [{"LVSPEC_PAIR": "nope"}, {"LVSPEC_PAIRS": f"{BUNDLED},nope"}])
def test_an_unknown_pair_is_refused(environment):
    with pytest.raises(PairError, match="Unknown pair 'nope'"):
        Offer.read(environment)


def test_what_is_not_offered_is_unknown():
    with pytest.raises(PairError, match=f"choose among {BUNDLED}"):
        Offer.read({"LVSPEC_PAIRS": BUNDLED}).pair(SEVEN)
