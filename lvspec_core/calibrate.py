"""``python -m lvspec_core calibrate``: which scorer finds a pair's visual words, and from which score on they are anchors.

The bundled pair is judged by its world's own truth. Any other pair is judged by `contrast` on captions that its own target
writes for the clips of a folder (see :mod:`lvspec_core.own_texts`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from lvspec_core.errors import PairError, VideoError
from lvspec_core.own_texts import OTHERS, TRUTH, Labelled, calibrate_on, keep, reading_of
from lvspec_core.pair_options import add_pair_options, chosen_pair
from lvspec_core.pairs import Pair, load_pair
from lvspec_core.pruning import keep_count, uniform_keep
from lvspec_core.relevance import LIVE, Calibration, teacher_forced_scores
from lvspec_core.relevance.fitting import MEASURED, RECALL, compare, fit, gather
from lvspec_core.settings import DEFAULT_QUESTION, RaceSettings
from lvspec_core.shapes.captions import Word
from lvspec_core.shapes.clips import CALIBRATION_SEED, captioned_clips, world_clip
from lvspec_core.shapes.words import word_ids
from lvspec_core.video import VideoClip, read_video

CLIPS = 240
COMPARED = 24  # clips on which the scorers that cost whole passes of the target are measured too


def truth_of(words: Sequence[Word]) -> np.ndarray:
    """[n] bool: which words of a caption are visual."""
    return np.array([word.visual for word in words])


def world_readings(pair: Pair, numbers: Iterable[int], pruning_ratio: float, compared: bool = False) -> Iterator[Labelled]:
    """Captions of the shapes world, read by the pair, with their truth; ``compared``: with other clips to compare with."""
    ids = word_ids(pair.draft.tokenizer)
    for number in numbers:
        ((_, clip, words),) = captioned_clips([number], CALIBRATION_SEED)
        others = [world_clip(number + further, seed=CALIBRATION_SEED)[1] for further in range(1, OTHERS + 1)] if compared else []
        yield reading_of(pair, clip, [ids[word.text] for word in words], pruning_ratio, others), truth_of(words)


def collect(
    pair: Pair, calibration: Calibration, clips: int, pruning_ratio: float, seed: int = CALIBRATION_SEED
) -> tuple[np.ndarray, np.ndarray]:
    """Scores and truth of every word of one caption per clip of the shapes world, as the loop would score them."""
    ids, scores, visual = word_ids(pair.draft.tokenizer), [], []
    for _, clip, words in captioned_clips(range(clips), seed):
        prompt = pair.draft.encode(clip, DEFAULT_QUESTION)
        kept = uniform_keep(prompt.grid, keep_count(prompt.video_tokens, pruning_ratio))
        scores += teacher_forced_scores(pair.draft, calibration, prompt, [ids[word.text] for word in words], kept)
        visual.append(truth_of(words))
    return np.array(scores), np.concatenate(visual)


def calibrate(
    pair: Pair,
    clips: int = CLIPS,
    pruning_ratio: float = RaceSettings.pruning_ratio,
    compared: int = COMPARED,
    progress: Callable[[Iterable], Iterable] = lambda work: work,
) -> tuple[Calibration | None, list[dict]]:
    """Against the shapes world's truth: the best live scorer's calibration, None if none separates; one row per scorer variant.

    ``compared``: on how many clips the scorers that cannot run in the loop are measured beside it; they take long.
    """
    calibration, rows = fit(gather(world_readings(pair, progress(range(clips)), pruning_ratio), LIVE))
    if compared:
        rows += compare(gather(world_readings(pair, progress(range(compared)), pruning_ratio, compared=True), MEASURED))
    return calibration, rows


def clips_of(folder: Path, frames: int, console: Console, least: int = 1) -> list[VideoClip]:
    """The videos of a folder; what cannot be read is told and left out. PairError if fewer than ``least`` can be."""
    if not folder.is_dir():
        raise PairError(f"{folder} is no folder; name one with a few videos like those you mean to race.")
    clips = []
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        try:
            clips.append(read_video(path, frames))
        except VideoError as error:
            console.print(f"left out: {error}", markup=False)
    if len(clips) < least:
        raise PairError(f"{folder} holds {len(clips)} readable videos; at least {least} are needed, better ten.")
    return clips


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m lvspec_core calibrate", description=__doc__)
    add_pair_options(parser)
    parser.add_argument("--clips", help=f"a folder of videos to calibrate on; bundled pair: how many clips of its world ({CLIPS})")
    parser.add_argument("--frames", type=int, default=RaceSettings.frames, help="frames sampled from every video of a folder")
    options = parser.parse_args(arguments)
    console = Console()
    count = int(options.clips) if options.clips and options.clips.isdecimal() else None
    info = chosen_pair(options)
    pair = load_pair(info, RaceSettings(pair=info.name, methods=("ar",), frames=options.frames).validated())
    if pair.info.bundled and (count or not options.clips):
        torch.set_num_threads(1)
        measured = {"truth": "the shapes world", "clips": count or CLIPS, "seed": CALIBRATION_SEED}
        calibration, rows = calibrate(pair, count or CLIPS, progress=lambda work: track(work, "reading captions", console=console))
    elif options.clips and count is None:
        clips = clips_of(Path(options.clips), options.frames, console, least=2)
        settings = RaceSettings(pair=info.name, frames=options.frames).validated()
        measured = {"truth": TRUTH, "clips": len(clips)}
        calibration, rows = calibrate_on(
            pair, clips, settings, progress=lambda work: track(work, "writing and reading captions", console=console)
        )
    else:
        raise PairError(f"{pair.info.name} has no ground truth; name a folder of videos to calibrate it on: --clips FOLDER.")
    print_table(rows, calibration, console)
    if calibration is None:
        raise PairError(f"No scorer separates visual words for {pair.info.name}; nothing was written, and LVSpec verifies strictly.")
    keep(pair, calibration, rows, measured)
    return 0


def print_table(rows: list[dict], calibration: Calibration | None, console: Console) -> None:
    table = Table("scorer", "variant", "AUC", "precision at recall 0.9")
    for row in best_variants(rows):
        mark = " *" if row["chosen"] else ""
        table.add_row(row["scorer"] + mark, row["variant"], f"{row['auc']:.3f}", f"{row['precision_at_recall_90']:.3f}")
    console.print(table)
    if calibration:
        console.print(f"threshold {calibration.threshold:.4f}: {RECALL:.0%} of the visual words become anchors")


def best_variants(rows: list[dict]) -> list[dict]:
    """Of every scorer the variant with the best AUC."""
    best = {}
    for row in sorted(rows, key=lambda row: row["auc"]):
        best[row["scorer"]] = row
    return sorted(best.values(), key=lambda row: -row["auc"])
