"""The files of an evaluation. A finished sample is appended whole and forced to the disk, so that whatever ends the process, only the
sample it was busy with is lost; what a cut-off write left behind is dropped when the run goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from lvspec_core.errors import DataError
from lvspec_core.evaluation.results import Result

RESULTS, METRICS, RUN = "results.jsonl", "metric.jsonl", "run.json"
PARTS = "results.part-*.jsonl"  # of the processes of one evaluation


class Journal:
    """One process's file of results in a run's folder. ``methods``: a sample is finished when each of them has its record."""

    def __init__(self, path: Path, methods: Sequence[str]) -> None:
        self.path, self.methods = path, tuple(methods)
        self._file = None

    def append(self, results: Sequence[Result]) -> None:
        """A finished sample's records, all of them or, if the process ends meanwhile, none that counts."""
        if self._file is None:
            new = not self.path.exists()
            self._file = self.path.open("ab", buffering=0)
            if new:
                _sync_folder(self.path.parent)
        data = memoryview(_lines(results))
        while data:
            data = data[self._file.write(data) :]
        os.fsync(self._file.fileno())

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def repair(self) -> None:
        """Cuts off what a process that was ended left behind: a torn line, and records of a sample that is not complete."""
        if not self.path.exists():
            return
        data = self.path.read_bytes()
        kept = self._whole(data)
        if kept < len(data):
            with self.path.open("r+b") as file:
                file.truncate(kept)
                os.fsync(file.fileno())

    def _whole(self, data: bytes) -> int:
        """Bytes up to the end of the last complete sample; DataError where something before it is no record."""
        kept = position = 0
        sample: list[tuple[int, str]] = []  # records since then
        lines = data.split(b"\n")
        for number, line in enumerate(lines[:-1], 1):
            position += len(line) + 1
            named = _named(line)
            if named is None:
                # a crash of the whole machine may leave zeros where the last lines were, but whole records never follow them
                if any(_named(later) for later in lines[number:]):
                    raise DataError(f"Line {number} of {self.path} is no record of an evaluation; start again in a new folder.")
                break
            sample.append(named)
            if sample == [(named[0], method) for method in self.methods]:
                kept, sample = position, []
        return kept


def _named(line: bytes) -> tuple[int, str] | None:
    """The sample and the method of a record's line; None if it is none."""
    try:
        result = json.loads(line)
        sample, method = result["sample_index"], result["method"]
        return (sample, method) if type(sample) is int and isinstance(method, str) else None
    except (ValueError, TypeError, KeyError):
        return None


def read_results(path: Path) -> list[Result]:
    """The records of a file, ours or SpecVLM's; DataError with one sentence that names the line that is none."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    results = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if _named(line) is None:
            if number == len(lines):
                break  # torn by a run that was ended, or is still going on
            raise DataError(f"Line {number} of {path} is no record of an evaluation.")
        results.append(json.loads(line))
    return results


def parts_of(folder: Path) -> list[Path]:
    """The files that hold results of a run: the merged one and those of single processes."""
    return [path for path in (folder / RESULTS, *sorted(folder.glob(PARTS))) if path.exists()]


def finished(folder: Path) -> set[int]:
    """The samples that a run has finished, once its files are repaired."""
    return {result["sample_index"] for path in parts_of(folder) for result in read_results(path)}


def merge(folder: Path, methods: Sequence[str]) -> list[Result]:
    """Makes one file of all of a run's, ordered by sample and method, each once; returns its records. Interrupted, it is done again."""
    by_place: dict[tuple[int, str], Result] = {}
    for path in parts_of(folder):
        for result in read_results(path):
            by_place.setdefault((result["sample_index"], result["method"]), result)
    places = list(methods)
    results = [by_place[place] for place in sorted(by_place, key=lambda place: (place[0], places.index(place[1])))]
    write_lines(results, folder / RESULTS)
    for path in folder.glob(PARTS):
        path.unlink()
    return results


def _lines(results: Iterable[Result]) -> bytes:
    return "".join(json.dumps(result, ensure_ascii=False, allow_nan=False) + "\n" for result in results).encode("utf-8", "replace")


def write_lines(results: Iterable[Result], path: Path) -> None:
    """Records as JSON lines, whole or not at all."""
    write_safely(_lines(results), path)


def write_safely(data: bytes, path: Path) -> None:
    """Replaces a file by another that is on the disk before it takes the name."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Makes a new file's name last too, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    with suppress(OSError):
        os.fsync(handle)
    os.close(handle)
