"""``python -m lvspec_core bench``: all methods and transformers' own decoding, side by side in one process, over held-out clips."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from transformers import AutoModelForImageTextToText, StoppingCriteria, StoppingCriteriaList

from lvspec_core.bench_report import fill_documents, print_result, write_report
from lvspec_core.calibrate import collect
from lvspec_core.errors import PairError, SettingsError
from lvspec_core.pairs import Pair, load_pair
from lvspec_core.race import environment, run_race
from lvspec_core.records import LaneEnd
from lvspec_core.relevance.measures import auc, precision_at_recall
from lvspec_core.settings import METHODS, RaceSettings
from lvspec_core.shapes.captions import read_facts, score_facts
from lvspec_core.shapes.clips import world_clip
from lvspec_core.shapes.data import HELD_OUT_SEED

CLIPS = 20
WARM_UP_CLIP = 10**6  # raced first and not counted, so that nobody pays for what happens once
FIGURES = ("speedup_decode", "speedup_total", "tokens_per_second", "mean_accepted_length", "acceptance_rate")

# LVSpec with one of its parts switched off, and knobs turned one at a time; everything else at its default
ABLATION = {
    "all parts": {},
    "without the window": {"window": 0},
    "without the entropy gate": {"entropy_gate": 0.0},
    "without shifts": {"shift": 0},
    "without loosening": {"anchor_quantile": 0.0, "shift": 0},
    "every token a filler": {"anchor_quantile": 1.0},
}
SWEEP = {
    "draft_length": (2, 4, 6, 8, 12, 16),
    "pruning_ratio": (0.0, 0.25, 0.5, 0.75, 0.9),
    "anchor_quantile": (0.5, 0.6, 0.7, 0.8, 0.9),
    "frames": (4, 6, 8, 10, 12),
}


class Ticks(StoppingCriteria):
    """The moment of every step of ``generate``; never stops it. An assisted step may bring several tokens."""

    def __init__(self):
        self.moments: list[float] = []
        self.lengths: list[int] = []

    def __call__(self, input_ids, scores, **kwargs):
        self.moments.append(time.perf_counter())
        self.lengths.append(input_ids.shape[1])
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)

    @property
    def tokens_per_second(self) -> float:
        """Tokens after the first step ÷ the seconds they took, so that the prefill is left out as it is in a lane's decode seconds."""
        return (self.lengths[-1] - self.lengths[0]) / (self.moments[-1] - self.moments[0])


class Peers:
    """transformers' own decoding on stock models, loaded with its defaults."""

    def __init__(self, pair: Pair):
        self.pair = pair
        dtype, device = pair.target.dtype, pair.target.device
        self.target = AutoModelForImageTextToText.from_pretrained(pair.info.target, dtype=dtype).to(device).eval()
        self.draft = AutoModelForImageTextToText.from_pretrained(pair.info.draft, dtype=dtype).to(device).eval()

    @torch.inference_mode()
    def run(self, clip, settings: RaceSettings, assisted: bool) -> tuple[float, list[int]]:
        """Tokens per second of decoding, and the tokens."""
        prompt = self.pair.target.encode(clip, settings.question)
        inputs = {name: value.to(self.target.device) if isinstance(value, torch.Tensor) else value for name, value in prompt.inputs.items()}
        inputs.pop("video_metadata", None)
        ticks = Ticks()
        options = {"assistant_model": self.draft} if assisted else {}
        ids = self.target.generate(
            **inputs, do_sample=False, max_new_tokens=settings.max_new_tokens, stopping_criteria=StoppingCriteriaList([ticks]), **options
        )
        return ticks.tokens_per_second, ids[0, len(prompt.ids) :].tolist()


def lanes_of(pair: Pair, clip, settings: RaceSettings) -> dict[str, LaneEnd]:
    """The lanes' summaries of one race; a failed lane ends the measurement."""
    lanes = {record.lane: record for record in run_race(pair, clip, settings) if isinstance(record, LaneEnd)}
    for lane in lanes.values():
        if lane.error:
            raise PairError(f"The {lane.lane} lane failed, so nothing was measured: {lane.error}")
    return lanes


def facts_share(texts: list[str], scenes: list) -> float:
    """Facts stated right ÷ facts to state, over all clips."""
    scores = [pair for text, scene in zip(texts, scenes, strict=True) for pair in score_facts(text, scene).values()]
    return sum(right for right, _ in scores) / sum(total for _, total in scores)


def measure(pair: Pair, settings: RaceSettings, clips: int, progress: Callable = lambda numbers: numbers) -> dict:
    """The result object: medians over clips with their quartiles, transformers' own decoding beside the lanes."""
    peers, lanes, scenes = Peers(pair), {name: [] for name in settings.methods}, []
    speeds = {"generate": [], "generate_assisted": []}
    for number in progress([WARM_UP_CLIP, *range(clips)]):
        scene, clip = world_clip(number, settings.frames)
        ended = lanes_of(pair, clip, settings)
        peer = {name: peers.run(clip, settings, assisted=name == "generate_assisted")[0] for name in speeds}
        if number == WARM_UP_CLIP:
            continue
        scenes.append(scene)
        for name, lane in ended.items():
            lanes[name].append(lane)
        for name, speed in peer.items():
            speeds[name].append(speed)
    return {
        "pair": pair.info.name,
        "clips": clips,
        "seed": HELD_OUT_SEED,
        "settings": settings.to_dict(),
        "environment": environment(pair),
        "methods": {name: _method(ended, scenes) for name, ended in lanes.items()},
        "peers": {name: {"tokens_per_second": _median(values)} for name, values in speeds.items()},
        "anchors": anchors(pair, settings, clips) if pair.calibration else None,
        "departures": departures(lanes, scenes),
    }


