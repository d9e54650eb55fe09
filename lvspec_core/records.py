"""The records that cross every border: from the decoder to the page, into a race file, and back.

A race is a sequence of records in the order in which they happened. The live page, the terminal view, the saved file and a
replay all read the same sequence; nothing else is needed to draw a race.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from lvspec_core.errors import RecordError
from lvspec_core.record_checks import VERDICTS, complaint
from lvspec_core.typed_json import read_typed, short

VERSION = 2


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
    """First record of a race. ``video``: name, seconds, fps, width, height, frames, timestamps. ``pair``: name, target, draft, notice, …

    ``threshold``: relevance from which a position is an anchor in this race, None where nothing is scored or all are fillers.
    ``thumbnails``: the sampled frames as small JPEG data URLs, where details were asked for.
    """

    pair: dict
    video: dict
    settings: dict
    environment: dict
    version: int = VERSION
    threshold: float | None = None
    thumbnails: tuple[str, ...] = ()
    type: str = "start"


@dataclass(frozen=True)
class Prefill:
    """One finished part of the prefill. ``part``: e.g. "vision · target"; ``lanes``: the lanes that pay for it in their
    end-to-end time; ``done`` and ``total`` drive the bar. Where it is a draft that reads the video, ``grid`` is (time, rows,
    columns) of all video tokens and ``kept`` says which it may see: base64 of one bit each, first token first; "": all."""

    part: str
    seconds: float
    lanes: tuple[str, ...]
    done: int
    total: int
    grid: tuple[int, int, int] | None = None
    kept: str = ""
    type: str = "prefill"


@dataclass(frozen=True)
class Round:
    """One round of one lane: the draft proposes, the target verifies, tokens are committed.

    ``seconds``: the lane's own decode clock at the end of the round; ``draft_seconds`` and ``verify_seconds``: of the round, the
    draft's proposal and the target's pass; the rest is overhead. ``proposed``: the draft's tokens as (id, text) in
    order (empty for AR), those that were kept first. ``accepted``: how many were kept. ``tokens``: what entered the text.
    ``parents``: where the proposal branches, for each draft token the index of the one before it, -1 for the text; empty: a chain.

    Where details were asked for: ``target_top`` and ``draft_top``: the models' five most probable tokens as (text,
    probability), best first. Row 0 stands after the text so far, row i + 1 after draft token i; so token i of ``tokens`` stands
    at row i. Rows of branches far from the accepted path may be left out; a row after which the draft proposed nothing is empty.
    ``chances``: for each draft token the probability that (draft, target) gave it. ``why``: the first rule that kept a
    rejected draft token from entering loosely: "anchor", "implausible", "sure" (the target did not hesitate), "window" (it did
    not agree again right after); "" where nothing was rejected or the lane is strict. Where a lane samples, probabilities are
    those that it drew from.
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
    target_top: tuple[tuple[tuple[str, float], ...], ...] = ()
    draft_top: tuple[tuple[tuple[str, float], ...], ...] = ()
    chances: tuple[tuple[float, float], ...] = ()
    why: str = ""
    type: str = "round"


@dataclass(frozen=True)
class LaneEnd:
    """A lane's summary, written when the race is over.

    ``finish``: "end of text", "token budget", "stopped" or "failed" (then ``error`` is a sentence). Speedups are AR seconds
    ÷ lane seconds per token, None without a finished AR lane. ``same_as_ar``: computed on token ids, None without AR.
    ``first_difference``: index of the first token that differs from AR's, None if none or no AR.
    ``same_distribution``: True where the lane samples and its method keeps AR's distribution, None where that is not claimed.
    Where a lossless greedy lane leaves AR, ``departure_gap``: how far apart the target's logits of the two tokens are there, and
    ``near_tie``: whether that is no more than rounding (lvspec_core/ties.py); None elsewhere.
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
    departure_gap: float | None = None
    near_tie: bool | None = None
    type: str = "lane"


@dataclass(frozen=True)
class Evidence:
    """Where the target looked while it chose each token of a finished text [ours].

    ``lanes``: those that wrote this text. ``heat``: per token, base64 of one byte for each cell of ``grid`` (time, rows,
    columns), the video tokens or blocks of them: attention of the query that predicts the token, mean over ``layers`` and
    heads, above its mean over the text's tokens; 255 stands for the share ``peak``. ``shares``: per token, how much of that
    attention goes to the video at all.
    """

    lanes: tuple[str, ...]
    grid: tuple[int, int, int]
    layers: tuple[int, ...]
    peak: float
    heat: tuple[str, ...]
    shares: tuple[float, ...]
    type: str = "evidence"


@dataclass(frozen=True)
class End:
    """Last record of a race. ``finish``: "finished" or "stopped"; ``wall_seconds``: until the lanes were done, before any evidence."""

    finish: str
    wall_seconds: float
    type: str = "end"


Record = Start | Prefill | Round | LaneEnd | Evidence | End
TYPES = {"start": Start, "prefill": Prefill, "round": Round, "lane": LaneEnd, "evidence": Evidence, "end": End}


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
    wrong = complaint(record)
    if wrong:
        raise RecordError(wrong)
    return record


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
