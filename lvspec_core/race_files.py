"""Races as files: JSON lines, written whole or not at all; read from whoever wrote them, and nothing in them is trusted."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from lvspec_core.errors import RecordError
from lvspec_core.records import VERSION, Record, from_dict, to_dict
from lvspec_core.story import Story
from lvspec_core.typed_json import parse_json

MAX_FILE_BYTES = 64 * 2**20
MAX_LINE_BYTES = 4 * 2**20
# what a setting that did not exist when format 1 was written was then, whatever its default is now
FIXED_THEN = {"proposal": "chain", "adaptive": 0.0, "temperature": 0.0, "top_p": 1.0, "details": False}


def _settings_of_then(values: dict) -> dict:
    settings = values.get("settings")
    if values.get("type") != "start" or not isinstance(settings, dict):
        return values
    return {**values, "version": 2, "settings": {**FIXED_THEN, **settings}}


# format version -> how one of its records becomes one of the next version's
UPGRADES: dict[int, Callable[[dict], dict]] = {1: _settings_of_then}


def save_race(records: Iterable[Record], path: str | Path) -> Path:
    """Writes a race as JSON lines, whole or not at all; returns the path. Raises RecordError."""
    try:
        lines = [json.dumps(to_dict(record), ensure_ascii=False, allow_nan=False) for record in records]
    except ValueError:
        raise RecordError("The race holds a number that is not finite and cannot be saved.") from None
    return write_whole("".join(line + "\n" for line in lines), path)


def write_whole(text: str, path: str | Path) -> Path:
    """Writes a text to ``path``, whole or not at all, through a link to what it names; returns the path. Raises RecordError."""
    path = Path(path)
    data = text.encode("utf-8", "replace")
    check_writable(path)
    real = Path(os.path.realpath(path))
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=real.parent, prefix=f".{real.name[:40]}.", delete=False) as file:
            temporary = file.name
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, real)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise RecordError(f"{path} cannot be saved: {error.strerror}.") from None
    return path


def check_writable(path: str | Path) -> None:
    """Raises RecordError unless a file can be saved there: asked before a race, so that its result is not lost after it."""
    real = Path(os.path.realpath(path))
    try:
        why = _why_not(real)
    except (OSError, ValueError) as error:  # a name that is too long, a folder that nobody may look into
        why = getattr(error, "strerror", None) or "its name is not valid"
    if why:
        raise RecordError(f"{path} cannot be saved: {why}.")


def _why_not(path: Path) -> str:
    if path.is_dir():
        return "it is a folder; name a file in it"
    if path.exists() and not path.is_file():
        return "it is a device, which would be replaced by a file; name a file"  # as /dev/null, for all programs
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}; make it first"
    if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        return "you may not write there"
    return ""


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
            wrong = story.take(record)
            if wrong:
                raise RecordError(wrong)
        except RecordError as error:
            raise RecordError(f"Line {number} of {path.name} cannot be read: {error}") from None
        records.append(record)
    if not records:
        raise RecordError(f"{path.name} is empty; choose a race saved as JSON lines.")
    return records


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
