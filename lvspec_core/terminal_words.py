"""How a terminal words what it shows: names, figures, and text from elsewhere."""

from __future__ import annotations

import re

from lvspec_core.records import Preparing
from lvspec_core.settings import METHOD_TITLES

# C0 and C1 controls, and those that change the direction of writing
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def title(lane: str) -> str:
    return METHOD_TITLES.get(lane, plain_text(lane))


def times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"


def share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def plain_text(text: str) -> str:
    """The text without control characters: a saved race or a file's name must not steer the terminal."""
    return CONTROLS.sub("", text.replace("\n", " ").replace("\t", " "))


def preparing_text(record: Preparing) -> str:
    return f"{plain_text(record.part)}: {record.done} of {record.total}"
