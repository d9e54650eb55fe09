"""``python -m lvspec_core bench``: all methods and transformers' own decoding, side by side in one process.

The bundled pair races held-out clips of its world, whose facts are known; any other pair races the videos of a folder.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import track

from lvspec_core.bench_peers import Peers
from lvspec_core.bench_report import fill_documents, print_result, write_report
from lvspec_core.calibrate import clips_of, collect
from lvspec_core.decoding import Lane
from lvspec_core.errors import PairError, SettingsError
from lvspec_core.fidelity import Fidelity, fidelity, medians
from lvspec_core.pair_options import add_pair_options, chosen_pair
from lvspec_core.pairs import Pair, load_pair
from lvspec_core.prefill import open_lane
from lvspec_core.race import environment, run_race
from lvspec_core.records import LaneEnd, Round, Token
from lvspec_core.relevance.measures import auc, precision_at_recall
from lvspec_core.settings import METHODS, RaceSettings
from lvspec_core.shapes.captions import read_facts, score_facts
from lvspec_core.shapes.clips import world_clip
from lvspec_core.shapes.data import HELD_OUT_SEED
from lvspec_core.shapes.scene import ATTRIBUTES, Scene
from lvspec_core.video import VideoClip

CLIPS = 20
WARM_UP_CLIP = 10**6  # raced first and not counted, so that nobody pays for what happens once
FIGURES = ("speedup_decode", "speedup_total", "tokens_per_second", "mean_accepted_length", "acceptance_rate")
WATCHED_ROUNDS = 40  # rounds of drafting by which the cost of relevance is measured

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


@dataclass(frozen=True)
class Case:
    """A clip to race. ``scene``: what it shows, None where nobody knows."""

    clip: VideoClip
    scene: Scene | None = None


@dataclass(frozen=True)
class Ran:
    """What a lane did: its summary, its text, and which share of its seconds was neither model's pass."""

    end: LaneEnd
    tokens: tuple[Token, ...]
    overhead: float


def world_cases(numbers: Iterator[int] | range, frames: int) -> list[Case]:
    """Held-out clips of the shapes world."""
    return [Case(clip, scene) for scene, clip in (world_clip(number, frames) for number in numbers)]


def run_case(pair: Pair, clip: VideoClip, settings: RaceSettings) -> dict[str, Ran]:
    """The lanes of one race; a failed lane ends the measurement."""
    lanes, rounds = {}, {name: [] for name in settings.methods}
    for record in run_race(pair, clip, settings):
        if isinstance(record, Round):
            rounds[record.lane].append(record)
        elif isinstance(record, LaneEnd):
            if record.error:
                raise PairError(f"The {record.lane} lane failed, so nothing was measured: {record.error}")
            mine = rounds[record.lane]
            models = sum(each.draft_seconds + each.verify_seconds for each in mine)
            tokens = tuple(token for each in mine for token in each.tokens)
            lanes[record.lane] = Ran(record, tokens, 1 - models / record.decode_seconds)
    return lanes


def facts_share(texts: list[str], scenes: list[Scene | None]) -> float | None:
    """Facts stated right ÷ facts to state, over all clips; None where the scenes are not known."""
    scores = [pair for text, scene in zip(texts, scenes, strict=True) if scene for pair in score_facts(text, scene).values()]
    return sum(right for right, _ in scores) / sum(total for _, total in scores) if scores else None


def measure(pair: Pair, settings: RaceSettings, cases: list[Case], warm_up: Case, progress: Callable = lambda work: work) -> dict:
    """The result object: medians over clips with their quartiles, transformers' own decoding beside the lanes.

    The first case, ``warm_up``, is raced and not counted.
    """
    peers, lanes, kept = Peers(pair), {name: [] for name in settings.methods}, []
    speeds = {"generate": [], "generate_assisted": []}
    for case in progress([warm_up, *cases]):
        ran = run_case(pair, case.clip, settings)
        peer = {name: peers.run(case.clip, settings, assisted=name == "generate_assisted")[0] for name in speeds}
        if case is warm_up:
            continue
        for name, each in ran.items():
            lanes[name].append(each)
        for name, speed in peer.items():
            speeds[name].append(speed)
        kept.append(fidelity_of(pair, case.clip, settings, ran))
    scenes = [case.scene for case in cases]
    known = pair.info.bundled and all(scenes)
    return {
        "pair": pair.info.name,
        "clips": len(cases),
        "seed": HELD_OUT_SEED if known else None,
        "settings": settings.to_dict(),
        "environment": environment(pair),
        "methods": {name: _method(each, scenes) for name, each in lanes.items()},
        "peers": {name: {"tokens_per_second": _median(values)} for name, values in speeds.items()},
        "anchors": anchors(pair, settings, len(cases)) if pair.calibration and known else None,
        "fidelity": medians(kept),
        "shares": shares(pair, warm_up.clip, settings, lanes["lvspec"]),
        "attributes": {name: by_attribute(lanes[name], scenes) for name in ("ar", "lvspec")} if known else None,
        "departures": departures(lanes, scenes) if known else [],
    }


