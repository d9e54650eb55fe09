"""Records in batches, as they cross the border of a process."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from lvspec_core.records import Record, Round

SEND_SECONDS = 1 / 15


def batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    """What is new: rounds at most every SEND_SECONDS, the rest at once, for the next one may take long."""
    batch: list[Record] = []
    sent = 0.0
    for record in records:
        batch.append(record)
        now = time.perf_counter()
        if now - sent >= SEND_SECONDS or not isinstance(record, Round):
            yield batch
            batch, sent = [], now
    if batch:
        yield batch
