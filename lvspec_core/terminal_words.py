"""How a terminal words what it shows: names, figures, and text from elsewhere."""

from __future__ import annotations

import re
from typing import Any

from lvspec_core.records import Preparing
from lvspec_core.settings import METHOD_TITLES

# C0 and C1 controls, and those that change the direction of writing
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def title(lane: str) -> str:
    return METHOD_TITLES.get(lane, plain_text(lane))


def times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"


def hundredths(value: float, digits: int) -> str:
    """A share of 0 to 1 in hundredths: only all of it reads 100, and only none of it 0."""
    unit = 10**-digits
    lowest, highest = (unit if value > 0 else 0), (100 - unit if value < 1 else 100)
    return f"{min(max(100 * value, lowest), highest):.{digits}f}"


def percent(value: float | None) -> str:
    return "–" if value is None else f"{hundredths(value, 0)} %"


def share(value: float | None) -> str:
    return "–" if value is None else f"{hundredths(value, 1)}%"


def same_as_ar(row: dict[str, Any]) -> str:
    """The share of texts that are AR's; and how many of the others leave it at a tie that rounding decides, where any does."""
    ties = row.get("near_ties") or 0
    return share(row["same_as_ar"]) + (f", {ties} rounding {'tie' if ties == 1 else 'ties'}" if ties else "")


def plain_text(text: str) -> str:
    """The text without control characters: a saved race or a file's name must not steer the terminal."""
    return CONTROLS.sub("", text.replace("\n", " ").replace("\t", " "))


def preparing_text(record: Preparing) -> str:
    return f"{plain_text(record.part)}: {record.done} of {record.total}"
