"""The records that cross every border: from the decoder to the page, into a race file, and back.

A race is a sequence of records in the order in which they happened. The live page, the terminal view, the saved file and a
replay all read the same sequence; nothing else is needed to draw a race.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lvspec_core.errors import RecordError

VERSION = 1
VERDICTS = ("exact", "loose", "shifted", "correction", "bonus", "ar")
MAX_FILE_BYTES = 64 * 2**20


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

    ``seconds``: the lane's own decode clock at the end of the round. ``proposed``: the draft's tokens as (id, text) in
    order (empty for AR). ``accepted``: how many draft tokens were kept. ``tokens``: what entered the text.
    """

    lane: str
    index: int
    seconds: float
    draft_seconds: float
    verify_seconds: float
    proposed: tuple[tuple[int, str], ...]
    accepted: int
    tokens: tuple[Token, ...]
    type: str = "round"


@dataclass(frozen=True)
class LaneEnd:
    """A lane's summary, written when the race is over.

    ``finish``: "end of text", "token budget", "stopped" or "failed" (then ``error`` is a sentence). Speedups are AR seconds
    ÷ lane seconds per token, None without a finished AR lane. ``same_as_ar``: computed on token ids, None without AR.
    ``first_difference``: index of the first token that differs from AR's, None if none or no AR.
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
    type: str = "lane"


@dataclass(frozen=True)
class End:
    """Last record of a race. ``finish``: "finished" or "stopped"."""

    finish: str
    wall_seconds: float
    type: str = "end"


Record = Start | Prefill | Round | LaneEnd | End
TYPES = {"start": Start, "prefill": Prefill, "round": Round, "lane": LaneEnd, "end": End}


def to_dict(record: Record) -> dict:
    """A record as plain JSON values."""
    return asdict(record)
