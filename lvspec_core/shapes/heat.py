"""``python -m lvspec_core heat``: which of a target's layers look where a word's object is, against the world's own truth.

For every caption word that states a fact about one object it is known which video tokens show that object. Layers are chosen
on calibration clips, one after another as long as one more makes the heat fall better on the object, and judged on held-out
clips [ours].
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from lvspec_core.bench_report import fill_block, marker
from lvspec_core.errors import PairError
from lvspec_core.evidence import look
from lvspec_core.families.attention import EveryLayer
from lvspec_core.pair_file import add_entries
from lvspec_core.pairs import Pair, load_pair
from lvspec_core.relevance.measures import auc
from lvspec_core.settings import DEFAULT_QUESTION, RaceSettings
from lvspec_core.shapes.clips import CALIBRATION_SEED, captioned_clips
from lvspec_core.shapes.data import HELD_OUT_SEED
from lvspec_core.shapes.scene import Thing
from lvspec_core.shapes.words import word_ids

CLIPS = 40
OF_A_THING = ("size", "colour", "shape", "place", "motion")
SHOWS = 0.1  # a video token shows an object if at least this share of the object lies in it
GAIN = 0.005  # one more layer must make the AUC better by this


@dataclass(frozen=True)
class Look:
    """One fact word: what each layer paid to each video token above the caption's mean, [layers, tokens], and [tokens] whether
    the token shows the word's object."""

    attribute: str
    paid: np.ndarray
    shows: np.ndarray


def shown(thing: Thing, grid: tuple[int, int, int], frames: int) -> np.ndarray:
    """[video tokens] the share of the object's bounding box that lies in each token's tile, mean over the token's frames."""
    time, rows, columns = grid
    share = np.zeros(grid)
    deep = -(-frames // time)
    for frame in range(frames):
        (x, y), radius = thing.centre((frame + 0.5) / frames), thing.radius
        share[frame // deep] += np.outer(_inside(y, radius, rows), _inside(x, radius, columns)) / deep
    return share.ravel()


def _inside(centre: float, radius: float, parts: int) -> np.ndarray:
    """The share of an interval that lies in each of equal parts of [0, 1]."""
    edges = np.clip(np.linspace(0, 1, parts + 1), centre - radius, centre + radius)
    return np.diff(edges) / (2 * radius)


def collect(pair: Pair, clips: int, seed: int) -> list[Look]:
    """The fact words of one caption per clip."""
    target = pair.target
    ids, looks = word_ids(target.tokenizer), []
    for scene, clip, words in captioned_clips(range(clips), seed):
        with torch.inference_mode():
            prompt = target.encode(clip, DEFAULT_QUESTION)
            stream = target.prefill(prompt, target.video_features(prompt), len(prompt.tail) + len(words))
            last = stream.read_tail(prompt)
            # a watch that keeps all layers apart; see VideoHeat
            watch = EveryLayer(lambda weights, video=stream.video: weights[..., video].mean(dim=(0, 1)))
            seen = look(stream, last, [ids[word.text] for word in words], watch)  # [words, layers, video tokens]
        above = (seen - seen.mean(0)).cpu().numpy()
        things = {attribute: iter(scene.things) for attribute in OF_A_THING}
        for place, word in enumerate(words):
            if word.attribute in things:
                thing = next(things[word.attribute])
                looks.append(Look(word.attribute, above[place], shown(thing, prompt.grid, len(clip.frames)) >= SHOWS))
    return looks


def judge(looks: Sequence[Look], layers: Sequence[int]) -> dict:
    """``hit``: how often the hottest video token shows the word's object; ``auc``: chance that a token that shows it is hotter
    than one that does not; ``chance``: the hit of a random token."""
    heats = [each.paid[list(layers)].mean(0) for each in looks]
    pairs = list(zip(heats, looks, strict=True))
    return {
        "hit": float(np.mean([each.shows[heat.argmax()] for heat, each in pairs])),
        "auc": float(np.mean([auc(heat, each.shows) for heat, each in pairs])),
        "chance": float(np.mean([each.shows.mean() for each in looks])),
    }


def choose(looks: Sequence[Look], count: int) -> list[int]:
    """Layers of a target of ``count``, the best first, then whichever helps most, while one helps."""
    chosen: list[int] = []
    best = 0.0
    while len(chosen) < count:
        scores = {layer: judge(looks, [*chosen, layer])["auc"] for layer in range(count) if layer not in chosen}
        layer = max(scores, key=scores.get)
        if scores[layer] < best + GAIN:
            break
        best = scores[layer]
        chosen.append(layer)
    return sorted(chosen)


def measure(pair: Pair, clips: int = CLIPS) -> dict:
    """The entry for the pair's file: the layers, and how well they look on held-out clips."""
    count = len(pair.target.layers)
    layers = choose(collect(pair, clips, CALIBRATION_SEED), count)
    looks = collect(pair, clips, HELD_OUT_SEED)
    words = {name: judge([each for each in looks if each.attribute == name], layers) for name in OF_A_THING}
    return {
        "layers": layers,
        "clips": clips,
        "seeds": {"chosen": CALIBRATION_SEED, "judged": HELD_OUT_SEED},
        "measured": {"words": len(looks), **judge(looks, layers), "every_layer": judge(looks, range(count)), "attributes": words},
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m lvspec_core heat", description=__doc__)
    parser.add_argument("--pair", default=RaceSettings.pair)
    parser.add_argument("--docs", type=Path, metavar="FOLDER", help="also put the figures into the METHODS.md there")
    parser.add_argument("--clips", type=int, default=CLIPS, help="clips to choose layers on, and as many to judge them on")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    pair = load_pair(options.pair)
    if not pair.info.bundled:
        raise PairError(f"{pair.info.name} has no ground truth to measure against; its heat maps average all layers.")
    entry = measure(pair, options.clips)
    add_entries(pair.info.calibration, {"evidence": entry})
    if options.docs:
        fill_block(options.docs / "METHODS.md", marker("heat", pair.info.name), markdown(entry))
    _print(entry)
    return 0


def rows_of(entry: dict) -> list[tuple[str, str, str, str]]:
    """The measured figures as texts: which words, hits, AUC, hits by chance."""
    measured = entry["measured"]
    rows = {"all": measured, **measured["attributes"], "all, every layer": measured["every_layer"]}
    return [(name, f"{row['hit']:.0%}", f"{row['auc']:.2f}", f"{row['chance']:.0%}") for name, row in rows.items()]


def markdown(entry: dict) -> str:
    """The entry as METHODS.md shows it."""
    layers = ", ".join(map(str, entry["layers"]))
    told = f"Layers {layers} (counted from 0), judged on {entry['measured']['words']} words of {entry['clips']} held-out clips:"
    head = ["| words about one object | hottest token shows it | AUC | by chance |", "| --- | ---: | ---: | ---: |"]
    return "\n".join([told, "", *head, *(f"| {' | '.join(row)} |" for row in rows_of(entry))])


def _print(entry: dict) -> None:
    table = Table("words", "hottest token shows the object", "AUC", "by chance", title=f"layers {entry['layers']}")
    for row in rows_of(entry):
        table.add_row(*row)
    Console().print(table)
