"""The file beside a pair that holds what was measured about it: one entry per measurement, each written by its own command."""

from __future__ import annotations

import json
from pathlib import Path

MOST_TRIES = 3  # of a calibration on a race's clip, if the first ones find nothing [ours]: each takes time, on ZeroGPU a visitor's


def add_entries(path: Path, entries: dict) -> None:
    """Writes entries into a pair's file, whatever else stands there; may raise OSError."""
    content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content | entries, indent=1) + "\n", encoding="utf-8")


def read_entries(path: Path) -> dict:
    """All entries; none where there is no file, or none that can be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def note_failure(path: Path) -> None:
    """Counts a calibration that found nothing; may raise OSError."""
    add_entries(path, {"tried": _tried(read_entries(path)) + 1})


def calibration_due(path: Path) -> bool:
    """Whether a pair's next race begins with a calibration: it has none, and was not tried in vain too often."""
    entries = read_entries(path)
    return entries.get("relevance") is None and _tried(entries) < MOST_TRIES


def _tried(entries: dict) -> int:
    tried = entries.get("tried")
    return tried if isinstance(tried, int) else 0
