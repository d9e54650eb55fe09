"""A report as plain JSON values: what its page draws, with every figure already worded as the terminal words it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lvspec_core.evaluation.metrics_table import COLUMNS, filled
from lvspec_core.evaluation.results import Result
from lvspec_core.report.clips import KINDS, clips_of
from lvspec_core.report.runs import Run, finished

CLIPS = 5
MOST_POINTS = 400  # of a method, in the chart of clips
WHISKERS = (0.05, 0.25, 0.5, 0.75, 0.95)
# a clip's figures as numbers, the texts as they are
Value = dict


def report_value(runs: Sequence[Run], count: int = CLIPS) -> Value:
    """Everything that a report's page shows of these runs. ``count``: clips of each kind. A clip's ``race`` is a key among
    :func:`races_of`'s, or None where its race was not kept."""
    columns = filled([row for run in runs for row in run.metrics])
    return {"columns": columns, "kinds": list(KINDS), "runs": [_run_value(run, place, columns, count) for place, run in enumerate(runs)]}


def _run_value(run: Run, place: int, columns: Sequence[str], count: int) -> Value:
    metrics = run.metrics
    by_method = {row["method"]: finished(run.results, row["method"]) for row in metrics}
    clips = {}
    for method in by_method:
        clips[method] = {kind: [_keyed(each, run, place) for each in found] for kind, found in clips_of(run, method, count).items()}
    return {
        "name": run.name,
        "pair": run.told("pair", "title") or "",
        "frames": run.frames,
        "samples": run.samples,
        "foreign": run.foreign,
        "kept": bool(run.races),
        "told": run.described(),
        "rows": [{"method": row["method"], "cells": [COLUMNS[name](row) for name in columns[1:]]} for row in metrics],
        "speedups": {method: spread([each["speedup_decode"] for each in results]) for method, results in by_method.items()},
        "points": {method: points(results, run, place) for method, results in by_method.items() if method != "ar"},
        "clips": clips,
        "failures": failures(run, count),
    }


def _keyed(clip: Result, run: Run, place: int) -> Result:
    """The clip with its race's key; a clip may stand in two lists."""
    return {**clip, "race": race_key(place, clip["race"]) if clip["race"] in run.races else None}


def race_key(place: int, race: str) -> str:
    return f"{place}:{race}"


def races_of(runs: Sequence[Run]) -> dict:
    """Key -> path of every race that can be opened."""
    return {race_key(place, name): path for place, run in enumerate(runs) for name, path in run.races.items()}


def races_shown(value: Value) -> list[str]:
    """The keys of the races that a report's lists name, in the order in which they are met, each once."""
    lists = [kinds[kind] for run in value["runs"] for kinds in run["clips"].values() for kind in KINDS]
    return list(dict.fromkeys(each["race"] for clips in lists for each in clips if each["race"]))


def spread(values: Sequence[float | None]) -> Value | None:
    """The median, the quartiles and where the middle nine tenths end; None where nothing is known."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return {"samples": len(known), "quantiles": [round(float(each), 4) for each in np.quantile(known, WHISKERS)]}


def points(results: Sequence[Result], run: Run, place: int) -> list[list]:
    """[mean accepted length, decode speedup, clip's name, race key or None] for each clip; evenly thinned where there are many."""
    known = [each for each in results if each["speedup_decode"] is not None and each["average_accept_length"] is not None]
    step = max(1, -(-len(known) // MOST_POINTS))
    return [
        [
            round(each["average_accept_length"], 3),
            round(each["speedup_decode"], 3),
            each["name"] or f"sample {each['sample_index']}",
            race_key(place, each["race"]) if each["race"] in run.races else None,
        ]
        for each in known[::step]
    ]


def failures(run: Run, count: int) -> list[Value]:
    """The first samples that failed, each with the sentence that says why."""
    found = {}
    for each in run.results:
        if each["error"]:
            found.setdefault(each["sample_index"], {"name": each["name"] or f"sample {each['sample_index']}", "error": each["error"]})
    return list(found.values())[:count]
