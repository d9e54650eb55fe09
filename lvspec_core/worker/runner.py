"""What the race process runs: the pair, loaded once, and the race over it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from lvspec_core.errors import SettingsError
from lvspec_core.records import Record
from lvspec_core.settings import RaceSettings


def run(clip: Any, settings: RaceSettings, should_stop: Callable[[], bool]) -> Iterator[Record]:
    """Races ``clip`` through the methods of ``settings``; ends within one round of ``should_stop`` turning true."""
    pair = _load(settings.pair)
    if should_stop():
        return
    from lvspec_core.race import prepare_and_race

    yield from prepare_and_race(pair, clip, settings, should_stop)


def warm(pair: str) -> None:
    """Loads a pair before anybody asks for it, so that the first race starts at once."""
    _load(pair)


run.warm = warm


def _load(name: str) -> Any:
    # imported here: the process starts, and refuses a bad request, before torch is there
    import torch
    from transformers.utils import logging

    from lvspec_core.pairs import load_pair, pair_info

    # its bar would run through the view of the race
    logging.disable_progress_bar()
    torch.set_num_threads(threads(pair_info(name).bundled, torch.get_num_threads()))
    return load_pair(name)


def threads(tiny: bool, available: int) -> int:
    """How many CPU threads a race uses: LVSPEC_THREADS, else one for a tiny pair, whose matrices are too small to share out
    (more threads only wait for each other), else all that torch found. Raises SettingsError."""
    wanted = os.environ.get("LVSPEC_THREADS", "").strip()
    if not wanted:
        return 1 if tiny else available
    if not wanted.isdecimal() or not 1 <= int(wanted) <= 1024:
        raise SettingsError("LVSPEC_THREADS must be a whole number from 1 to 1024.")
    return int(wanted)
