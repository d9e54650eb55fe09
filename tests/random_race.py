"""The real runner in the race process, with a pair of random weights that a test has saved."""

from __future__ import annotations

import os
from pathlib import Path

from lvspec_core.pairs import PAIRS, PairInfo
from lvspec_core.worker import runner

folder = Path(os.environ["RANDOM_PAIR"])
PAIRS["random"] = PairInfo(
    "random", "Random weights", "qwen2_5_vl", str(folder / "target"), str(folder / "draft"), bundled=True, folder=str(folder)
)

run = runner.run
