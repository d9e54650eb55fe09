"""The records that cross every border: from the decoder to the page, into a race file, and back.

A race is a sequence of records in the order in which they happened. The live page, the terminal view, the saved file and a
replay all read the same sequence; nothing else is needed to draw a race.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lvspec_core.errors import RecordError
from lvspec_core.story import Story
from lvspec_core.typed_json import parse_json, read_typed, short

VERSION = 1
VERDICTS = ("exact", "loose", "shifted", "correction", "bonus", "ar")
MAX_FILE_BYTES = 64 * 2**20
MAX_LINE_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Token:
    """One token that entered a lane's text.

    ``text`` is the piece it adds (its leading space included, empty for special tokens). ``verdict`` says how it entered:
    ``exact`` (draft = target), ``loose`` (a filler the target found plausible), ``shifted`` (salvaged at another position),
    ``correction`` (the target's own after a rejection), ``bonus`` (the target's own after full acceptance), ``ar``.
    ``relevance`` in [0, 1] is how much the token's position depends on the video; ``anchor`` tells whether it passes the
    threshold. Both are None where no scorer is calibrated for the pair.
    """

    id: int
    text: str
    verdict: str
    relevance: float | None = None
    anchor: bool | None = None


@dataclass(frozen=True)
class Preparing:
    """What happens once before a race can begin, such as calibrating its pair. It is shown and not part of the race: no file holds it.

    ``part``: what happens, a phrase; ``done`` of ``total`` steps are finished."""

    part: str
    done: int
    total: int
    type: str = "preparing"


def of_the_race(batch: Iterable[Record | Preparing]) -> list[Record]:
    """The records that belong to the race itself."""
    return [record for record in batch if not isinstance(record, Preparing)]


@dataclass(frozen=True)
class Start:
    """First record of a race. ``video``: name, seconds, fps, width, height, frames, timestamps. ``pair``: name, target, draft, notice, …"""

    pair: dict
    video: dict
    settings: dict
    environment: dict
    version: int = VERSION
    type: str = "start"


@dataclass(frozen=True)
class Prefill:
    """One finished part of the prefill. ``part``: e.g. "vision · target"; ``lanes``: the lanes that pay for it in their
    end-to-end time; ``done`` and ``total`` drive the bar."""

    part: str
    seconds: float
    lanes: tuple[str, ...]
    done: int
    total: int
    type: str = "prefill"


@dataclass(frozen=True)
class Round:
    """One round of one lane: the draft proposes, the target verifies, tokens are committed.

    ``seconds``: the lane's own decode clock at the end of the round; ``draft_seconds`` and ``verify_seconds``: of the round, the
    draft's proposal and the target's pass; the rest is overhead. ``proposed``: the draft's tokens as (id, text) in
    order (empty for AR), those that were kept first. ``accepted``: how many were kept. ``tokens``: what entered the text.
    ``parents``: where the proposal branches, for each draft token the index of the one before it, -1 for the text; empty: a chain.
    """

    lane: str
    index: int
    seconds: float
    draft_seconds: float
    verify_seconds: float
    proposed: tuple[tuple[int, str], ...]
    accepted: int
    tokens: tuple[Token, ...]
    parents: tuple[int, ...] = ()
    type: str = "round"


@dataclass(frozen=True)
class LaneEnd:
    """A lane's summary, written when the race is over.

    ``finish``: "end of text", "token budget", "stopped" or "failed" (then ``error`` is a sentence). Speedups are AR seconds
    ÷ lane seconds per token, None without a finished AR lane. ``same_as_ar``: computed on token ids, None without AR.
    ``first_difference``: index of the first token that differs from AR's, None if none or no AR.
    ``same_distribution``: True where the lane samples and its method keeps AR's distribution, None where that is not claimed.
    """

    lane: str
    finish: str
    text: str
    token_ids: tuple[int, ...]
    tokens: int
    rounds: int
    mean_accepted_length: float
    acceptance_rate: float | None
    prefill_seconds: float
    decode_seconds: float
    tokens_per_second: float
    speedup_decode: float | None
    speedup_total: float | None
    same_as_ar: bool | None
    first_difference: int | None
    anchors: int
    fillers: int
    verdicts: dict
    error: str | None = None
    same_distribution: bool | None = None
    type: str = "lane"


@dataclass(frozen=True)
class End:
    """Last record of a race. ``finish``: "finished" or "stopped"."""

    finish: str
    wall_seconds: float
    type: str = "end"


Record = Start | Prefill | Round | LaneEnd | End
TYPES = {"start": Start, "prefill": Prefill, "round": Round, "lane": LaneEnd, "end": End}


# what `race --json` tells of a lane
SUMMARY_FIELDS = (
    "text",
    "token_ids",
    "tokens",
    "rounds",
    "mean_accepted_length",
    "acceptance_rate",
    "prefill_seconds",
    "decode_seconds",
    "speedup_decode",
    "speedup_total",
    "same_as_ar",
    "anchors",
    "fillers",
    "verdicts",
)

# format version -> how one of its records becomes one of the next version's
UPGRADES: dict[int, Callable[[dict], dict]] = {}


def to_dict(record: Record) -> dict:
    """A record as plain JSON values."""
    return asdict(record)


def from_dict(values: dict) -> Record:
    """The record that :func:`to_dict` wrote, every field checked; raises RecordError with a sentence.

    Fields that are missing take their default and unknown ones are left out, so that a field may be added without a new version.
    """
    if not isinstance(values, dict):
        raise RecordError("It is not a record.")
    kind = TYPES.get(values.get("type")) if isinstance(values.get("type"), str) else None
    if kind is None:
        raise RecordError(f"It has the unknown type {short(values.get('type'))}.")
    record = read_typed(values, kind, kind.__name__)
    complaint = _complaint(record)
    if complaint:
        raise RecordError(complaint)
    return record


def save_race(records: Iterable[Record], path: str | Path) -> Path:
    """Writes a race as JSON lines, whole or not at all; returns the path. Raises RecordError."""
    try:
        lines = [json.dumps(to_dict(record), ensure_ascii=False, allow_nan=False) for record in records]
    except ValueError:
        raise RecordError("The race holds a number that is not finite and cannot be saved.") from None
    return write_whole("".join(line + "\n" for line in lines), path)


def write_whole(text: str, path: str | Path) -> Path:
    """Writes a race's text to ``path``, whole or not at all; returns the path. Raises RecordError."""
    path = Path(path)
    data = text.encode("utf-8", "replace")
    check_writable(path)
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = file.name
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise RecordError(f"The race cannot be saved as {path}: {error.strerror}.") from None
    return path


