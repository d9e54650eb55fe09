"""A pair's calibrated scorer: what it is, the line from which a position is an anchor, and the file that holds both."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from lvspec_core.errors import PairError
from lvspec_core.families.stream import Stream
from lvspec_core.pair_file import add_entries
from lvspec_core.relevance.attention import AttentionShare
from lvspec_core.relevance.live import LiveScorer
from lvspec_core.relevance.probe import Probe

LIVE = ("draft_attention", "draft_probe")  # the scorers that cost next to nothing while a draft drafts


@dataclass(frozen=True)
class Calibration:
    """A pair's calibrated scorer, from its ``pair.json``.

    ``draft_attention``: the share of the attention of a draft layer's query that goes to video tokens [ours]; ``layer``:
    which layer, negative from the end; ``head``: which head, None: the mean over heads. ``draft_probe``: a logistic
    regression on the draft's final hidden state [ours]; ``weights``: one per feature, the bias last; ``layer`` is None.
    ``threshold``: scores from it on are anchors. ``quantiles``: 101 scores, the 0 % to the 100 % quantile over calibration
    captions, so that a share of fillers can be asked for instead.
    """

    scorer: str
    layer: int | None
    threshold: float
    quantiles: tuple[float, ...]
    head: int | None = None
    weights: tuple[float, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Calibration | None:
        """The calibration in a pair's file; None if there is no file or no entry; PairError if it makes no sense."""
        if not path.is_file():
            return None
        try:
            entry = json.loads(path.read_text(encoding="utf-8")).get("relevance")
            if entry is None:
                return None
            made = cls(
                str(entry["scorer"]),
                _whole(entry.get("layer")),
                float(entry["threshold"]),
                tuple(map(float, entry["quantiles"])),
                _whole(entry.get("head")),
                tuple(map(float, entry.get("weights", ()))),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise PairError(f"The calibration in {path.name} cannot be read ({error}); calibrate the pair again.") from error
        fault = made.fault()
        if fault:
            raise PairError(f"The calibration in {path.name} {fault}; calibrate the pair again.")
        return made

    def fault(self) -> str | None:
        """What makes no sense about it, None if all does."""
        if self.scorer not in LIVE:
            return f"names an unknown scorer {self.scorer!r}"
        if len(self.quantiles) != 101 or list(self.quantiles) != sorted(self.quantiles):
            return "must hold 101 rising quantiles"
        if self.scorer == "draft_attention" and self.layer is None:
            return "names no layer"
        if self.scorer == "draft_probe" and not (self.weights and all(map(math.isfinite, self.weights))):
            return "holds no weights for its probe"
        return None

    def fits(self, hidden: int, layers: int) -> bool:
        """Whether it was made for a draft of this width and depth."""
        if self.scorer == "draft_probe":
            return len(self.weights) == hidden + 1
        return -layers <= self.layer < layers

    @classmethod
    def fit(
        cls,
        scores: Sequence[float],
        visual: Sequence[bool],
        layer: int | None = -1,
        recall: float = 0.95,
        scorer: str = "draft_attention",
        head: int | None = None,
        weights: Sequence[float] = (),
    ) -> Calibration:
        """From scored positions whose truth is known: the line that makes anchors of the share ``recall`` of the visual ones."""
        every = torch.as_tensor(scores, dtype=torch.float64)
        seen = every[torch.as_tensor(visual)]
        quantiles = every.quantile(torch.linspace(0, 1, 101, dtype=torch.float64)).tolist()
        line = float(seen.quantile(1 - recall))
        return cls(scorer, layer, line, tuple(round(value, 6) for value in quantiles), head, tuple(map(float, weights)))

    def save(self, path: Path, measured: dict | None = None) -> None:
        """Writes the entry into a pair's file, whatever else stands there, and on what it was ``measured``. May raise OSError."""
        entry = {**self.to_dict(), "quantiles": list(self.quantiles)}
        if self.weights:
            entry["weights"] = list(self.weights)
        add_entries(path, {"relevance": entry} | ({"measured": measured} if measured else {}))

    def threshold_for(self, quantile: float | None) -> float:
        """The score from which a position is an anchor; ``quantile``: share of positions that shall be fillers, None: calibrated."""
        if quantile is None:
            return self.threshold
        if quantile >= 1:
            return math.inf
        if quantile <= 0:
            return 0.0
        place = quantile * 100
        low = int(place)
        return self.quantiles[low] + (self.quantiles[min(100, low + 1)] - self.quantiles[low]) * (place - low)

    def watch(self, stream: Stream) -> LiveScorer:
        """A fresh watch for one of the draft's streams."""
        if self.scorer == "draft_probe":
            return Probe(torch.tensor(self.weights, device=stream.model.device))
        return AttentionShare(self.layer % len(stream.model.layers), stream.video, self.head)

    def to_dict(self) -> dict:
        """The scorer and its line, as a race file tells them."""
        where = {"layer": self.layer, "head": self.head}
        return {"scorer": self.scorer, **{name: value for name, value in where.items() if value is not None}, "threshold": self.threshold}


def _whole(value: object) -> int | None:
    return None if value is None else int(value)
