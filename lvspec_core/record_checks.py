"""What a record from a file nobody vouches for must keep to, beyond the types of its fields."""

from __future__ import annotations

import base64
import binascii
import io
import math
from typing import Any

from PIL import Image

from lvspec_core.typed_json import short

VERDICTS = ("exact", "loose", "shifted", "correction", "bonus", "ar")
REASONS = ("", "anchor", "implausible", "sure", "window")
TOP = 5  # choices of a model that a record lists per position
THUMBNAIL = "data:image/jpeg;base64,"
THUMBNAIL_BYTES = 256 * 2**10  # of all thumbnails, as they stand in the record
THUMBNAIL_SIDE = 1024  # pixels: a small file can hold a picture that would fill a browser's memory
MAX_FRAMES = 128
MAX_VIDEO_TOKENS = 2**20
MAX_CELLS = 4096
TIMES = ("seconds", "draft_seconds", "verify_seconds", "prefill_seconds", "decode_seconds", "wall_seconds")


def complaint(record: Any) -> str | None:
    """What is wrong with a record whose types are right, as a sentence; None if nothing is."""
    wrong = _CHECKS.get(record.type, lambda _: None)(record)
    if wrong:
        return wrong
    negative = next((name for name in TIMES if getattr(record, name, 0) < 0), None)
    return f"Its {negative.replace('_', ' ')} are negative." if negative else None


def _start(start: Any) -> str | None:
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
    if start.threshold is not None and not 0 <= start.threshold <= 1:
        return "Its threshold is not between 0 and 1."
    if len(start.thumbnails) > MAX_FRAMES or sum(map(len, start.thumbnails)) > THUMBNAIL_BYTES:
        return "Its thumbnails are too large."
    # only pictures that hold nothing but pixels, and nothing that a browser would fetch
    if not all(each.startswith(THUMBNAIL) and _is_small_picture(_decoded(each.removeprefix(THUMBNAIL))) for each in start.thumbnails):
        return "A thumbnail is not a small JPEG picture."
    return None


def _prefill(prefill: Any) -> str | None:
    if not 0 < prefill.done <= prefill.total:
        return "Its progress is not a share of the whole."
    if prefill.grid is None:
        return "It keeps video tokens of no grid." if prefill.kept else None
    if not _is_grid(prefill.grid, MAX_VIDEO_TOKENS):
        return "Its grid of video tokens is not possible."
    kept = _decoded(prefill.kept)
    if kept is None or len(kept) not in (0, math.ceil(math.prod(prefill.grid) / 8)):
        return "Its kept video tokens do not fit its grid."
    return None


def _round(record: Any) -> str | None:
    if not 0 <= record.accepted <= len(record.proposed):
        return "It accepts more than was proposed."
    if record.parents and not _is_tree(record):
        return "Its parents are not a tree of what was proposed."
    for token in record.tokens:
        if token.verdict not in VERDICTS:
            return f"It has the unknown verdict {short(token.verdict)}."
        if token.relevance is not None and not 0 <= token.relevance <= 1:
            return "A relevance is not between 0 and 1."
    return _details(record)


def _details(record: Any) -> str | None:
    """What is wrong with what a round says of the models' choices."""
    rows = len(record.proposed) + 1
    for tops in (record.target_top, record.draft_top):
        if len(tops) > rows or any(len(top) > TOP for top in tops):
            return "It lists more choices than it has positions for."
        if not all(0 <= chance <= 1 for top in tops for _, chance in top):
            return "A probability is not between 0 and 1."
    if len(record.chances) not in (0, len(record.proposed)):
        return "Its chances are not those of what was proposed."
    if not all(0 <= chance <= 1 for pair in record.chances for chance in pair):
        return "A probability is not between 0 and 1."
    return None if record.why in REASONS else f"It has the unknown reason {short(record.why)}."


def _lane(record: Any) -> str | None:
    counts = record.verdicts
    if set(counts) - set(VERDICTS) or any(type(count) is not int or count < 0 for count in counts.values()):
        return "Its verdicts are not counts of known verdicts."
    if sum(counts.values()) != record.tokens or len(record.token_ids) != record.tokens:
        return "Its counts do not add up to its tokens."
    return None


def _evidence(record: Any) -> str | None:
    if not _is_grid(record.grid, MAX_CELLS):
        return "Its grid is not possible."
    if any(len(_decoded(each) or b"") != math.prod(record.grid) for each in record.heat):
        return "A heat map does not fit its grid."
    if len(record.shares) != len(record.heat) or not all(0 <= share <= 1 for share in (record.peak, *record.shares)):
        return "Its shares of attention are not possible."
    return None


_CHECKS = {"start": _start, "prefill": _prefill, "round": _round, "lane": _lane, "evidence": _evidence}


def _is_tree(record: Any) -> bool:
    """Whether every draft token follows the text or one before it, and the kept ones are a path."""
    inside = all(-1 <= parent < index for index, parent in enumerate(record.parents))
    path = tuple(range(-1, record.accepted - 1))
    return inside and len(record.parents) == len(record.proposed) and record.parents[: record.accepted] == path


def _is_grid(grid: tuple[int, int, int], most: int) -> bool:
    return all(0 < side <= most for side in grid) and math.prod(grid) <= most


def _is_small_picture(data: bytes | None) -> bool:
    """Whether these are a JPEG's bytes, by its header: nothing is decoded."""
    try:
        with Image.open(io.BytesIO(data or b""), formats=("JPEG",)) as picture:
            return max(picture.size) <= THUMBNAIL_SIDE
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return False


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return None
