"""A report as one HTML page, with the races of the clips that it lists."""

from __future__ import annotations

from collections.abc import Sequence

from lvspec_core.errors import UserError
from lvspec_core.race_files import load_race
from lvspec_core.report.runs import Run
from lvspec_core.report.summary import CLIPS, races_of, races_shown, report_value
from lvspec_core.view import report_page

MOST_RACES = 60  # in one HTML file: each takes some 300 kB


def html_report(runs: Sequence[Run], count: int = CLIPS) -> tuple[str, int]:
    """The page, and how many of the races of its clips it does not hold, because they are too many or cannot be read."""
    value = report_value(runs, count)
    known, keys = races_of(runs), races_shown(value)
    races = {}
    for key in keys:
        if len(races) == MOST_RACES:
            break
        try:
            races[key] = load_race(known[key])
        except UserError:
            continue
    return report_page(value, races), len(keys) - len(races)
