"""A report as CSV: one row for each run and method, or one for each run, sample and method."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from lvspec_core.evaluation.results import Result
from lvspec_core.report.runs import TOLD, Run

# a spreadsheet takes a cell that begins with one of these for a formula, whoever wrote it
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def methods_csv(runs: Sequence[Run]) -> str:
    """A row for each run and method: how the run was made, then the figures of ``metric.jsonl``, numbers as they are."""
    rows = []
    for run in runs:
        made = {"run": run.name, **{label.lower().replace(" ", "_"): run.told(*place) for label, place in TOLD.items()}}
        rows += [{**made, **flat(row)} for row in run.metrics]
    return as_csv(rows)


def samples_csv(runs: Sequence[Run]) -> str:
    """A row for each record of each run, its texts whole."""
    return as_csv({"run": run.name, **flat(result)} for run in runs for result in run.results)


def flat(record: Result) -> Result:
    """The record without nesting: "fidelity.edit_distance"; quartiles as "….q1" and "….q3"."""
    found: Result = {}
    for name, value in record.items():
        if isinstance(value, dict):
            found |= {f"{name}.{inner}": each for inner, each in value.items()}
        elif name.endswith("_quartiles"):
            low, high = value or (None, None)
            found |= {f"{name.removesuffix('_quartiles')}.q1": low, f"{name.removesuffix('_quartiles')}.q3": high}
        else:
            found[name] = value
    return found


def as_csv(rows: Iterable[Result]) -> str:
    """Rows of any fields as RFC 4180 text; a column that is empty everywhere is left out."""
    rows = list(rows)
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if any(row.get(name) is not None for row in rows)]
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(names)
    writer.writerows([[cell(row.get(name)) for name in names] for row in rows])
    return text.getvalue()


def cell(value: object) -> object:
    """Numbers as they are; a text that a spreadsheet would run as a formula behind an apostrophe."""
    if isinstance(value, str) and value.startswith(FORMULA):
        return f"'{value}"
    return "" if value is None else value
