"""The file beside a pair that holds what was measured about it: one entry per measurement, each written by its own command."""

from __future__ import annotations

import json
from pathlib import Path


def add_entries(path: Path, entries: dict) -> None:
    """Writes entries into a pair's file, whatever else stands there; may raise OSError."""
    content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content | entries, indent=1) + "\n", encoding="utf-8")
