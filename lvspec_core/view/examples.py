"""The recorded races that are offered with one click each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Example:
    """A race file of the races folder. ``alt`` says in a sentence what there is to see."""

    path: Path
    title: str
    alt: str


def read_examples(folder: Path) -> list[Example]:
    """The races that races.json lists, in its order; those that are not there are left out."""
    index = folder / "races.json"
    if not index.is_file():
        return []
    entries = json.loads(index.read_text(encoding="utf-8"))
    examples = [Example(folder / entry["file"], entry["title"], entry["alt"]) for entry in entries]
    return [example for example in examples if example.path.is_file()]
