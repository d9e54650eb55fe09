"""What a lane's rounds add up to: mean accepted length, acceptance rate, speedups, and where the text leaves AR's.

A lane's first token comes out of its first round like all others, so nothing is counted apart: the mean accepted length is
tokens ÷ rounds, the target's own token included, and exactly 1 for AR.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from lvspec_core.records import VERDICTS, LaneEnd, Round, Token


@dataclass
class LaneTally:
    """Everything that a lane's summary is made of, collected as its rounds come."""

    lane: str
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    rounds: int = 0
    proposed: int = 0
    accepted: int = 0
    tokens: list[Token] = field(default_factory=list)
    finish: str = "stopped"
    error: str | None = None
    same_distribution: bool | None = None

    def add(self, record: Round) -> None:
        self.decode_seconds = record.seconds
        self.rounds += 1
        self.proposed += len(record.proposed)
        self.accepted += record.accepted
        self.tokens += record.tokens

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(token.id for token in self.tokens)

    @property
    def finished(self) -> bool:
        return self.finish in ("end of text", "token budget")


def first_difference(ids: Sequence[int], reference: Sequence[int]) -> int | None:
    """Index of the first token that differs; the shorter one's length if it is a prefix of the other; None if they are equal."""
    for index, (mine, theirs) in enumerate(zip(ids, reference, strict=False)):
        if mine != theirs:
            return index
    return None if len(ids) == len(reference) else min(len(ids), len(reference))


def lane_end(tally: LaneTally, ar: LaneTally | None) -> LaneEnd:
    """A lane's summary. ``ar``: the AR lane of the same race, None if there is none.

    Speedups and equality are stated against a finished AR lane only. A lane that was stopped or failed early can still be
    compared for speed, per token; whether its text is AR's is not known, unless it already differs.
    """
    tokens = len(tally.tokens)
    ids = tally.token_ids
    reference = ar if ar is not None and ar.finished and ar.tokens else None
    same, difference = None, None
    if reference is not None:
        difference = first_difference(ids, reference.token_ids)
        if not tally.finished and difference == tokens:
            difference = None  # a prefix so far
        same = difference is None if tally.finished or difference is not None else None
    verdicts = Counter(token.verdict for token in tally.tokens)
    return LaneEnd(
        lane=tally.lane,
        finish=tally.finish,
        text="".join(token.text for token in tally.tokens),
        token_ids=ids,
        tokens=tokens,
        rounds=tally.rounds,
        mean_accepted_length=tokens / tally.rounds if tally.rounds else 0.0,
        acceptance_rate=tally.accepted / tally.proposed if tally.proposed else None,
        prefill_seconds=tally.prefill_seconds,
        decode_seconds=tally.decode_seconds,
        tokens_per_second=tokens / tally.decode_seconds if tally.decode_seconds else 0.0,
        speedup_decode=_speedup(tally, reference, lambda lane: lane.decode_seconds),
        speedup_total=_speedup(tally, reference, lambda lane: lane.prefill_seconds + lane.decode_seconds),
        same_as_ar=same,
        first_difference=difference,
        anchors=sum(token.anchor is True for token in tally.tokens),
        fillers=sum(token.anchor is False for token in tally.tokens),
        verdicts={name: verdicts[name] for name in VERDICTS},
        error=tally.error,
        same_distribution=tally.same_distribution,
    )


def _speedup(tally: LaneTally, ar: LaneTally | None, seconds) -> float | None:
    """AR's seconds per token ÷ this lane's."""
    if ar is None or not tally.tokens or not seconds(tally):
        return None
    return (seconds(ar) / len(ar.tokens)) / (seconds(tally) / len(tally.tokens))
