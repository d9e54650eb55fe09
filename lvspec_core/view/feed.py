"""What a page is sent of a race: only what is new, in plain JSON values."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable

from lvspec_core.comparison import compare_race
from lvspec_core.records import End, Preparing, Record, of_the_race, to_dict


class Feed:
    """The stream of values that draws one race on one page: each is a list with one JSON text.

    One text, because Gradio sends only what differs between two values, and its way of telling that for nested lists that
    shrink (6.31) breaks the page's connection; new records have nothing in common with the old ones anyway. Each value holds
    the records of this batch and of the one before it (``at`` is the number of the first), so that a page which misses one
    value misses nothing. The last value also holds ``compare``, the lanes' texts against AR's.
    """

    def __init__(self, recorded: bool = False, key: str = "") -> None:
        """``recorded``: a race of a file, which may fill the board only while no race of the tab does. ``key``: what the page knows
        that file by; the feed's name begins with it."""
        self.race = f"{key}#{uuid.uuid4().hex}" if key else uuid.uuid4().hex
        self.recorded = recorded
        self.records: list[Record] = []
        self._before: list[dict] = []

    def waiting(self, place: int) -> list[str]:
        """Before the race: ``place`` races are ahead (0: this one is starting)."""
        return self._value("waiting", [], place=place)

    def running(self, batch: Iterable[Record | Preparing]) -> list[str]:
        """The next records of the race, or what is done before it can begin."""
        batch = list(batch)
        preparing = next((record for record in reversed(batch) if isinstance(record, Preparing)), None)
        if preparing and not of_the_race(batch):
            return self._value("waiting", [], message=f"{preparing.part}: {preparing.done} of {preparing.total} …")
        return self._value("running", self._take(batch))

    def over(self, batch: Iterable[Record] = ()) -> list[str]:
        """The last records; the state is the one that the race's end states, "stopped" if it never came."""
        records = self._take(batch)
        end = next((record for record in reversed(self.records) if isinstance(record, End)), None)
        return self._value(end.finish if end else "stopped", records, compare=compare_race(self.records))

    def failed(self, sentence: str) -> list[str]:
        """The race cannot go on; what was drawn stays."""
        return self._value("failed", [], message=sentence)

    def _take(self, batch: Iterable[Record]) -> list[dict]:
        batch = of_the_race(batch)
        self.records += batch
        return [to_dict(record) for record in batch]

    def _value(self, state: str, new: list[dict], message: str = "", place: int = 0, compare: dict | None = None) -> list[str]:
        records = self._before + new
        at = len(self.records) - len(records)
        self._before = new
        value = {"race": self.race, "at": at, "state": state, "message": message, "place": place, "records": records}
        if compare is not None:
            value["compare"] = compare
        if self.recorded:
            value["recorded"] = True
        return [json.dumps(value, ensure_ascii=False)]
