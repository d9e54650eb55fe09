"""What a run is: its pair, data set and settings, kept beside its results, so that going on with another is refused by name."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lvspec_core.errors import DataError, RecordError
from lvspec_core.evaluation.journal import RUN, parts_of, write_safely
from lvspec_core.typed_json import parse_json, read_typed, short

FORMAT = 1
LOCK = ".lock"
SINCE = "start again in a new folder, or with what it was begun with"
# of the environment: what changes texts or times
MACHINE = ("lvspec", "torch", "transformers", "device", "device_name", "dtype", "threads", "cuda_graphs")
PAIR = ("name", "target", "draft", "quantised", "revisions", "relevance")


def check_folder(folder: Path, resume: bool) -> None:
    """Makes the run's folder; DataError if it holds results and this is not to go on with them, or if it cannot be written."""
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; name a folder for the results.")
    if not resume and (parts_of(folder) or (folder / RUN).exists()):
        raise DataError(f"{folder} already holds results; go on with them by --resume, or name another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "you may not write there")
    except OSError as error:
        raise DataError(f"The results cannot be saved in {folder}: {error.strerror}.") from None


def settle(folder: Path, plan: dict) -> None:
    """Keeps the plan of a new run; of one that goes on, DataError naming the first thing that is not as it was begun with."""
    path = folder / RUN
    if path.exists():
        difference = first_difference(read_plan(folder), plan)
        if difference:
            raise DataError(f"The run in {folder} was begun with {difference}; {SINCE}.")
    elif parts_of(folder):
        raise DataError(f"{folder} holds results but no {RUN}, so nobody knows how they were made; name another folder.")
    write_safely((json.dumps(plan, indent=1, ensure_ascii=False) + "\n").encode(), path)


def read_plan(folder: Path) -> dict:
    """The plan of a run; empty where there is none, as beside SpecVLM's results. DataError if it cannot be read."""
    path = folder / RUN
    if not path.exists():
        return {}
    try:
        plan = read_typed(parse_json(path.read_bytes()), dict, RUN)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    except RecordError:
        plan = None
    if not isinstance(plan, dict) or not isinstance(plan.get("settings"), dict):
        raise DataError(f"{path} is damaged, so nobody knows how the results beside it were made.")
    if plan.get("format") != FORMAT:
        raise DataError(f"{path} was written in format {short(plan.get('format'))}; this LVSpec Race reads format {FORMAT}.")
    return plan


def first_difference(old: dict, new: dict) -> str | None:
    """The first thing in which two plans differ, as "its name old, not new". More samples of the same data set are no difference."""
    found = [("data set", old.get("task"), new["task"]), ("content of the data set", old.get("fingerprint"), new["fingerprint"])]
    found.append(("order of the samples", old.get("shuffle"), new["shuffle"]))
    found += [(f"pair's {name}", old.get("pair", {}).get(name), new["pair"].get(name)) for name in PAIR]
    names = [*new["settings"], *(name for name in old["settings"] if name not in new["settings"])]
    found += [(name.replace("_", " "), old["settings"].get(name), new["settings"].get(name)) for name in names]
    found += [(name, old.get("environment", {}).get(name), new["environment"].get(name)) for name in MACHINE]
    found.append(("kept races", old.get("keep_races"), new["keep_races"]))
    for name, before, now in found:
        if before != now:
            return f"{name} {_told(before)}, not {_told(now)}"
    if old.get("samples", 0) > new["samples"]:
        return f"{old['samples']} samples, not {new['samples']}"
    return None


def _told(value: object) -> str:
    if isinstance(value, dict):  # a calibration: its scorer and threshold say which it is
        value = " ".join(str(value[name]) for name in ("scorer", "threshold") if name in value) or json.dumps(value)
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 80 else text[:79] + "…"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps other runs out of a folder as long as this process lives; DataError if one is at work there."""
    try:
        import fcntl
    except ImportError:  # not every system has it
        yield
        return
    with (folder / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DataError(f"Another evaluation is writing to {folder}; wait for it, or name another folder.") from None
        yield
