"""The pairs that the page offers: the registry's, and on a page of one's own any that is typed in."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from dataclasses import replace

import gradio as gr

from lvspec_core.errors import PairError, UserError
from lvspec_core.memory import needed_line
from lvspec_core.offer import Offer
from lvspec_core.own_pairs import own_pair
from lvspec_core.registry import PairInfo
from lvspec_core.settings import METHODS, RaceSettings

# a Space's visitors choose among the registry's pairs; who runs the page chooses any
LOCAL = not os.environ.get("SPACE_ID")
try:
    OFFER = Offer.read(os.environ)
except PairError as error:
    raise SystemExit(f"error: {error}") from None
OWN: dict[str, PairInfo] = {}  # pairs that were typed into this page, by name


def chosen_pair(name: str) -> PairInfo:
    """A pair that this page offers, or one that was typed into it; PairError for any other, whatever a link or a file says."""
    return OWN.get(name) or OFFER.pair(name)


def add_own_pair(target: str, draft: str, quantise: str = "", spread: bool = False) -> PairInfo:
    """The pair that was typed in, from now on known by its name; PairError. Not on a Space."""
    if not LOCAL:
        raise PairError("On a Space only the listed pairs can race; run the page yourself for any other.")
    info = own_pair(target or "", draft or "", quantise=quantise, spread=spread)
    if quantise or spread:  # the same models loaded in another way are another choice
        how = [word for word in (quantise, "spread" if spread else "") if word]
        info = replace(info, name="-".join([info.name, *how]), title=f"{info.title} ({', '.join(how)})")
    OWN[info.name] = info
    return info


def pair_choices() -> list[tuple[str, str]]:
    """(title, name) of every pair that can be chosen."""
    return [(info.title, info.name) for info in (*OFFER.pairs, *OWN.values())]


def pair_notice(name: str, frames: float, methods: Sequence[str]) -> str:
    """What a user must know of a pair, and what a race with these settings takes."""
    try:
        info = chosen_pair(name)
        needed = needed_line(info, RaceSettings(frames=int(frames), methods=tuple(methods or METHODS)).validated())
    except UserError as error:
        return html.escape(str(error))
    if info.own and not needed:
        needed = "What this pair takes is reckoned from its configurations when it races, before any weights are loaded."
    return " ".join(filter(None, (info.notice, needed)))


def use_own_pair(target: str, draft: str, quantise: str, spread: bool):
    """Makes a typed pair the chosen one."""
    try:
        info = add_own_pair(target, draft, quantise, spread)
    except UserError as error:
        gr.Warning(html.escape(str(error)))  # Gradio's notices are HTML
        return gr.skip()
    return gr.Dropdown(pair_choices(), value=info.name)


def build_own_pair(pair: gr.Dropdown) -> None:
    """The fold in which any two checkpoints become a pair."""
    with gr.Accordion("Own pair", open=False, elem_id="own-pair"):
        with gr.Row():
            target = gr.Textbox(
                label="Target",
                placeholder="Qwen/Qwen2.5-VL-7B-Instruct",
                info="A hub name, or a folder on this computer.",
                elem_id="own-target",
            )
            draft = gr.Textbox(
                label="Draft",
                placeholder="Qwen/Qwen2.5-VL-3B-Instruct",
                info="Empty: the target drafts for itself.",
                elem_id="own-draft",
            )
        with gr.Row():
            bits = [("as they are", ""), ("8 bits", "8bit"), ("4 bits", "4bit")]
            quantise = gr.Radio(bits, value="", label="Weights", info="Fewer bits need a GPU and bitsandbytes.")
            spread = gr.Checkbox(False, label="Spread over all GPUs", info="For a target that one GPU does not hold.")
            use = gr.Button("Use this pair", elem_id="use-pair")
    use.click(use_own_pair, [target, draft, quantise, spread], pair, show_progress="hidden", api_visibility="private")
