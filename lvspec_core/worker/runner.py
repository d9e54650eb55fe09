"""What the race process runs: the pair, loaded once, and the race over it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from lvspec_core.errors import SettingsError
from lvspec_core.records import Record
from lvspec_core.registry import PairInfo, pair_info
from lvspec_core.settings import RaceSettings


def run(clip: Any, settings: RaceSettings, should_stop: Callable[[], bool], pair: PairInfo | None = None) -> Iterator[Record]:
    """Races ``clip`` through the methods of ``settings``, with ``pair`` if it is not the registry's that the settings name; ends
    within one round of ``should_stop`` turning true."""
    pair = _load(pair or pair_info(settings.pair), settings)
    if should_stop():
        return
    from lvspec_core.race import prepare_and_race

    yield from prepare_and_race(pair, clip, settings, should_stop)


def warm(pair: str | PairInfo, settings: RaceSettings | None = None) -> None:
    """Loads a pair before anybody asks for it, so that the first race starts at once; not if a race with ``settings`` would not fit."""
    _load(pair if isinstance(pair, PairInfo) else pair_info(pair), settings)


run.warm = warm


def _load(info: PairInfo, settings: RaceSettings | None) -> Any:
    # imported here: the process starts, and refuses a bad request, before torch is there
    import torch
    from transformers.utils import logging

    from lvspec_core.pairs import load_pair

    # its bar would run through the view of the race
    logging.disable_progress_bar()
    torch.set_num_threads(threads(info.bundled, torch.get_num_threads()))
    return load_pair(info, settings)


def threads(tiny: bool, available: int) -> int:
    """How many CPU threads a race uses: LVSPEC_THREADS, else one for a tiny pair, whose matrices are too small to share out
    (more threads only wait for each other), else all that torch found. Raises SettingsError."""
    wanted = os.environ.get("LVSPEC_THREADS", "").strip()
    if not wanted:
        return 1 if tiny else available
    if not wanted.isdecimal() or not 1 <= int(wanted) <= 1024:
        raise SettingsError("LVSPEC_THREADS must be a whole number from 1 to 1024.")
    return int(wanted)