def check_writable(path: str | Path) -> None:
    """Raises RecordError unless a race can be saved there: asked before a race, so that its result is not lost after it."""
    path = Path(path)
    if path.is_dir():
        raise RecordError(f"The race cannot be saved as {path}: it is a folder.")
    if not path.parent.is_dir():
        raise RecordError(f"The race cannot be saved as {path}: the folder does not exist.")
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise RecordError(f"The race cannot be saved as {path}: you may not write there.")


def load_race(path: str | Path) -> list[Record]:
    """The records of a saved race; raises RecordError with a sentence that names the line that is wrong.

    A race that was cut off (no summaries, no end) is read too. Nothing in the file is trusted: sizes, types and numbers are
    checked, and texts are only texts, so whoever draws them must escape them.
    """
    path = Path(path)
    lines = _lines(path)
    records: list[Record] = []
    story = Story()
    version = VERSION
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            if len(line) > MAX_LINE_BYTES:
                raise RecordError(f"It is longer than {MAX_LINE_BYTES // 2**20} MiB.")
            values = parse_json(line)
            if not records:
                version = _version(values)
            record = from_dict(_upgraded(values, version))
            complaint = story.take(record)
            if complaint:
                raise RecordError(complaint)
        except RecordError as error:
            raise RecordError(f"Line {number} of {path.name} cannot be read: {error}") from None
        records.append(record)
    if not records:
        raise RecordError(f"{path.name} is empty; choose a race saved as JSON lines.")
    return records


def race_summary(records: Iterable[Record]) -> dict:
    """What ``race --json`` prints: pair, video, settings and the figures of every lane, as plain JSON values."""
    summary: dict[str, Any] = {"pair": None, "video": {}, "settings": {}, "lanes": {}}
    for record in records:
        if isinstance(record, Start):
            summary.update(pair=record.pair.get("name"), video=record.video, settings=record.settings)
        elif isinstance(record, LaneEnd):
            lane = {name: getattr(record, name) for name in SUMMARY_FIELDS}
            lane["token_ids"] = list(record.token_ids)
            lane["verdicts"] = {verdict: record.verdicts.get(verdict, 0) for verdict in VERDICTS}
            summary["lanes"][record.lane] = lane
    return summary


