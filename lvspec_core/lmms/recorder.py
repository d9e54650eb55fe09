"""Each answer's figures beside lmms-eval's score: ``TASK/results.jsonl`` and ``metric.jsonl``, as ``evaluate`` writes them.

Every process appends to a file of its own as it goes; at the end they become one file, which keeps what other methods left there, so
that runs of several methods into one folder can be compared (``python -m lvspec_core report``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from filelock import FileLock

from lvspec_core.errors import DataError
from lvspec_core.evaluation.journal import METRICS, RESULTS, Journal, read_results, write_lines
from lvspec_core.evaluation.results import Result, method_metrics
from lvspec_core.settings import METHODS

LOCK = ".merge.lock"
SAME = ("pair", "settings")  # records of a method that differ in them are of another run


class Recorder:
    """The records of one process of a run with one method, below ``folder``; None: nothing is written."""

    def __init__(self, folder: Path | None, method: str, rank: int = 0) -> None:
        self.folder, self.method, self.rank = folder, method, rank
        self._journals: dict[str, Journal] = {}
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise DataError(f"The records cannot be saved in {folder}: {error.strerror}.") from None

    def add(self, task: str, result: Result) -> None:
        """Keeps a finished sample's record, on the disk before the next one begins."""
        if self.folder is None:
            return
        if task not in self._journals:
            place = self.folder / plain_name(task)
            place.mkdir(exist_ok=True)
            journal = Journal(place / f"results.part-{self.method}-{self.rank:03d}.jsonl", [self.method])
            journal.repair()  # of a process that was ended
            self._journals[task] = journal
        self._journals[task].append([result])

    def close(self) -> None:
        for journal in self._journals.values():
            journal.close()
        self._journals = {}

    def merge(self) -> list[Path]:
        """Makes one file of all processes' records, for each task that has any; returns these files. For one process, when all are done."""
        if self.folder is None:
            return []
        merged = []
        for place in sorted(path for path in self.folder.iterdir() if path.is_dir()):
            with FileLock(place / LOCK):
                if merge(place, self.method):
                    merged.append(place / RESULTS)
        return merged


def merge(place: Path, method: str) -> bool:
    """Adds a method's new records to a task's results: the newest for each sample, none of another run of it; whether there are any."""
    parts = sorted(place.glob(f"results.part-{method}-*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
    new = [result for path in parts for result in read_results(path)]
    if not new:
        return False
    old = read_results(place / RESULTS) if (place / RESULTS).exists() else []
    others = [result for result in old if result["method"] != method]
    mine = same_run([*(result for result in old if result["method"] == method), *new], new[-1])
    results = ordered([*others, *mine])
    write_lines(results, place / RESULTS)
    write_lines(method_metrics(results), place / METRICS)
    for path in parts:
        path.unlink()
    return True


def same_run(results: Iterable[Result], newest: Result) -> list[Result]:
    """Those made as the newest was, the last one for each sample and repetition."""
    kept: dict[tuple[int, int], Result] = {}
    for result in results:
        if all(result.get(name) == newest[name] for name in SAME):
            kept[result["sample_index"], result["repeat"]] = result
    return list(kept.values())


def ordered(results: Sequence[Result]) -> list[Result]:
    """By sample, then in the methods' order."""
    return sorted(results, key=lambda result: (result["sample_index"], METHODS.index(result["method"]), result.get("repeat", 0)))


def plain_name(task: str) -> str:
    """A task's name as a folder's."""
    return re.sub(r"[^\w.-]+", "_", task).strip(".") or "task"
