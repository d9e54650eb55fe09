"""A run as a report reads it: the records of an evaluation, ours or SpecVLM's, and how they were made. Files nobody vouches for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from lvspec_core.errors import DataError
from lvspec_core.evaluation.journal import PARTS, RESULTS, RUN, parts_of
from lvspec_core.evaluation.plan import read_plan
from lvspec_core.evaluation.results import Result, method_metrics
from lvspec_core.report.entries import read_entries
from lvspec_core.typed_json import printable

MOST_RECORDS = 1_000_000
MOST_NAMED = 5
UPLOADED = "uploaded run"
SHORTEST = 1e-6  # seconds; a time below that was rounded to nothing, and a rate by it would be anything
# what of a plan is told, in this order: label -> where it stands
TOLD = {
    "Pair": ("pair", "title"),
    "Target": ("pair", "target"),
    "Draft": ("pair", "draft"),
    "Quantised": ("pair", "quantised"),
    "Data": ("task",),
    "Frames": ("settings", "frames"),
    "Pruning ratio": ("settings", "pruning_ratio"),
    "Draft length": ("settings", "draft_length"),
    "Proposal": ("settings", "proposal"),
    "Temperature": ("settings", "temperature"),
    "Most new tokens": ("settings", "max_new_tokens"),
    "Device": ("environment", "device_name"),
    "Precision": ("environment", "dtype"),
    "Threads": ("environment", "threads"),
    "LVSpec Race": ("environment", "lvspec"),
    "torch": ("environment", "torch"),
    "transformers": ("environment", "transformers"),
}


@dataclass(frozen=True)
class Run:
    """``name``: for a reader. ``results``: one for each sample and method. ``plan``: how they were made; empty where nobody wrote
    it down. ``races``: where the race files are that the results name. ``foreign``: whether another program wrote the records."""

    name: str
    results: tuple[Result, ...]
    plan: dict = field(default_factory=dict)
    races: dict[str, Path] = field(default_factory=dict)
    foreign: bool = False

    @cached_property
    def metrics(self) -> list[Result]:
        """One record for each method, as in ``metric.jsonl``."""
        return method_metrics(self.results)

    @property
    def methods(self) -> list[str]:
        return [row["method"] for row in self.metrics]

    @property
    def samples(self) -> int:
        return len({result["sample_index"] for result in self.results})

    @property
    def frames(self) -> int | None:
        frames = self.told("settings", "frames")
        return frames if type(frames) is int else None

    def told(self, *place: str) -> Any:
        """A value of the plan; None where it is not there, or is no plain value."""
        value: Any = self.plan
        for name in place:
            value = value.get(name) if isinstance(value, dict) else None
        return value if isinstance(value, str | int | float | bool) else None

    def described(self) -> list[tuple[str, str]]:
        """How the run was made, as (label, value)."""
        found = [(label, self.told(*place)) for label, place in TOLD.items()]
        return [(label, str(value)) for label, value in found if value not in (None, "")]


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """A run for each folder or file, under names that differ; DataError with one sentence."""
    return renamed([read_run(path) for path in paths])


def read_run(path: Path) -> Run:
    """The run in a folder that ``evaluate`` or SpecVLM's ``inference.py`` wrote to, or in one file of records; DataError.

    A run that is still going on is read as far as it is."""
    try:
        return _read_run(path)
    except OSError as error:  # a folder that nobody may look into, a name that is too long
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise DataError(f"{str(path)!a} is no valid name; name a folder that evaluate wrote to.") from None


def _read_run(path: Path) -> Run:
    if not path.exists():
        raise DataError(f"There is no {path}; name a folder that evaluate wrote to, or its {RESULTS}.")
    folder = path if path.is_dir() else path.parent
    files = parts_of(path) if path.is_dir() else [path]
    if not files:
        raise DataError(f"{path} holds no {RESULTS}; {_runs_within(path)}")
    plan = read_plan(folder) if path.is_dir() or path.name == RESULTS else {}
    named = path.resolve()
    name = named.name if path.is_dir() else named.parent.name if path.name == RESULTS else path.stem
    return make_run(name or "run", files, plan, folder)


def _runs_within(folder: Path) -> str:
    """What to do about a folder without results: its own folders may have some."""
    found = [each.name for each in sorted(folder.iterdir()) if each.is_dir() and (each / RESULTS).is_file()]
    if not found:
        return "name a folder that evaluate wrote to."
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return f"the runs lie in its folders {', '.join(found[:MOST_NAMED])}{more}: name those that you want."


def make_run(name: str, files: Sequence[Path], plan: dict, folder: Path | None) -> Run:
    """A run out of files of records; each sample and method counts once. ``folder``: where its races lie, None for nowhere."""
    entries: dict[tuple[int, str], Result] = {}
    for path in files:
        for entry in read_entries(path, str(path) if folder else path.name):
            entries.setdefault((entry.sample_index, entry.method), entry.result())
            if len(entries) > MOST_RECORDS:
                raise DataError(f"{path} holds more than {MOST_RECORDS:,} records.")
    if not entries:
        raise DataError(f"{name} holds no finished sample yet.")
    results = [entries[place] for place in sorted(entries, key=lambda place: place[0])]
    foreign = not plan and all(result["rounds"] is None for result in results)
    if foreign:
        results = with_speedups(results)
    return Run(printable(name), tuple(results), plan, races_in(folder, results) if folder else {}, foreign)


def with_speedups(results: Sequence[Result]) -> list[Result]:
    """Results of a program that states neither speedups nor equality, with both reckoned from its AR's: tokens per second of decoding
    against AR's on the same sample, and whether the texts are the same, since there are no token ids [ours]."""
    ar = ar_by_sample(results)
    found = []
    for result in results:
        base, rate = ar.get(result["sample_index"]), rate_of(result)
        more: Result = {"tokens_per_second": rate}
        if base is not None and rate and rate_of(base):
            more["speedup_decode"] = rate / rate_of(base)
        if base is not None and None not in (base["output"], result["output"]):
            more["same_as_ar"] = base["output"] == result["output"]
        found.append({**result, **more})
    return found


