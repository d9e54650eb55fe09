"""``python -m lvspec_core pairs``: the pairs that can race and the memory that each takes; README's table comes from here."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lvspec_core.memory import GB, Demand, estimate, known_models
from lvspec_core.registry import PAIRS, PairInfo
from lvspec_core.settings import METHODS, RaceSettings

FRAMES = (8, 32, 128)
HEAD = ("pair", "target", "draft", "revisions", *(f"{frames} frames" for frames in FRAMES), f"{FRAMES[0]} in 4 bits")


def sizes(info: PairInfo, frames: int, quantise: str = "") -> float | None:
    """GB of GPU memory that a race of all four methods takes, None for a bundled pair."""
    models = known_models(info)
    if models is None:
        return None
    settings = RaceSettings(pair=info.name, methods=METHODS, frames=frames)
    return estimate(models, Demand(settings), 2, quantise, info.alone).total / GB


def rows() -> list[dict]:
    """One row per pair of the registry: names, revisions and GB by frames."""
    made = []
    for info in PAIRS.values():
        needed = {} if info.bundled else {str(frames): round(sizes(info, frames), 1) for frames in FRAMES}
        made.append(
            {
                "pair": info.name,
                "title": info.title,
                "target": "" if info.bundled else info.target,
                "draft": "" if info.bundled else info.draft,
                "revisions": {role: info.revision(role) for role in ("target", "draft")},
                "gigabytes": needed,
                "gigabytes_4bit": None if info.bundled else round(sizes(info, FRAMES[0], "4bit"), 1),
            }
        )
    return made


def cells(row: dict) -> list[str]:
    """A row as the table shows it."""
    if not row["gigabytes"]:
        return [row["pair"], "bundled", "bundled", "", *("CPU" for _ in FRAMES), ""]
    draft = "itself" if row["draft"] == row["target"] else row["draft"].split("/")[-1]
    pinned = dict.fromkeys(revision[:7] or "not pinned" for revision in row["revisions"].values())
    needed = [f"{value:.0f} GB" for value in (*row["gigabytes"].values(), row["gigabytes_4bit"])]
    return [row["pair"], row["target"].split("/")[-1], draft, ", ".join(pinned), *needed]


def markdown() -> str:
    """The table for README."""
    lines = ["| " + " | ".join(HEAD) + " |", "| --- | --- | --- | --- |" + " ---: |" * (len(HEAD) - 4)]
    return "\n".join(lines + ["| " + " | ".join(cells(row)) + " |" for row in rows()])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m lvspec_core pairs", description="The pairs that can race, and their GPU memory.")
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    parser.add_argument("--docs", type=Path, help="folder whose README.md gets the table")
    options = parser.parse_args(arguments)
    if options.json:
        print(json.dumps(rows(), indent=1))
    elif options.docs:
        from lvspec_core.bench_report import fill_block  # plots come with it

        fill_block(options.docs / "README.md", "pairs", markdown())
    else:
        table = Table(HEAD[0], *HEAD[4:], title="GPU memory of a race with all four methods")
        for row in rows():
            table.add_row(row["pair"], *cells(row)[4:])
        Console().print(table)
    return 0