def opened(pair: Pair, clip: VideoClip, settings: RaceSettings, method: str) -> Lane:
    """A lane after its prefill, before its first round."""
    return open_lane(pair, clip, settings, method, f"The {method} lane failed, so nothing was measured")


def fidelity_of(pair: Pair, clip: VideoClip, settings: RaceSettings, ran: dict[str, Ran]) -> Fidelity:
    """How LVSpec's text compares with AR's."""
    lane = opened(pair, clip, settings, "ar")
    return fidelity(lane.target, lane.pending, ran["ar"].tokens, ran["lvspec"].tokens)


@torch.inference_mode()
def shares(pair: Pair, clip: VideoClip, settings: RaceSettings, lanes: list[Ran]) -> dict[str, float]:
    """Shares of an LVSpec round: ``verification``, everything beside the models' passes (rules, caches, reading results), median over
    clips; ``relevance``, what scoring adds to drafting, measured by drafting the same with and without it in turn."""
    lane, plain = opened(pair, clip, settings, "lvspec"), opened(pair, clip, settings, "lvspec")
    plain.drafter.watch = None
    lane.drafter.adaptive = plain.drafter.adaptive = 0.0  # both draft the same tokens
    seconds = {True: [], False: []}
    for _ in range(WATCHED_ROUNDS):
        for scored, drafter in ((True, lane.drafter), (False, plain.drafter)):
            began = time.perf_counter()
            proposal = drafter.propose(lane.draft_length)
            proposal.ids.tolist()  # a device is waited for
            seconds[scored].append(time.perf_counter() - began)
            drafter.stream.rollback(drafter.start - len(drafter.unread))
    more = float(np.median(np.subtract(seconds[True], seconds[False])))
    per_round = np.median([each.end.decode_seconds / each.end.rounds for each in lanes])
    return {
        "verification": round(float(np.median([each.overhead for each in lanes])), 4),
        "relevance": round(max(0.0, more) / float(per_round), 4),
    }


def by_attribute(lanes: list[Ran], scenes: list[Scene]) -> dict[str, float]:
    """Attribute -> share of its facts stated right."""
    totals = {name: [0, 0] for name in ATTRIBUTES}
    for each, scene in zip(lanes, scenes, strict=True):
        for name, (right, total) in score_facts(each.end.text, scene).items():
            totals[name][0] += right
            totals[name][1] += total
    return {name: round(right / total, 4) for name, (right, total) in totals.items() if total}


def departures(lanes: dict[str, list[Ran]], scenes: list[Scene]) -> list[dict]:
    """Every fact that LVSpec states otherwise than AR: the clip, the attribute, both lanes' words and the truth."""
    found = []
    for number, scene in enumerate(scenes):
        reference, loose = (read_facts(lanes[name][number].end.text) for name in ("ar", "lvspec"))
        for attribute, truth in scene.facts().items():
            if reference[attribute] != loose[attribute]:
                words = {"ar": reference[attribute], "lvspec": loose[attribute], "truth": truth}
                found.append({"clip": number, "attribute": attribute} | {name: list(said) for name, said in words.items()})
    return found


def _method(ran: list[Ran], scenes: list[Scene | None]) -> dict:
    row, lanes = {}, [each.end for each in ran]
    for figure in FIGURES:
        values = [getattr(lane, figure) for lane in lanes if getattr(lane, figure) is not None]
        row[figure] = _median(values)
        row[f"{figure}_quartiles"] = [round(float(q), 4) for q in np.quantile(values, [0.25, 0.75])] if values else None
    facts = facts_share([lane.text for lane in lanes], scenes)
    row["facts_right"] = None if facts is None else round(facts, 4)
    row["same_as_ar"] = round(sum(lane.same_as_ar is True for lane in lanes) / len(lanes), 4)
    row["near_ties"] = sum(lane.near_tie is True for lane in lanes)
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