def timeline(records: Iterable[Record]) -> list[tuple[float, Record]]:
    """When each record would happen (seconds from the start) if every lane had the device for itself, in that order.

    A lane decodes after the parts of the prefill that it pays for; its rounds follow its own clock. A replay that keeps these
    times keeps the ratios of the race.
    """
    records = list(records)
    clock: dict[str, float] = {}
    finish = 0.0
    timed: list[tuple[float, Record]] = []
    for record in records:
        if isinstance(record, Start):
            at = 0.0
        elif isinstance(record, Prefill):
            for lane in record.lanes:
                clock[lane] = clock.get(lane, 0.0) + record.seconds
            at = max((clock[lane] for lane in record.lanes), default=finish)
        elif isinstance(record, Round):
            at = clock.get(record.lane, 0.0) + record.seconds
        else:
            at = finish
        finish = max(finish, at)
        timed.append((at, record))
    return sorted(timed, key=lambda item: item[0])


def _lines(path: Path) -> list[bytes]:
    try:
        if path.is_dir():
            raise RecordError(f"{path.name} is a folder; choose a race saved as JSON lines.")
        if not path.is_file():
            raise RecordError(f"There is no race file {path.name}.")
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise RecordError(f"{path.name} cannot be read: {getattr(error, 'strerror', None) or 'its name is not valid'}.") from None
    if len(data) > MAX_FILE_BYTES:
        raise RecordError(f"{path.name} is larger than {MAX_FILE_BYTES // 2**20} MiB; a race file is smaller than that.")
    return data.split(b"\n")


def _version(values: object) -> int:
    """The format version that the first record states."""
    if not isinstance(values, dict) or values.get("type") != "start":
        raise RecordError("A race file begins with a start record.")
    version = values.get("version")
    if type(version) is not int or version < 1:
        raise RecordError("It states no format version.")
    if version > VERSION:
        raise RecordError(f"It was saved in format {version} by a newer LVSpec Race; this one reads formats up to {VERSION}.")
    return version


def _upgraded(values: dict, version: int) -> dict:
    for older in range(version, VERSION):
        values = UPGRADES[older](values)
    return values


def _complaint(record: Record) -> str | None:
    """What is wrong with a record whose types are right."""
    if isinstance(record, Start):
        return _start_complaint(record)
    if isinstance(record, Prefill) and not 0 < record.done <= record.total:
        return "Its progress is not a share of the whole."
    if isinstance(record, Round):
        if not 0 <= record.accepted <= len(record.proposed):
            return "It accepts more than was proposed."
        if record.parents and not _is_tree(record):
            return "Its parents are not a tree of what was proposed."
        for token in record.tokens:
            if token.verdict not in VERDICTS:
                return f"It has the unknown verdict {short(token.verdict)}."
            if token.relevance is not None and not 0 <= token.relevance <= 1:
                return "A relevance is not between 0 and 1."
    if isinstance(record, LaneEnd):
        counts = record.verdicts
        if set(counts) - set(VERDICTS) or any(type(count) is not int or count < 0 for count in counts.values()):
            return "Its verdicts are not counts of known verdicts."
        if sum(counts.values()) != record.tokens or len(record.token_ids) != record.tokens:
            return "Its counts do not add up to its tokens."
    for name in ("seconds", "draft_seconds", "verify_seconds", "prefill_seconds", "decode_seconds", "wall_seconds"):
        if getattr(record, name, 0) < 0:
            return f"Its {name.replace('_', ' ')} are negative."
    return None


def _is_tree(record: Round) -> bool:
    """Whether every draft token follows the text or one before it, and the kept ones are a path."""
    inside = all(-1 <= parent < index for index, parent in enumerate(record.parents))
    path = tuple(range(-1, record.accepted - 1))
    return inside and len(record.parents) == len(record.proposed) and record.parents[: record.accepted] == path


def _start_complaint(start: Start) -> str | None:
    if not isinstance(start.pair.get("name"), str):
        return "The pair has no name."
    if not isinstance(start.video.get("name"), str):
        return "The video has no name."
    times = start.video.get("timestamps", [])
    if not isinstance(times, list) or not all(isinstance(time, (int, float)) for time in times):
        return "The video's timestamps are not numbers."
    methods = start.settings.get("methods")
    if not isinstance(methods, list) or not methods or not all(isinstance(method, str) for method in methods):
        return "The settings name no methods."
    return None
