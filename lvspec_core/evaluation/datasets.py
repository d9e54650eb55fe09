"""Data sets: what ``--data`` and ``--task`` name, as a list of samples."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lvspec_core.errors import DataError
from lvspec_core.evaluation import layouts
from lvspec_core.evaluation.layouts import VIDEO_SUFFIXES, letter_of, span_of
from lvspec_core.evaluation.samples import Sample
from lvspec_core.evaluation.tables import SUFFIXES, rows_of, text, texts

SHAPES = "shapes"
MOST_SHAPES = 100_000
READERS = {
    "VideoDetailCaption": layouts.video_detail_caption,
    "MVBench": layouts.mvbench,
    "MLVU": layouts.mlvu,
    "LongVideoBench": layouts.long_video_bench,
    "Video-MME": layouts.video_mme,
    "MovieChat": layouts.movie_chat,
}
SAME = {"mvlu": "MLVU", "videomme": "Video-MME"}  # as SpecVLM and lmms-eval spell them
FOLDER, FILE = "folder", "file"
ENDINGS = sorted({suffix.lower() for suffix in VIDEO_SUFFIXES})


@dataclass(frozen=True)
class Dataset:
    """``task``: the layout, with its part after a colon. ``samples``: those to evaluate, in order; their indices are their places in
    the whole data set, of whose questions and answers ``fingerprint`` is made, wherever its files lie."""

    task: str
    samples: tuple[Sample, ...]
    fingerprint: str


def fingerprint_of(samples: list[Sample]) -> str:
    rows = [{**asdict(sample), "path": None} for sample in samples]
    return hashlib.sha256(json.dumps(rows, ensure_ascii=False, sort_keys=True).encode()).hexdigest()[:16]


def open_dataset(data: str, task: str = "", num: int | None = None, shuffle: int | None = None, question: str = "") -> Dataset:
    """The data set that a path or ``shapes:N`` names. ``task``: its layout, "NAME" or "NAME:PART"; "": told by what is there.

    ``num``: only so many samples, the first ones, after mixing them with the seed ``shuffle`` if there is one. ``question``: is asked
    of every clip instead of the data set's own, and nothing is then scored against its answers. DataError with one sentence.
    """
    name, samples = _samples(data, task)
    if question:
        samples = [replace(sample, question=question, options=(), answer="") for sample in samples]
    samples = [replace(sample, index=index) for index, sample in enumerate(samples)]
    if not samples:
        raise DataError(f"{data} holds no samples.")
    fingerprint = fingerprint_of(samples)
    if shuffle is not None:
        random.Random(shuffle).shuffle(samples)
    if num is not None and num < 1:
        raise DataError("Evaluate at least one sample.")
    samples = samples[:num]
    _check_videos(samples, data)
    return Dataset(name, tuple(samples), fingerprint)


def _samples(data: str, task: str) -> tuple[str, list[Sample]]:
    if data.startswith(f"{SHAPES}:"):
        return SHAPES, shapes_samples(data)
    path = Path(data).expanduser()
    if not path.exists():
        raise DataError(f"There is no {data}; name a folder, a file, or {SHAPES}:N for N clips of the shapes world.")
    name, _, part = task.partition(":")
    if path.is_file():
        if name and name.lower() != FILE:
            raise DataError(f"{data} is a file; give the folder that holds {name}, or leave --task out.")
        return FILE, list(file_samples(path))
    name = _layout(name, path)
    if name == FOLDER:
        return FOLDER, folder_samples(path)
    return f"{name}:{part}" if part else name, list(READERS[name](path, part))


def _layout(name: str, root: Path) -> str:
    """The layout of this name, however it is written, or the one that a folder without a name has."""
    known = {each.lower(): each for each in (*READERS, FOLDER)} | SAME
    if name:
        if name.lower() not in known:
            raise DataError(f"Unknown task {name!r}; choose among {', '.join((*READERS, FOLDER))}.")
        return known[name.lower()]
    if not videos_in(root):
        raise DataError(f"{root} holds no videos of its own; say which data set it is: --task {', '.join(READERS)}.")
    return FOLDER


def videos_in(root: Path) -> list[Path]:
    """The videos that lie in a folder itself, in the order of their names."""
    return sorted(path for path in root.iterdir() if path.is_file() and path.suffix[1:].lower() in ENDINGS)


def shapes_samples(data: str) -> list[Sample]:
    """``shapes:N``: the first N held-out clips of the shapes world, the same always."""
    count = data.removeprefix(f"{SHAPES}:")
    if not (count.isascii() and count.isdecimal()) or not 1 <= int(count) <= MOST_SHAPES:
        raise DataError(f"After {SHAPES}: comes the number of clips, from 1 to {MOST_SHAPES:,}.")
    return [Sample(f"{SHAPES}-{number}", number=number) for number in range(int(count))]


def folder_samples(root: Path) -> list[Sample]:
    """A folder of clips, in the order of their names; each is asked the default question."""
    paths = videos_in(root)
    if not paths:
        raise DataError(f"{root} holds no videos ({', '.join(ENDINGS)}).")
    return [Sample(path.name, path) for path in paths]


def file_samples(path: Path) -> Iterator[Sample]:
    """A file of one's own: rows with ``video`` (a path, from the file's folder on), and if need be ``question``, ``answer``, ``options``
    and, for a part of a video, ``start`` and ``end`` in seconds."""
    if path.suffix not in SUFFIXES:
        raise DataError(f"{path.name} is no table; give a file that ends in {', '.join(SUFFIXES)}, or a folder.")
    for number, row in enumerate(rows_of(path)):
        name = text(row, ("video", "video_path", "video_name", "file"), path, number)
        question = text(row, "question", path, number) if row.get("question") is not None else Sample.question
        options = texts(row, ("options", "candidates"), path, number) if row.get("options") or row.get("candidates") else ()
        answer = text(row, "answer", path, number) if row.get("answer") is not None else ""
        answer = letter_of(answer, options, path, number) if options else answer
        yield Sample(name, path.parent / name, question, answer, options, span_of(row, path, number))


def _check_videos(samples: list[Sample], data: str) -> None:
    """DataError if none of the videos is there: then it is the folder that is wrong, not a video."""
    paths = [sample.path for sample in samples if sample.path is not None]
    if paths and not any(path.is_file() for path in paths):
        raise DataError(f"None of the {len(paths)} videos of {data} is there; the first was looked for at {paths[0]}.")
