"""How well scores separate visual positions from others."""

from __future__ import annotations

import numpy as np


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
