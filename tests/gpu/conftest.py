"""What needs a GPU; without one it is skipped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    mine = [item for item in items if here in item.path.parents]
    if not mine:
        return
    import torch

    for item in mine:
        item.add_marker(pytest.mark.gpu)
        if not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU"))


@pytest.fixture(scope="module")
def pair(random_pair_info):
    from lvspec_core.pairs import load_pair

    return load_pair(replace(random_pair_info, precision="float32"))
