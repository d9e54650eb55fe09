"""The sample clips that are offered with one click each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

KINDS = (".mp4", ".webm", ".mov")


@dataclass(frozen=True)
class Sample:
    """A clip of the samples folder. ``alt`` says in words what it shows."""

    path: Path
    title: str
    alt: str


def read_samples(folder: Path) -> list[Sample]:
    """The clips that samples.json lists, in its order; without it every video of the folder, titled by its file name.

    Clips that are listed and not there are left out: a missing sample must not cost the page.
    """
    index = folder / "samples.json"
    if index.is_file():
        entries = json.loads(index.read_text(encoding="utf-8"))
    else:
        names = sorted(path.name for path in folder.glob("*") if path.suffix in KINDS)
        entries = [{"file": name, "title": Path(name).stem.replace("-", " ")} for name in names]
    samples = [Sample(folder / entry["file"], entry["title"], entry.get("alt", "")) for entry in entries]
    return [sample for sample in samples if sample.path.is_file()]
