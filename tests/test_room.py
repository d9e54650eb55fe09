"""What a user is told of a race that does not fit: what it takes, what there is, and what would fit."""

from __future__ import annotations

import re
from dataclasses import replace

import psutil
import pytest

from lvspec_core import loading, pairs, room
from lvspec_core.errors import PairError
from lvspec_core.loading import AutoConfig
from lvspec_core.memory import GB, Demand, estimate, known_models
from lvspec_core.own_pairs import own_pair
from lvspec_core.pairs import load_pair
from lvspec_core.race import prepare_and_race
from lvspec_core.registry import PAIRS, pair_info
from lvspec_core.room import Room, most_frames, require, room_here
from lvspec_core.settings import RaceSettings


def gpus(*free: float, width: int = 2) -> Room:
    """Room on GPUs with this many GB free."""
    return Room(int(free[0] * GB), int(sum(free) * GB), len(free), width)


def told(name: str, here: Room, **settings) -> str:
    """The sentence about a pair of the registry that does not fit."""
    with pytest.raises(PairError) as caught:
        require(pair_info(name), known_models(pair_info(name)), Demand(RaceSettings(**settings)), here)
    return str(caught.value)


def test_what_fits_is_not_held_back():
    info = pair_info("qwen2.5-vl-7b")
    need = require(info, known_models(info), Demand(RaceSettings()), gpus(40))
    assert need == estimate(known_models(info), Demand(RaceSettings()), 2)


def test_one_sentence_says_what_is_needed_what_is_there_and_what_would_fit():
    sentence = told("qwen2.5-vl-7b", gpus(26), frames=128)
    pattern = (
        r"Qwen2\.5-VL 7B with 3B needs about \d+ GB \(22 GB for the weights\) for 128 frames and 4 lanes, but the GPU has 26 GB for it:"
        r" use at most \d+ frames, or quantise it to \d bits \(--quantise \dbit\), or choose a smaller pair, such as [a-z0-9.-]+\."
    )
    assert re.fullmatch(pattern, sentence), sentence


@pytest.mark.parametrize("free", [8, 12, 20, 26, 48, 80])
@pytest.mark.parametrize("name", [name for name, info in PAIRS.items() if not info.bundled])
def test_all_that_is_advised_would_fit(name, free):
    info, settings, here = pair_info(name), RaceSettings(frames=64), gpus(free)
    models = known_models(info)

    def needs(info=info, models=models, settings=settings):
        return estimate(models, Demand(settings), 2, info.quantise, info.alone).total

    if needs() <= free * GB:
        return
    sentence = told(name, here, frames=64)
    frames = re.search(r"at most (\d+) frame", sentence)
    if frames:
        most = int(frames[1])
        assert needs(settings=replace(settings, frames=most)) <= free * GB < needs(settings=replace(settings, frames=most + 1))
    else:
        assert needs(settings=replace(settings, frames=1)) > free * GB
    if "AR and LVSpec only" in sentence:
        assert needs(settings=replace(settings, methods=("ar", "lvspec"))) <= free * GB
    bits = re.search(r"--quantise (\dbit)", sentence)
    if bits:
        assert needs(replace(info, quantise=bits[1])) <= free * GB
    other = pair_info(re.search(r"such as (\S+)\.$", sentence)[1])
    if not other.bundled:
        assert needs(other, known_models(other)) <= free * GB < needs()


def test_several_gpus_are_advised_where_they_hold_it_together():
    assert "spread it over the GPUs (--device-map auto)" in told("qwen2.5-vl-72b", gpus(79, 79, 79))
    assert "spread it" not in told("qwen2.5-vl-72b", gpus(79, 40))
    assert "spread it" not in told("qwen2.5-vl-72b", gpus(100))
    info = replace(pair_info("qwen2.5-vl-72b"), spread=True)
    assert require(info, known_models(info), Demand(RaceSettings()), gpus(79, 79, 79))
    with pytest.raises(PairError, match="the 2 GPUs together have 119 GB"):
        require(info, known_models(info), Demand(RaceSettings()), gpus(79, 40))


def test_a_cpu_is_offered_no_quantisation():
    sentence = told("qwen2.5-vl-7b", Room(8 * GB, 8 * GB, 0, 4))
    assert "this computer has 8.0 GB for it" in sentence
    assert "quantise" not in sentence
    assert sentence.endswith("choose a smaller pair, such as shapes-qwen.")


