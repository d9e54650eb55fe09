"""Lanes of a random pair, which would end its text wherever chance has it: these go on until their budget is used up."""

from __future__ import annotations

from dataclasses import replace

from lvspec_core.decoding import Lane
from lvspec_core.prefill import Prefilling
from lvspec_core.settings import RaceSettings


def endless_lane(pair, clip, method: str, settings: RaceSettings) -> Lane:
    prefilling = Prefilling(pair, clip, replace(settings, methods=(method,)).validated())
    list(prefilling.run())
    lane = prefilling.lanes[method]
    lane.end_ids = frozenset()
    return lane
