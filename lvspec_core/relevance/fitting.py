"""From readings whose truth is known to a calibration: every scorer measured, the best one that can run in the loop taken."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from lvspec_core.relevance.calibration import LIVE, Calibration
from lvspec_core.relevance.measures import auc, precision_at_recall
from lvspec_core.relevance.probe import Probe, choose_probe
from lvspec_core.relevance.reading import Reading
from lvspec_core.relevance.scorers import SCORERS

MEASURED = tuple(name for name in SCORERS if name not in LIVE)  # scorers that cannot run in the loop

FITTED_ON = 0.6  # share of the clips that the probe is fitted on; all figures and the line come from the others
RECALL = 0.95  # the share of visual words that must become anchors
SEPARATES = 0.7  # a scorer whose AUC is lower does not separate, and LVSpec would rather verify strictly
LEAST_WORDS = 20  # visual words, and others, that figures need to mean anything


@dataclass(frozen=True)
class Sample:
    """Positions of several texts. ``visual``: [n] bool, the truth; ``clip``: [n] which clip its text is about; ``hidden``:
    [n, width] the draft's final hidden states; ``scores``: (scorer, variant) -> [n]."""

    visual: np.ndarray
    clip: np.ndarray
    hidden: torch.Tensor
    scores: dict[tuple[str, str], np.ndarray]

    def held_out(self) -> np.ndarray:
        """[n] bool: positions of the clips that nothing is fitted on; of a single clip all, for no probe can be fitted beside it."""
        clips = np.unique(self.clip)
        if len(clips) == 1:
            return np.ones(len(self.clip), dtype=bool)
        return ~np.isin(self.clip, clips[: max(1, int(FITTED_ON * len(clips)))])


def gather(readings: Iterable[tuple[Reading, np.ndarray]], names: Iterable[str] = tuple(SCORERS), one_clip: bool = False) -> Sample:
    """Scores of these scorers (a probe has none before it is fitted) for texts with their truth, [n] bool each. ``one_clip``: all are
    about the same clip; else each is about one of its own."""
    names, visual, clip, hidden, scores = [name for name in names if name in SCORERS], [], [], [], defaultdict(list)
    for number, (reading, truth) in enumerate(readings):
        visual.append(truth)
        clip.append(np.full(len(truth), 0 if one_clip else number))
        hidden.append(reading.draft.hidden.float().cpu())
        for name in names:
            for variant, found in SCORERS[name](reading).items():
                scores[name, variant].append(found.float().cpu().numpy())
    return Sample(
        np.concatenate(visual), np.concatenate(clip), torch.cat(hidden), {key: np.concatenate(parts) for key, parts in scores.items()}
    )


def fit(sample: Sample, recall: float = RECALL) -> tuple[Calibration | None, list[dict]]:
    """The calibration of the live scorer with the best AUC, None if none separates; and one row of figures per live variant.

    Figures, and the line between anchors and fillers, are taken on clips that the probe was not fitted on. Where there is one clip only
    there is no probe: it would learn that clip's words, and another text about the clip could not tell.
    """
    judged = sample.held_out()
    visual, fitted = sample.visual[judged], sample.visual[~judged]
    for part in (visual, fitted) if len(fitted) else (visual,):
        if min(part.sum(), (~part).sum()) < LEAST_WORDS:
            return None, []
    found: list[tuple[dict, Calibration]] = []
    for (name, variant), scores in sample.scores.items():
        if name == "draft_attention":
            layer, head = _place(variant)
            made = Calibration.fit(scores[judged], visual, layer, recall, head=head)
            found.append((_row(name, variant, scores[judged], visual), made))
    if len(fitted):
        weights = choose_probe(sample.hidden[~judged], torch.from_numpy(fitted), sample.clip[~judged])
        scores = Probe.scores(sample.hidden[judged], weights).numpy()
        made = Calibration.fit(scores, visual, None, recall, scorer="draft_probe", weights=weights.tolist())
        found.append((_row("draft_probe", "", scores, visual), made))
    best, calibration = max(found, key=lambda pair: pair[0]["auc"])
    best["chosen"] = best["auc"] >= SEPARATES
    return (calibration if best["chosen"] else None), [row for row, _ in found]


def compare(sample: Sample) -> list[dict]:
    """One row of figures per scorer variant that cannot run in the loop; nothing of them is fitted, so every clip counts."""
    if min(sample.visual.sum(), (~sample.visual).sum()) < LEAST_WORDS:
        return []
    return [_row(name, variant, scores, sample.visual) for (name, variant), scores in sample.scores.items() if name in MEASURED]


def _row(scorer: str, variant: str, scores: np.ndarray, visual: np.ndarray) -> dict:
    return {
        "scorer": scorer,
        "variant": variant,
        "auc": round(auc(scores, visual), 4),
        "precision_at_recall_90": round(precision_at_recall(scores, visual, 0.9), 4),
        "words": len(visual),
        "chosen": False,
    }


def _place(variant: str) -> tuple[int, int | None]:
    """Layer and head of a variant of ``draft_attention``."""
    numbers = [int(part.split()[1]) for part in variant.split(", ")]
    return numbers[0], numbers[1] if len(numbers) > 1 else None