def test_a_race_that_grows_is_looked_at_again_when_the_weights_are_there():
    info = pair_info("qwen2.5-vl-7b")
    models = known_models(info)
    left = gpus(4)
    assert require(info, models, Demand(RaceSettings()), left, loaded=True)
    with pytest.raises(PairError, match="use at most"):
        require(info, models, Demand(RaceSettings(frames=128)), left, loaded=True)


def test_a_bundled_pair_is_never_held_back():
    assert require(pair_info("shapes-qwen"), (), Demand(RaceSettings()), Room(0, 0, 0, 4)) is None


@pytest.mark.parametrize("most", range(9))
def test_the_most_frames_are_found_by_halving(most):
    assert most_frames(8, lambda frames: frames <= most) == min(most, 7)


def test_main_memory_is_what_the_system_and_the_container_leave(monkeypatch, tmp_path):
    free = psutil.virtual_memory().available
    monkeypatch.setattr(room, "CGROUPS", ())
    assert 0.5 * free < room_here(4).free < 1.5 * free
    limit, used = tmp_path / "limit", tmp_path / "used"
    monkeypatch.setattr(room, "CGROUPS", ((tmp_path / "none", tmp_path / "none"), (limit, used)))
    limit.write_text("5000\n")
    used.write_text("1000\n")
    assert room_here(4) == Room(4000, 4000, 0, 4)
    limit.write_text("max\n")
    assert room_here(4).free > 4000


@pytest.fixture
def cramped(monkeypatch):
    """A machine with next to no memory."""
    for module in (pairs, loading):
        monkeypatch.setattr(module, "room_here", lambda width: Room(2**20, 2**20, 0, width))


def test_it_is_told_before_any_weights_are_loaded(random_pair_folder, tmp_path, monkeypatch, cramped):
    monkeypatch.setenv("LVSPEC_PAIRS_FOLDER", str(tmp_path))
    monkeypatch.setattr("lvspec_core.families.qwen2_5_vl.Qwen2_5_VL.load", lambda *_, **__: pytest.fail("weights were loaded"))
    with pytest.raises(PairError, match=r"target with draft needs about .* but this computer has 1 MB for it"):
        load_pair(own_pair(str(random_pair_folder / "target"), str(random_pair_folder / "draft")))


def test_a_pair_of_the_registry_is_refused_without_a_word_to_the_hub(monkeypatch, cramped):
    monkeypatch.setattr(AutoConfig, "from_pretrained", lambda *_, **__: pytest.fail("the hub was asked"))
    with pytest.raises(PairError, match=r"Qwen2\.5-VL 72B with 7B needs about"):
        load_pair("qwen2.5-vl-72b")


def test_what_another_pair_holds_counts_as_free_for_the_next(random_pair, monkeypatch):
    """It is forgotten before the next one is loaded: what it takes must not refuse that one."""
    asked = []
    held = sum(parameter.nbytes for model in (random_pair.target.model, random_pair.draft.model) for parameter in model.parameters())
    monkeypatch.setattr(pairs, "_loaded", {random_pair.info: random_pair})
    monkeypatch.setattr(pairs, "room_here", lambda width: Room(1, 2, 1, width))
    monkeypatch.setattr(pairs, "require", lambda info, models, demand, room: asked.append(room))
    monkeypatch.setattr(pairs, "plan", lambda info: (_ for _ in ()).throw(PairError("enough")))
    with pytest.raises(PairError, match="enough"):
        load_pair("llava-onevision-7b")
    assert [(room.free, room.together) for room in asked] == [(1 + held, 2 + held)]
    assert not random_pair.info.bundled


def test_a_race_with_a_loaded_pair_is_refused_before_it_starts(random_pair, make_clip, cramped):
    race = prepare_and_race(random_pair, make_clip(height=448, width=448), RaceSettings(frames=4))
    with pytest.raises(PairError, match="for 4 frames and 4 lanes, but this computer has"):
        next(race)


def test_a_race_of_a_bundled_pair_is_not(random_pair, make_clip, cramped):
    bundled = replace(random_pair, info=replace(random_pair.info, bundled=True))
    assert next(prepare_and_race(bundled, make_clip(), RaceSettings(frames=4)))
