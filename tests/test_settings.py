"""Settings: what is wrong is refused with one sentence, what was saved before a setting existed is read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lvspec_core.errors import SettingsError
from lvspec_core.settings import FURTHER_RANGES, PROPOSALS, RANGES, RaceSettings


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_every_proposal_is_accepted_and_survives_a_file(proposal):
    settings = RaceSettings(proposal=proposal, tree_nodes=9, temperature=0.5, top_p=1, adaptive=0).validated()
    assert RaceSettings.from_dict(settings.to_dict()) == settings
    assert isinstance(settings.top_p, float)


@pytest.mark.parametrize("name", RANGES | FURTHER_RANGES)
def test_every_number_is_held_to_its_range(name):
    low, high = (RANGES | FURTHER_RANGES)[name]
    for value in (low, high):
        assert getattr(replace(RaceSettings(), **{name: value}).validated(), name) == value
    for value in (low - 1, high + 1, float("nan"), "3", True):
        with pytest.raises(SettingsError, match=name.replace("_", " ")):
            replace(RaceSettings(), **{name: value}).validated()


@pytest.mark.parametrize("proposal", ["forest", "", None, 3])
def test_an_unknown_proposal_is_one_sentence(proposal):
    with pytest.raises(SettingsError, match="choose among chain, static_tree, dynamic_tree"):
        RaceSettings(proposal=proposal).validated()