def variants(pair: Pair, settings: RaceSettings, cases: Callable[[int], list[Case]], progress: Callable = lambda work: work) -> dict:
    """The ablation and the sweeps: one row per variant, AR raced beside each so that speedups are fair. ``cases``: the clips
    with a number of frames."""
    result = {"ablation": {}, "sweep": {name: {} for name in SWEEP}}
    jobs = [("ablation", name, change, ("ar", "lvspec")) for name, change in ABLATION.items()]
    for knob, values in SWEEP.items():
        methods = ("ar", "lvspec") if knob == "anchor_quantile" else settings.methods
        jobs += [(knob, str(value), {knob: value}, methods) for value in values]
    for group, label, change, methods in progress(jobs):
        changed = replace(settings, methods=methods, **change)
        lanes, given = {name: [] for name in methods}, cases(changed.frames)
        for case in given:
            for name, ran in run_case(pair, case.clip, changed).items():
                lanes[name].append(ran)
        rows = {name: _method(each, [case.scene for case in given]) for name, each in lanes.items()}
        if group == "ablation":
            result["ablation"][label] = rows["lvspec"]
        else:
            result["sweep"][group][label] = rows
    return result


def cases_of(pair: Pair, clips: str, frames: int, console: Console) -> tuple[list[Case], Case]:
    """The cases that ``--clips`` names, and the one to warm up with."""
    if not clips.isdecimal():
        cases = [Case(clip) for clip in clips_of(Path(clips), frames, console)]
        return cases, replace(cases[0])
    if not pair.info.bundled:
        raise PairError(f"{pair.info.name} does not know the shapes world; name a folder of videos to measure it on: --clips FOLDER.")
    if int(clips) < 1:
        raise SettingsError("Measure on at least one clip.")
    return world_cases(range(int(clips)), frames), *world_cases([WARM_UP_CLIP], frames)


def swept(pair: Pair, settings: RaceSettings, clips: int, console: Console) -> dict:
    """The ablation and the sweeps on this many held-out clips."""
    if not pair.info.bundled or clips < 1:
        raise SettingsError("The sweeps are made with a bundled pair, on at least one clip.")
    found = variants(
        pair, settings, lambda frames: world_cases(range(clips), frames), lambda work: track(list(work), "sweeps", console=console)
    )
    return {"clips": clips} | found


def report_folder(pair: str) -> Path:
    """Where a pair's result is kept."""
    folder = Path("assets/bench")
    return folder if pair == RaceSettings.pair else folder / pair


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m lvspec_core bench", description=__doc__)
    add_pair_options(parser)
    parser.add_argument("--clips", default=str(CLIPS), help="how many held-out clips of the shapes world, or a folder of videos")
    parser.add_argument("--frames", type=int, default=RaceSettings.frames, help="frames sampled from every video of a folder")
    parser.add_argument(
        "--sweep", action="store_true", help="also the ablation and the sweeps over draft length, pruning, threshold, frames"
    )
    parser.add_argument("--sweep-clips", type=int, default=8)
    parser.add_argument("--json", action="store_true", help="one object on stdout, nothing written elsewhere")
    parser.add_argument(
        "--out", type=Path, help="where the result and its plots are written (default: assets/bench; a further pair has a folder there)"
    )
    parser.add_argument("--docs", type=Path, help="folder whose README.md and METHODS.md get their tables from this result")
    options = parser.parse_args(arguments)
    info = chosen_pair(options)
    settings = RaceSettings(pair=info.name, methods=METHODS, frames=options.frames).validated()
    pair = load_pair(info, settings)
    if pair.info.bundled:
        torch.set_num_threads(1)
    console = Console(stderr=True)
    cases, warm_up = cases_of(pair, options.clips, settings.frames, console)
    result = measure(pair, settings, cases, warm_up, lambda work: track(list(work), "measuring", console=console))
    if options.sweep:
        result["variants"] = swept(pair, settings, options.sweep_clips, console)
    if options.json:
        json.dump(result, sys.stdout, indent=1)
        print()
        return 0
    print_result(result, Console())
    written = write_report(result, options.out or report_folder(pair.info.name))
    if options.docs and pair.info.bundled:
        written += fill_documents(result, options.docs)
    console.print("written: " + ", ".join(path.name for path in written))
    return 0
