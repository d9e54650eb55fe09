"""``python -m lvspec_core calibrate``: find the line between anchors and fillers for a pair, against the world's own truth."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from lvspec_core.errors import PairError
from lvspec_core.pairs import Pair, load_pair
from lvspec_core.pruning import keep_count, uniform_keep
from lvspec_core.relevance import Calibration, teacher_forced_scores
from lvspec_core.settings import DEFAULT_QUESTION, RaceSettings
from lvspec_core.shapes.captions import write_caption
from lvspec_core.shapes.clips import CALIBRATION_SEED, world_clip

CLIPS = 100
RECALL = 0.95  # the share of visual words that must become anchors
SEPARATES = 0.7  # a scorer whose AUC is lower does not separate, and LVSpec would rather verify strictly


def auc(scores: np.ndarray, visual: np.ndarray) -> float:
    """Chance that a visual position scores higher than another one (area under the ROC curve); ties count half."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2  # mean rank of each distinct score
    positive = int(visual.sum())
    return float((ranks[inverse][visual].sum() - positive * (positive + 1) / 2) / (positive * (len(visual) - positive)))


def precision_at_recall(scores: np.ndarray, visual: np.ndarray, recall: float) -> float:
    """Share of visual positions among those marked, at the line that marks at least ``recall`` of the visual ones."""
    line = np.sort(scores[visual])[::-1][int(np.ceil(recall * visual.sum())) - 1]
    return float(visual[scores >= line].mean())


def collect(pair: Pair, layer: int, clips: int, pruning_ratio: float, seed: int = CALIBRATION_SEED) -> tuple[np.ndarray, np.ndarray]:
    """Scores and truth of every word of one caption per clip, the draft seeing what LVSpec's draft sees."""
    probe = Calibration("draft_attention", layer, 0.0, tuple(np.linspace(0, 1, 101).tolist()))
    ids = {word.removeprefix("▁"): index for word, index in pair.draft.tokenizer.get_vocab().items()}
    scores, visual = [], []
    for number in range(clips):
        scene, clip = world_clip(number, seed=seed)
        words = write_caption(scene, np.random.default_rng((seed, number, 1)))
        prompt = pair.draft.encode(clip, DEFAULT_QUESTION)
        keep = uniform_keep(prompt.grid, keep_count(prompt.video_tokens, pruning_ratio))
        scores += teacher_forced_scores(pair.draft, probe, prompt, [ids[word.text] for word in words], keep)
        visual += [word.visual for word in words]
    return np.array(scores), np.array(visual)


def calibrate(pair: Pair, clips: int = CLIPS, pruning_ratio: float = RaceSettings.pruning_ratio) -> tuple[Calibration | None, list[dict]]:
    """The best layer's calibration, None if no layer separates; and one row of figures per layer."""
    rows, found = [], {}
    for layer in range(len(pair.draft.layers)):
        scores, visual = collect(pair, layer, clips, pruning_ratio)
        found[layer] = (scores, visual)
        figures = {"auc": auc(scores, visual), "precision_at_recall_90": precision_at_recall(scores, visual, 0.9)}
        rows.append({"scorer": "draft_attention", "layer": layer, **figures, "words": len(scores), "visual": float(visual.mean())})
    best = max(rows, key=lambda row: row["auc"])
    if best["auc"] < SEPARATES:
        return None, rows
    scores, visual = found[best["layer"]]
    return Calibration.fit(scores.tolist(), visual.tolist(), layer=best["layer"], recall=RECALL), rows


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m lvspec_core calibrate", description=__doc__)
    parser.add_argument("--pair", default=RaceSettings.pair)
    parser.add_argument("--clips", type=int, default=CLIPS, help="clips of the shapes world to measure on")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    pair = load_pair(options.pair)
    if not pair.info.bundled:
        raise PairError(f"{pair.info.name} has no ground truth to calibrate against; only a bundled pair can be calibrated today.")
    calibration, rows = calibrate(pair, options.clips)
    _print(rows, calibration)
    if calibration is None:
        raise PairError(f"No scorer separates visual words for {pair.info.name}; nothing was written, and LVSpec verifies strictly.")
    calibration.save(pair.info.calibration)
    _add_measures(pair.info.calibration, rows, calibration)
    return 0


def _add_measures(path: Path, rows: list[dict], calibration: Calibration) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    content["measured"] = {"recall": RECALL, "pruning_ratio": RaceSettings.pruning_ratio, "clips_seed": CALIBRATION_SEED, "layers": rows}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _print(rows: list[dict], calibration: Calibration | None) -> None:
    table = Table("scorer", "layer", "AUC", "precision at recall 0.9", "words", "visual")
    for row in rows:
        chosen = " *" if calibration and row["layer"] == calibration.layer else ""
        table.add_row(
            row["scorer"],
            f"{row['layer']}{chosen}",
            f"{row['auc']:.3f}",
            f"{row['precision_at_recall_90']:.3f}",
            f"{row['words']:,}",
            f"{row['visual']:.1%}",
        )
    Console().print(table)
    if calibration:
        Console().print(f"threshold {calibration.threshold:.4f}: {RECALL:.0%} of the visual words become anchors")
