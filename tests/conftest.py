"""Tiny pairs of the real architectures with random weights, saved and loaded as any checkpoint is."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings as hypothesis_settings

# how long an example takes says how busy the machine is
hypothesis_settings.register_profile("unhurried", deadline=None)
hypothesis_settings.load_profile("unhurried")


def pytest_collection_modifyitems(items):
    """What is slow begins first, so that no process works alone at the end. Of what runs on every family lines are counted on one, as
    counting takes a third of a test's time; each family's own module is counted by its own tests (test_families.py)."""
    items.sort(key=lambda item: not item.get_closest_marker("slow"))
    for item in items:
        family = item.callspec.params.get("random_pair_info", FAMILIES[0]) if hasattr(item, "callspec") else FAMILIES[0]
        if family != FAMILIES[0] and item.path.name != "test_families.py":
            item.add_marker(pytest.mark.no_cover)


# what a further family adds to the tests of everything that runs on a model: its name
FAMILIES = ("qwen2_5_vl", "llava_onevision")


@pytest.fixture(scope="session", params=FAMILIES)
def random_pair_info(request, tmp_path_factory):
    """A target of random weights and a draft that is the target with noise on it: it agrees often, not always."""
    import torch

    from lvspec_core.registry import PairInfo
    from lvspec_core.shapes.models import ARCHITECTURES

    torch.set_num_threads(1)
    family = request.param
    folder = tmp_path_factory.mktemp(f"random-{family}")
    architecture = ARCHITECTURES[family]
    torch.manual_seed(3)
    config = architecture.build_config(layers=4, vision_layers=1, vision_hidden=32, hidden=64, intermediate=96)
    if architecture.axes > 1:
        config.text_config.rope_parameters["mrope_section"] = [2, 3, 3]
    config.text_config.initializer_range = config.vision_config.initializer_range = 0.25
    model = architecture.model._from_config(config)
    for role, noise in (("target", 0.0), ("draft", 0.03)):
        with torch.no_grad():
            for parameter in model.model.parameters():
                parameter += noise * parameter.std() * torch.randn_like(parameter) if parameter.dim() > 1 else 0
        model.save_pretrained(folder / role)
        architecture.build_processor().save_pretrained(folder / role)
    quantiles = [index / 100 for index in range(101)]
    entry = {"scorer": "draft_attention", "layer": -1, "threshold": 0.5, "quantiles": quantiles}
    (folder / "pair.json").write_text(json.dumps({"relevance": entry}))
    return PairInfo("random", "Random weights", family, str(folder / "target"), str(folder / "draft"), folder=str(folder))


@pytest.fixture(scope="session")
def random_pair_folder(random_pair_info) -> Path:
    return Path(random_pair_info.folder)


@pytest.fixture(scope="session")
def random_pair(random_pair_info):
    from lvspec_core.pairs import load_pair

    return load_pair(random_pair_info)


@pytest.fixture(scope="session")
def make_clip():
    """Clips of noise, as the video reader would return them."""
    from lvspec_core.video import VideoClip

    def make(frames: int = 4, height: int = 112, width: int = 112, seed: int = 0, seconds: float = 4.0) -> VideoClip:
        pixels = np.random.default_rng(seed).integers(0, 256, (frames, height, width, 3), dtype=np.uint8)
        times = tuple((index + 0.5) * seconds / frames for index in range(frames))
        return VideoClip("noise.mp4", pixels, times, seconds, 25.0, width, height, int(seconds * 25), "test")

    return make
