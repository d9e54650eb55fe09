"""``python -m lvspec_core report``: what evaluations found, side by side: figures of every run and method, and the clips to look at.

Reads folders that ``evaluate`` wrote to, and SpecVLM's own ``results.jsonl``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from lvspec_core.errors import UserError
from lvspec_core.evaluation.journal import METRICS, RUN, parts_of
from lvspec_core.evaluation.metrics_table import metrics_table
from lvspec_core.evaluation.results import Result
from lvspec_core.race_files import check_writable, write_whole
from lvspec_core.report.clips import KINDS, clips_of
from lvspec_core.report.csv_files import methods_csv, samples_csv
from lvspec_core.report.page import MOST_RACES, html_report
from lvspec_core.report.runs import Run, read_runs
from lvspec_core.report.summary import CLIPS, report_value
from lvspec_core.settings import METHOD_TITLES
from lvspec_core.terminal_words import percent, plain_text, times

TITLES = {"fastest": "fastest", "slowest": "slowest", "furthest": "furthest from AR’s text"}
IN_TERMINAL = 3
MOST_CLIPS = 100
PLAIN_WIDTH = 220


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m lvspec_core report", description=__doc__, allow_abbrev=False)
    made.add_argument("runs", nargs="+", type=Path, metavar="DIR", help="a folder that evaluate wrote to, or a results.jsonl of SpecVLM's")
    made.add_argument("--html", type=Path, metavar="FILE", help="write the report as one page that needs nothing else")
    made.add_argument("--csv", type=Path, metavar="FILE", help="write a row for each run and method")
    made.add_argument("--samples-csv", type=Path, metavar="FILE", help="write a row for each run, sample and method")
    made.add_argument("--clips", type=int, default=CLIPS, metavar="N", help=f"clips in each list of the HTML page ({CLIPS})")
    made.add_argument("--json", action="store_true", help="print the report as one JSON object instead of tables")
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    if not 1 <= options.clips <= MOST_CLIPS:
        raise UserError(f"List between 1 and {MOST_CLIPS} clips.")
    files = [path for path in (options.html, options.csv, options.samples_csv) if path]
    for path in files:
        check_writable(path)
    check_apart(files)
    runs = read_runs(options.runs)
    check_kept(files, options.runs, runs)
    if options.csv:
        write_whole(methods_csv(runs), options.csv)
    if options.samples_csv:
        write_whole(samples_csv(runs), options.samples_csv)
    if options.html:
        write_html(runs, options.clips, options.html)
    if options.json:
        print(json.dumps(report_value(runs, options.clips), allow_nan=False))
    else:
        show(runs, Console())
    if files:
        print(f"written: {', '.join(plain_text(str(path)) for path in files)}", file=sys.stderr)
    return 0


def check_apart(files: Sequence[Path]) -> None:
    """UserError if two of the files to write are one."""
    real = [os.path.realpath(path) for path in files]
    twice = next((path for place, path in enumerate(files) if real[place] in real[:place]), None)
    if twice:
        raise UserError(f"{twice} is to be written twice; name a file for each.")


def check_kept(files: Sequence[Path], folders: Sequence[Path], runs: Sequence[Run]) -> None:
    """UserError if a file to write is one that a run consists of: its results took hours."""
    own = [part for path in folders if path.is_dir() for part in (*parts_of(path), path / RUN, path / METRICS)]
    own += [*folders, *(race for run in runs for race in run.races.values())]
    real = {os.path.realpath(path) for path in own}
    lost = next((path for path in files if os.path.realpath(path) in real), None)
    if lost:
        raise UserError(f"{lost} is part of the run and would be lost; name another file.")


def write_html(runs: Sequence[Run], count: int, path: Path) -> None:
    """The report as one HTML file, with the races of the clips that it lists."""
    text, left_out = html_report(runs, count)
    write_whole(text, path)
    if left_out:
        print(f"{left_out} races are not in the file, which holds {MOST_RACES} at most; --clips lists fewer.", file=sys.stderr)


def show(runs: Sequence[Run], console: Console) -> None:
    """Every run's figures, and of its loosest method the clips to look at; as wide as the terminal allows, plain lines elsewhere."""
    for run in runs:
        told = ", ".join(f"{label} {value}" for label, value in run.described()) or (
            "written by another program" if run.foreign else "nobody wrote down how it was made"
        )
        console.print(f"{plain_text(run.name)}: {plain_text(told)}", markup=False, highlight=False, soft_wrap=True)
        wide = console if console.is_terminal else Console(width=PLAIN_WIDTH, color_system=None)
        wide.print(metrics_table(run.metrics, console.width if console.is_terminal else PLAIN_WIDTH, plain=not console.is_terminal))
        method = run.methods[-1]
        if method != "ar":
            show_clips(run, method, console)
        console.print()


def show_clips(run: Run, method: str, console: Console) -> None:
    lists = clips_of(run, method, IN_TERMINAL)
    for kind in KINDS:
        if lists[kind]:
            named = "; ".join(clip_line(each, run) for each in lists[kind])
            line = f"{METHOD_TITLES.get(method, method)}, {TITLES[kind]}: {named}"
            console.print(plain_text(line), markup=False, highlight=False, soft_wrap=True)


def clip_line(clip: Result, run: Run) -> str:
    apart = f", {percent(clip['distance'])} of the text other" if clip["distance"] else ""
    lost = f", {clip['lost']} fewer right" if clip["lost"] > 0 else ""
    race = f" ({run.races[clip['race']]})" if clip["race"] in run.races else ""
    return f"{clip['name']} {times(clip['speedup'])}{apart}{lost}{race}"