def departures(lanes: dict[str, list[LaneEnd]], scenes: list) -> list[dict]:
    """Every fact that LVSpec states otherwise than AR: the clip, the attribute, both lanes' words and the truth."""
    found = []
    for number, scene in enumerate(scenes):
        reference, loose = (read_facts(lanes[name][number].text) for name in ("ar", "lvspec"))
        for attribute, truth in scene.facts().items():
            if reference[attribute] != loose[attribute]:
                words = {"ar": reference[attribute], "lvspec": loose[attribute], "truth": truth}
                found.append({"clip": number, "attribute": attribute} | {name: list(said) for name, said in words.items()})
    return found


def _method(lanes: list[LaneEnd], scenes: list) -> dict:
    row = {}
    for figure in FIGURES:
        values = [getattr(lane, figure) for lane in lanes if getattr(lane, figure) is not None]
        row[figure] = _median(values)
        row[f"{figure}_quartiles"] = [round(float(q), 4) for q in np.quantile(values, [0.25, 0.75])] if values else None
    row["facts_right"] = round(facts_share([lane.text for lane in lanes], scenes), 4)
    row["same_as_ar"] = round(sum(lane.same_as_ar is True for lane in lanes) / len(lanes), 4)
    tokens = sum(lane.tokens for lane in lanes)
    row["verdicts"] = {name: round(sum(lane.verdicts[name] for lane in lanes) / tokens, 4) for name in lanes[0].verdicts}
    return row


def _median(values: list[float]) -> float | None:
    return round(float(np.median(values)), 4) if values else None


def anchors(pair: Pair, settings: RaceSettings, clips: int) -> dict:
    """How well the pair's scorer finds visual words on held-out captions (not those it was calibrated on)."""
    calibration = pair.calibration
    scores, visual = collect(pair, calibration, clips, settings.pruning_ratio, seed=HELD_OUT_SEED)
    marked = scores >= calibration.threshold
    return {
        "scorer": calibration.scorer,
        "auc": round(auc(scores, visual), 4),
        "precision_at_recall_90": round(precision_at_recall(scores, visual, 0.9), 4),
        "recall": round(float(marked[visual].mean()), 4),
        "precision": round(float(visual[marked].mean()), 4),
    }


def variants(pair: Pair, settings: RaceSettings, clips: int, progress: Callable = lambda numbers: numbers) -> dict:
    """The ablation and the sweeps: one row per variant, AR raced beside each so that speedups are fair."""
    result = {"ablation": {}, "sweep": {name: {} for name in SWEEP}}
    jobs = [("ablation", name, change, ("ar", "lvspec")) for name, change in ABLATION.items()]
    for knob, values in SWEEP.items():
        methods = ("ar", "lvspec") if knob == "anchor_quantile" else settings.methods
        jobs += [(knob, str(value), {knob: value}, methods) for value in values]
    for group, label, change, methods in progress(jobs):
        changed = replace(settings, methods=methods, **change)
        lanes, scenes = {name: [] for name in methods}, []
        for number in range(clips):
            scene, clip = world_clip(number, changed.frames)
            scenes.append(scene)
            for name, lane in lanes_of(pair, clip, changed).items():
                lanes[name].append(lane)
        rows = {name: _method(ended, scenes) for name, ended in lanes.items()}
        if group == "ablation":
            result["ablation"][label] = rows["lvspec"]
        else:
            result["sweep"][group][label] = rows
    return result


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m lvspec_core bench", description=__doc__)
    parser.add_argument("--pair", default=RaceSettings.pair)
    parser.add_argument("--clips", type=int, default=CLIPS, help="held-out clips of the shapes world")
    parser.add_argument(
        "--sweep", action="store_true", help="also the ablation and the sweeps over draft length, pruning, threshold, frames"
    )
    parser.add_argument("--sweep-clips", type=int, default=8)
    parser.add_argument("--json", action="store_true", help="one object on stdout, nothing written elsewhere")
    parser.add_argument("--out", type=Path, default=Path("assets/bench"), help="where the result and its plots are written")
    parser.add_argument("--docs", type=Path, help="folder whose README.md and METHODS.md get their tables from this result")
    options = parser.parse_args(arguments)
    if options.clips < 1 or options.sweep_clips < 1:
        raise SettingsError("Measure on at least one clip.")
    torch.set_num_threads(1)
    pair = load_pair(options.pair)
    if not pair.info.bundled:
        raise PairError(f"{pair.info.name} does not know the shapes world; bench measures bundled pairs.")
    settings = RaceSettings(pair=options.pair, methods=METHODS).validated()
    console = Console(stderr=True)
    result = measure(pair, settings, options.clips, lambda work: track(list(work), "measuring", console=console))
    if options.sweep:
        result["variants"] = {"clips": options.sweep_clips}
        result["variants"] |= variants(
            pair, settings, options.sweep_clips, lambda work: track(list(work), "ablation and sweeps", console=console)
        )
    if options.json:
        json.dump(result, sys.stdout, indent=1)
        print()
        return 0
    print_result(result, Console())
    written = write_report(result, options.out)
    if options.docs:
        written += fill_documents(result, options.docs)
    console.print("written: " + ", ".join(path.name for path in written))
    return 0
