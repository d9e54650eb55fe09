"""The command line's options that choose a pair: one of the registry, or any two checkpoints, and how they are loaded."""

from __future__ import annotations

import argparse

from lvspec_core.errors import SettingsError
from lvspec_core.own_pairs import own_pair, with_choices
from lvspec_core.registry import PAIRS, QUANTISATIONS, PairInfo, pair_info
from lvspec_core.settings import RaceSettings


def add_pair_options(parser: argparse.ArgumentParser) -> None:
    """``--pair``, ``--target``, ``--draft`` and how they are loaded."""
    group = parser.add_argument_group("models")
    group.add_argument("--pair", metavar="NAME", help=f"target/draft pair; `pairs` lists them (default: {RaceSettings.pair})")
    group.add_argument("--target", metavar="MODEL", help="instead: any model of a supported architecture, a hub name or a folder")
    group.add_argument("--draft", metavar="MODEL", help="its draft; without one the target drafts for itself")
    group.add_argument("--revision", default="", metavar="REV", help="the target's commit, branch or tag on the hub")
    group.add_argument("--draft-revision", default="", metavar="REV", help="the draft's")
    group.add_argument("--quantise", choices=[each for each in QUANTISATIONS if each], help="needs a GPU and the package bitsandbytes")
    group.add_argument("--device-map", choices=["auto"], help="spread the target over all GPUs")


def chosen_pair(options: argparse.Namespace) -> PairInfo:
    """The pair that the options name; PairError or SettingsError with one sentence."""
    choices = {"quantise": options.quantise, "spread": options.device_map == "auto"}
    if options.target:
        if options.pair:
            raise SettingsError("Name either --pair, or --target and --draft.")
        return own_pair(options.target, options.draft or "", options.revision, options.draft_revision, **choices)
    if options.draft or options.revision or options.draft_revision:
        raise SettingsError("A draft and revisions belong to --target; name the target too.")
    return with_choices(pair_info(options.pair or RaceSettings.pair), **choices)


def not_registered(info: PairInfo) -> PairInfo | None:
    """The pair where its name alone does not tell it: one's own, or one of the registry that is loaded in another way."""
    return None if PAIRS.get(info.name) == info else info
