"""Rows of a data set's files: JSON, JSON lines, Parquet. One sentence names the file and the column that is missing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lvspec_core.errors import DataError

Row = dict[str, Any]
SUFFIXES = (".json", ".jsonl", ".parquet")


def rows_of(path: Path) -> list[Row]:
    """The rows of a file: a list of objects (JSON), an object a line (JSON lines), or a table (Parquet, which needs pyarrow)."""
    if not path.is_file():
        raise DataError(f"There is no file {path}.")
    try:
        rows = _parquet(path) if path.suffix == ".parquet" else _json(path)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as {path.suffix.removeprefix('.')}: {str(error).splitlines()[0]}.") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{path} must hold a list of objects, one for each sample.")
    return rows


def _json(path: Path) -> Any:
    text = path.read_text(encoding="utf-8-sig")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    return json.loads(text)


def _parquet(path: Path) -> list[Row]:
    try:
        import pyarrow.parquet
    except ImportError:
        raise DataError(f"{path.name} is a Parquet file, which needs pyarrow: pip install -r requirements-evaluate.txt") from None
    return pyarrow.parquet.ParquetFile(path).read().to_pylist()


def first_of(root: Path, patterns: Iterable[str]) -> list[Path]:
    """The files of the first pattern that any file fits, in order; DataError naming the patterns if none does."""
    patterns = list(patterns)
    for pattern in patterns:
        found = sorted(path for path in root.glob(pattern) if path.is_file())
        if found:
            return found
    raise DataError(f"{root} holds none of {', '.join(patterns)}; is it the data set's folder?")


def value(row: Row, names: str | tuple[str, ...], path: Path, number: int) -> Any:
    """What a row holds under one of these names; DataError naming the column, the file and the row if it holds none."""
    names = (names,) if isinstance(names, str) else names
    for name in names:
        if row.get(name) is not None:
            return row[name]
    raise DataError(f"{path.name} has no {' or '.join(names)} in row {number + 1}; its columns are {', '.join(map(str, row)) or 'none'}.")


def text(row: Row, names: str | tuple[str, ...], path: Path, number: int) -> str:
    """The same, as a text."""
    found = value(row, names, path, number)
    if not isinstance(found, (str, int, float)) or isinstance(found, bool):
        raise DataError(f"The {names if isinstance(names, str) else names[0]} in row {number + 1} of {path.name} is not a text.")
    return str(found)


def texts(row: Row, names: str | tuple[str, ...], path: Path, number: int) -> tuple[str, ...]:
    """The same, as a list of texts."""
    found = value(row, names, path, number)
    if not isinstance(found, list) or not all(isinstance(each, (str, int, float)) for each in found):
        raise DataError(f"The {names if isinstance(names, str) else names[0]} in row {number + 1} of {path.name} is not a list of texts.")
    return tuple(map(str, found))
