"""A linear probe of the draft's final hidden state [ours]: trained by calibration, the models stay untouched.

The draft must know whether the next word depends on the video in order to predict it, and a logistic regression reads it off:
one dot product per position. Its score is a probability, so a line of 0.5 means what it says.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from lvspec_core.families.attention import Watch
from lvspec_core.relevance.measures import auc

STEPS = 200
PENALTIES = (1e-1, 1e-2, 1e-3, 1e-4)  # on the squared weights of standardised features; few clips need a strong one


class Probe(Watch):
    """A watch: relevance = sigmoid(weights · hidden state + bias). ``weights``: [hidden + 1], the bias last, float32."""

    def __init__(self, weights: torch.Tensor):
        self.weights, self.bias = weights[:-1], weights[-1]
        self.rows: list[torch.Tensor] = []  # one [n, hidden] per call

    def end(self, hidden: torch.Tensor) -> None:
        self.rows.append(hidden[0])

    def take(self) -> list[torch.Tensor]:
        if not self.rows:
            return []
        rows, self.rows = self.rows, []
        return list(self._read(torch.cat(rows)).split([len(part) for part in rows]))

    def last(self) -> torch.Tensor:
        return self._read(self.rows[-1][-1:])

    def _read(self, hidden: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(torch.mv(hidden.float(), self.weights) + self.bias)

    @classmethod
    def scores(cls, hidden: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """[n] relevance of hidden states [n, width]."""
        return cls(weights)._read(hidden)


def choose_probe(hidden: torch.Tensor, visual: torch.Tensor, clip: np.ndarray) -> torch.Tensor:
    """:func:`fit_probe` with the penalty that does best on clips left out of the fit. ``clip``: [n] which clip a row is from."""
    clips = np.unique(clip)
    left_out = np.isin(clip, clips[::3])
    truth = visual[left_out].numpy()
    if len(clips) < 3 or truth.all() or not truth.any():
        return fit_probe(hidden, visual, PENALTIES[0])

    def quality(penalty: float) -> float:
        weights = fit_probe(hidden[~left_out], visual[~left_out], penalty)
        return auc(Probe.scores(hidden[left_out], weights).numpy(), truth)

    return fit_probe(hidden, visual, max(PENALTIES, key=quality))


def fit_probe(hidden: torch.Tensor, visual: torch.Tensor, penalty: float) -> torch.Tensor:
    """Weights of a :class:`Probe`, [features + 1], from hidden states [n, features] and their truth [n], bool or in [0, 1].

    Logistic regression by L-BFGS on standardised features, with the squared weights penalised; deterministic.
    """
    features, truth = hidden.to(torch.float64, copy=True), visual.to(torch.float64, copy=True)
    mean, spread = features.mean(0), features.std(0, unbiased=False).clamp_min(1e-6)
    features = (features - mean) / spread
    weights = torch.zeros(features.shape[1] + 1, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([weights], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        value = binary_cross_entropy_with_logits(features @ weights[:-1] + weights[-1], truth) + penalty * weights[:-1].square().sum()
        value.backward()
        return value

    optimiser.step(loss)
    found = weights.detach()[:-1] / spread
    return torch.cat([found, (weights.detach()[-1] - found @ mean)[None]]).float()