def ar_by_sample(results: Iterable[Result]) -> dict[int, Result]:
    """AR's finished record of each sample: what the others are compared with."""
    return {result["sample_index"]: result for result in results if result["method"] == "ar" and not result["error"]}


def finished(results: Iterable[Result], method: str) -> list[Result]:
    """The results of a method that count, as in its row of the table: not those that failed, whatever figures they may state."""
    return [result for result in results if result["method"] == method and not result["error"] and result["generate_len"]]


def rate_of(result: Result) -> float | None:
    """Tokens per second of decoding; None where the time is not known, or was rounded to nothing."""
    length, seconds = result["generate_len"], result["decoding_time"]
    return length / seconds if length and seconds and seconds >= SHORTEST else None


def races_in(folder: Path, results: Sequence[Result]) -> dict[str, Path]:
    """The race files that results name and that lie in the run's own folder, wherever else their names may point."""
    root = folder.resolve()
    found = {}
    for name in {result["race"] for result in results if result["race"]}:
        try:
            path = (root / name).resolve()
            if path.is_relative_to(root) and path.is_file():
                found[name] = path
        except (OSError, ValueError):
            continue
    return found


def renamed(runs: Sequence[Run]) -> list[Run]:
    """The runs under names that differ: a second "mvbench" is "mvbench (2)"."""
    taken: set[str] = set()
    found = []
    for run in runs:
        name, number = run.name, 1
        while name in taken:
            number += 1
            name = f"{run.name} ({number})"
        taken.add(name)
        found.append(replace(run, name=name))
    return found


def run_of_files(paths: Sequence[Path]) -> list[Run]:
    """The runs among files that were uploaded, of whose folders nothing is known but the names of the files: every ``results.jsonl``
    is one. Files of single processes, ``run.json`` and races are given to it if there are not several. DataError."""
    results = [path for path in paths if path.name == RESULTS]
    if len(results) > 1:
        return [make_run(UPLOADED, [path], {}, None) for path in results]
    results += [path for path in paths if path.match(PARTS)]
    if not results and paths and all(path.suffix == ".jsonl" for path in paths):  # under names of their own, as "results (1).jsonl"
        return [make_run(path.stem, [path], {}, None) for path in paths]
    if not results:
        raise DataError(f"There is no {RESULTS} among the files; choose the folder that evaluate wrote to.")
    plans = [path for path in paths if path.name == RUN]
    plan = read_plan(plans[0].parent) if len(plans) == 1 else {}
    task = plan.get("task")
    run = make_run(task if isinstance(task, str) and task else UPLOADED, results, plan, None)
    by_name = {path.name: path for path in paths}
    named = {result["race"] for result in run.results if result["race"]}
    races = {name: by_name[Path(name).name] for name in named if Path(name).name in by_name}
    return [replace(run, races=races)]
