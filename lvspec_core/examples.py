"""Records the example races that ship with the project: real races of the bundled pairs on this machine."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from lvspec_core.errors import WorkerError
from lvspec_core.race_files import save_race
from lvspec_core.records import LaneEnd, of_the_race, race_summary
from lvspec_core.registry import ASSETS
from lvspec_core.settings import RaceSettings
from lvspec_core.worker import get_worker

# file -> title, what there is to see, the sample that is raced, settings other than the defaults
EXAMPLES = {
    "two-shapes.jsonl": ("Two moving shapes", "The default settings on a clip of two moving shapes.", "shapes-4-2-moving.mp4", {}),
    "three-shapes.jsonl": (
        "Three shapes, a tree of guesses",
        "A longer text; every round the draft offers branches of guesses. Here they help the strict methods, while LVSpec gains more by a"
        " long chain.",
        "shapes-8-3-moving.mp4",
        {"proposal": "dynamic_tree"},
    ),
    "llava.jsonl": (
        "The other architecture",
        "The second bundled pair, which sees every frame alone as LLaVA-OneVision does.",
        "shapes-4-2-moving.mp4",
        {"pair": "shapes-llava"},
    ),
    "sea.jsonl": (
        "Outside its world",
        "A clip of the sea: the bundled pair knows shapes only, so its words do not describe what is shown.",
        "sea.mp4",
        {},
    ),
}


def record(name: str, folder: Path) -> dict:
    """Races an example and saves it; returns what races.json says of it. Raises UserError."""
    title, alt, sample, changes = EXAMPLES[name]
    settings = replace(RaceSettings(details=True), **changes).validated()
    records = [each for batch in get_worker().race(ASSETS / "samples" / sample, settings) for each in of_the_race(batch)]
    failed = [each.error for each in records if isinstance(each, LaneEnd) and each.error]
    if failed:
        raise WorkerError(f"{name} was not saved: {failed[0]}")
    save_race(records, folder / name)
    lanes = race_summary(records)["lanes"]
    return {"file": name, "title": title, "alt": alt, "speedups": {lane: each["speedup_decode"] for lane, each in lanes.items()}}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m lvspec_core examples", description=__doc__)
    parser.add_argument("--out", type=Path, default=ASSETS / "races", metavar="FOLDER", help="default: %(default)s")
    folder = parser.parse_args(arguments).out
    folder.mkdir(parents=True, exist_ok=True)
    # the first race pays for what is set up once
    record("two-shapes.jsonl", folder)
    entries = []
    for name in EXAMPLES:
        entries.append(record(name, folder))
        told = ", ".join(f"{lane} {speedup:.2f}x" for lane, speedup in entries[-1]["speedups"].items() if speedup)
        print(f"{name}: {told}", file=sys.stderr)
    (folder / "races.json").write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    return 0
