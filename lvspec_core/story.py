"""Whether the records of a file, each fine by itself, tell one race: in order, in bounds, and with summaries that are true."""

from __future__ import annotations

from typing import Any

from lvspec_core.typed_json import short

MOST_TOKENS = 100_000
MOST_RECORDS = 20_000
LONGEST_TOKEN = 1000
MOST_LANES = 16
LONGEST_LANE = 40


class Story:
    """What the records of a race have told so far."""

    def __init__(self) -> None:
        self.methods: list[str] | None = None
        self.seconds: dict[str, float] = {}
        self.ids: dict[str, list[int]] = {}
        self.told: dict[str, Any] = {}
        self.shown: set[str] = set()
        self.tokens = self.records = 0
        self.over = False

    def take(self, record: Any) -> str | None:
        """Takes the next record; a sentence if it cannot follow what was told before, else None."""
        if self.over:
            return "Nothing may follow the end record."
        self.over = record.type == "end"
        self.records += 1
        if self.records > MOST_RECORDS:
            return f"The race has more than {MOST_RECORDS:,} records."
        if record.type == "start":
            return self._start(record)
        lanes = record.lanes if record.type in ("prefill", "evidence") else (record.lane,) if record.type in ("round", "lane") else ()
        for lane in lanes:
            if lane not in self.seconds:
                return f"The lane {short(lane)} is not in this race."
        if record.type == "round":
            return self._round(record)
        if record.type == "evidence":
            return self._evidence(record)
        return self._summary(record) if record.type == "lane" else None

    def _start(self, record: Any) -> str | None:
        if self.methods is not None:
            return "A race has only one start record."
        self.methods = record.settings["methods"]
        if len(self.methods) > MOST_LANES or len(set(self.methods)) < len(self.methods):
            return f"A race has at most {MOST_LANES} lanes, each only once."
        if any(not 0 < len(name) <= LONGEST_LANE for name in self.methods):
            return f"A lane's name has from 1 to {LONGEST_LANE} characters."
        self.seconds = dict.fromkeys(self.methods, 0.0)
        self.ids = {name: [] for name in self.methods}
        return None

    def _round(self, record: Any) -> str | None:
        if record.lane in self.told:
            return f"The lane {short(record.lane)} goes on after its summary."
        if record.seconds < self.seconds[record.lane]:
            return f"The clock of the lane {short(record.lane)} runs backwards."
        self.seconds[record.lane] = record.seconds
        self.ids[record.lane] += [token.id for token in record.tokens]
        self.tokens += len(record.tokens) + len(record.proposed)
        if self.tokens > MOST_TOKENS:
            return f"The race has more than {MOST_TOKENS:,} tokens."
        pieces = [token.text for token in record.tokens] + [text for _, text in record.proposed]
        pieces += [text for tops in (record.target_top, record.draft_top) for top in tops for text, _ in top]
        if any(len(piece) > LONGEST_TOKEN for piece in pieces):
            return f"A token has more than {LONGEST_TOKEN:,} characters."
        return None

    def _evidence(self, record: Any) -> str | None:
        for lane in record.lanes:
            if lane in self.shown:
                return f"The lane {short(lane)} has its evidence twice."
            self.shown.add(lane)
            if self.ids[lane] != self.ids[record.lanes[0]] or len(self.ids[lane]) != len(record.heat):
                return f"The evidence does not fit the tokens of the lane {short(lane)}."
        return None

    def _summary(self, record: Any) -> str | None:
        if record.lane in self.told:
            return f"The lane {short(record.lane)} has two summaries."
        self.told[record.lane] = record
        if list(record.token_ids) != self.ids[record.lane]:
            return f"The summary of the lane {short(record.lane)} names other tokens than its rounds wrote."
        if record.lane == "ar" or "ar" not in self.ids or record.same_as_ar is None:
            return None
        # a stopped lane may differ already, or be a prefix so far; only a finished one is the same or is not
        if record.same_as_ar != (self.ids["ar"] == self.ids[record.lane]):
            return f"The summary of the lane {short(record.lane)} says of its text and AR's what is not so."
        return None
