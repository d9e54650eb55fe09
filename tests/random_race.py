"""The real runner in the race process, with a pair of random weights that a test has saved."""

from __future__ import annotations

import json
import os
from pathlib import Path

from lvspec_core.pairs import PAIRS, PairInfo
from lvspec_core.worker import runner

folder = Path(os.environ["RANDOM_PAIR"])
family = json.loads((folder / "target" / "config.json").read_text())["model_type"]
roles = {role: str(folder / role) for role in ("target", "draft")}
PAIRS["random"] = PairInfo("random", "Random weights", family, **roles, bundled=True, folder=str(folder))

run = runner.run
