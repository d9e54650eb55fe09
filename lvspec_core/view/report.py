"""A report as one HTML file that needs nothing else: its figures, and the races of the clips that it lists."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from lvspec_core.records import Record
from lvspec_core.view.export import filled_page, inert_json, plotly_script, scope
from lvspec_core.view.feed import Feed
from lvspec_core.view.parts import BOARD, REPORT, REPORT_STYLES, read_static


def report_page(value: dict, races: Mapping[str, Iterable[Record]]) -> str:
    """``value``: as :func:`lvspec_core.report.summary.report_value` gives it; ``races``: by the keys that it names. A clip whose race
    is not among them shows its texts and does not open."""
    parts = {
        "STYLE": "\n".join(read_static(name) for name in (*REPORT_STYLES, "export.css")),
        "REPORT": REPORT.html,
        "BOARD": BOARD.html,
        "PLOTLY": plotly_script(),
        "RACE_SCRIPT": scope(read_static("export.js"), BOARD.script),
        "REPORT_SCRIPT": scope(read_static("report_export.js"), REPORT.script),
    }
    text = filled_page("report_export.html", parts)
    # texts of others last, so that nothing in them is taken for a mark
    feeds = {key: "".join(Feed(recorded=True, key=key).over(records)) for key, records in races.items()}
    before, rest = text.split('"@RACES@"')
    between, after = rest.split('"@VALUE@"')
    inner = ",".join(f"{json.dumps(key)}:{feed}" for key, feed in feeds.items())
    shown = json.dumps(only_held(value, feeds.keys()), ensure_ascii=False)
    return before + inert_json("{" + inner + "}") + between + inert_json(shown) + after


def only_held(value: dict, held: Iterable[str]) -> dict:
    """The value without the keys of races that are not there."""
    held = set(held)

    def clip(each: dict) -> dict:
        return {**each, "race": each["race"] if each["race"] in held else None}

    def run(each: dict) -> dict:
        clips = {method: {kind: [clip(one) for one in found] for kind, found in kinds.items()} for method, kinds in each["clips"].items()}
        points = {
            method: [[*point[:3], point[3] if point[3] in held else None] for point in found] for method, found in each["points"].items()
        }
        return {**each, "clips": clips, "points": points}

    return {**value, "runs": [run(each) for each in value["runs"]]}
