"""The command line's options that say what a race is asked to do: one for every setting."""

from __future__ import annotations

import argparse

from lvspec_core.settings import FURTHER_RANGES, METHODS, PROPOSALS, RANGES, RaceSettings

SETTINGS_HELP = {
    "frames": "frames sampled over the whole clip",
    "pruning_ratio": "share of the video tokens that the drafts of SpecVLM and LVSpec do not see",
    "draft_length": "draft tokens proposed per round, as a chain",
    "max_new_tokens": "token budget of every lane",
    "seed": "seed of the random generators",
    "anchor_quantile": "LVSpec: share of the tokens, by relevance, that count as fillers; without it the pair's calibrated threshold",
    "plausibility": "LVSpec: a loose filler needs this share of the top choice's probability",
    "top_k": "LVSpec: and must be among the target's k best",
    "window": "LVSpec: draft tokens after a loose filler on which the target must agree again; 0 is off",
    "entropy_gate": "LVSpec: positions with a lower entropy are never loosened; 0 is off",
    "shift": "LVSpec: how far ahead a shifted token may stand; 0 is off",
    "tree_nodes": "dynamic tree: draft tokens proposed per round",
    "tree_depth": "dynamic tree: how many may follow one another",
    "tree_width": "dynamic tree: how many tokens of a level are expanded, and by how many each",
    "adaptive": "the draft stops after a token less probable to it than this; 0 is off",
    "temperature": "0 decodes greedily, else tokens are drawn",
    "top_p": "sampling: tokens are drawn from the fewest best ones that hold this share",
}


def add_setting_options(parser: argparse.ArgumentParser) -> None:
    """``--methods``, ``--proposal`` and every number of the settings, with their defaults."""
    defaults = RaceSettings()
    parser.add_argument("--methods", default=",".join(METHODS), metavar="LIST", help="comma-separated methods (default: %(default)s)")
    parser.add_argument(
        "--proposal", default=defaults.proposal, metavar="NAME", help=f"one of {', '.join(PROPOSALS)} (default: %(default)s)"
    )
    for name, (low, high) in (RANGES | FURTHER_RANGES).items():
        default = getattr(defaults, name)
        told = "" if default is None else f" (default: {default})"
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=type(low),
            default=default,
            metavar="N" if isinstance(low, int) else "R",
            help=f"{SETTINGS_HELP[name]}; from {low} to {high}{told}",
        )
    parser.add_argument("--details", action="store_true", help="also record what draft and target thought and where the target looked")


def settings_of(options: argparse.Namespace, pair: str) -> RaceSettings:
    """The validated settings of a race with the pair of this name; raises SettingsError."""
    methods = tuple(name.strip() for name in options.methods.split(",") if name.strip())
    numbers = {name: getattr(options, name) for name in RANGES | FURTHER_RANGES}
    texts = {"pair": pair, "question": options.question, "methods": methods, "proposal": options.proposal}
    return RaceSettings(details=options.details, **texts, **numbers).validated()
