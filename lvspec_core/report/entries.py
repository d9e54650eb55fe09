"""The records of a file of results, as far as a report takes them. Nobody vouches for the file, so every type and number is checked."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lvspec_core.errors import DataError, RecordError
from lvspec_core.evaluation.results import Result
from lvspec_core.typed_json import parse_json, read_typed, short

LONGEST_LINE = 4_000_000  # bytes
MOST_VERDICTS = 32  # kinds of them
# what a figure can be at all: a share is one, and no computer was ever so fast or so slow
SHARE, COUNT, SECONDS, SPEEDUP, RATE = (0, 1), (0, 10**7), (0, 10**9), (0, 10**6), (0, 10**9)
RANGES = {
    "decoding_time": SECONDS,
    "generate_len": COUNT,
    "average_accept_length": COUNT,
    "rounds": COUNT,
    "acceptance_rate": SHARE,
    "prefill_seconds": SECONDS,
    "tokens_per_second": RATE,
    "speedup_decode": SPEEDUP,
    "speedup_total": SPEEDUP,
    "anchor_share": SHARE,
    "fidelity.anchors_kept": SHARE,
    "fidelity.edit_distance": SHARE,
    "fidelity.log_likelihood": (-(10**9), 10**9),
    "fidelity.log_likelihood_ar": (-(10**9), 10**9),
    "facts.total": COUNT,
    "facts.right": COUNT,
}


@dataclass(frozen=True)
class Facts:
    right: int
    total: int


@dataclass(frozen=True)
class Kept:
    """What a text keeps of AR's, as :class:`lvspec_core.fidelity.Fidelity` has it."""

    anchors_kept: float | None = None
    edit_distance: float | None = None
    log_likelihood: float | None = None
    log_likelihood_ar: float | None = None


@dataclass(frozen=True)
class Entry:
    """What a report takes of a record; what a file does not have is None, as most of it in SpecVLM's files."""

    sample_index: int
    method: str
    decoding_time: float | None = None
    generate_len: int | None = None
    average_accept_length: float | None = None
    output: str | None = None
    rounds: int | None = None
    acceptance_rate: float | None = None
    prefill_seconds: float | None = None
    tokens_per_second: float | None = None
    speedup_decode: float | None = None
    speedup_total: float | None = None
    same_as_ar: bool | None = None
    near_tie: bool | None = None
    anchor_share: float | None = None
    fidelity: Kept | None = None
    facts: Facts | None = None
    choice: str | None = None
    correct: bool | None = None
    name: str | None = None
    question: str | None = None
    answer: str | None = None
    race: str | None = None
    error: str | None = None
    verdicts: dict | None = None

    def result(self) -> Result:
        """The record as plain values."""
        # asdict copies every value: a third of the time that a large file takes
        return vars(self) | {name: each and dict(vars(each)) for name, each in (("fidelity", self.fidelity), ("facts", self.facts))}


def read_entries(path: Path, name: str) -> Iterator[Entry]:
    """The records of a file; DataError names the file by ``name`` and the line that is none, but for a last one that is not whole yet."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), 1):
                line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                if not line.strip():
                    continue
                if not line.endswith(b"\n") and len(line) < LONGEST_LINE and not _whole(line):
                    return
                yield _entry(line, f"Line {number} of {name}")
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror}.") from None


def _whole(line: bytes) -> bool:
    try:
        parse_json(line)
    except RecordError:
        return False
    return True


def _entry(line: bytes, where: str) -> Entry:
    try:
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            raise RecordError(f"It is longer than {LONGEST_LINE // 10**6} MB.")
        value = parse_json(line)
        if not isinstance(value, dict) or "sample_index" not in value or "method" not in value:
            raise RecordError("It has no sample_index or method.")
        entry = read_typed(value, Entry, "The record")
        _check(entry)
    except RecordError as error:
        raise DataError(f"{where} is no record of an evaluation: {error}") from None
    return entry


def _check(entry: Entry) -> None:
    """RecordError for a figure that cannot be."""
    for place, (low, high) in RANGES.items():
        value: object = entry
        for name in place.split("."):
            value = getattr(value, name, None)
        if value is not None and not low <= value <= high:
            raise RecordError(f"Its {place} is {short(value)}, not between {low:,} and {high:,}.")
    if entry.facts and entry.facts.right > entry.facts.total:
        raise RecordError(f"It has {entry.facts.right} of {entry.facts.total} facts right.")
    counts = entry.verdicts or {}
    if len(counts) > MOST_VERDICTS or any(type(count) is not int or count < 0 for count in counts.values()):
        raise RecordError("Its verdicts are no counts.")
