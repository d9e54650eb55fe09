"""How much a token depends on the video: a score in [0, 1] of the position that predicts it, and the line above which it is an anchor."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch

from lvspec_core.errors import PairError
from lvspec_core.families.base import Prompt, VideoLM
from lvspec_core.families.stream import Stream

SCORERS = ("draft_attention",)


@dataclass(frozen=True)
class Calibration:
    """A pair's calibrated scorer, from its ``pair.json``.

    ``draft_attention``: the share of the attention of a draft layer's query that goes to video tokens, mean over heads
    [ours]. ``layer``: which layer, negative from the end. ``threshold``: scores from it on are anchors. ``quantiles``: 101
    scores, the 0 % to the 100 % quantile over calibration captions, so that a share of fillers can be asked for instead.
    """

    scorer: str
    layer: int
    threshold: float
    quantiles: tuple[float, ...]

    @classmethod
    def read(cls, path: Path) -> Calibration | None:
        """The calibration in a pair's file; None if there is no file or no entry; PairError if it makes no sense."""
        if not path.is_file():
            return None
        try:
            entry = json.loads(path.read_text(encoding="utf-8")).get("relevance")
            if entry is None:
                return None
            made = cls(str(entry["scorer"]), int(entry["layer"]), float(entry["threshold"]), tuple(map(float, entry["quantiles"])))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise PairError(f"The calibration in {path.name} cannot be read ({error}); calibrate the pair again.") from error
        if made.scorer not in SCORERS:
            raise PairError(f"The calibration in {path.name} names an unknown scorer {made.scorer!r}; calibrate the pair again.")
        if len(made.quantiles) != 101 or list(made.quantiles) != sorted(made.quantiles):
            raise PairError(f"The calibration in {path.name} must hold 101 rising quantiles; calibrate the pair again.")
        return made

    @classmethod
    def fit(cls, scores: list[float], visual: list[bool], layer: int = -1, recall: float = 0.95) -> Calibration:
        """From scored positions whose truth is known: the line that makes anchors of the share ``recall`` of the visual ones."""
        every = torch.tensor(scores, dtype=torch.float64)
        seen = every[torch.tensor(visual)]
        quantiles = every.quantile(torch.linspace(0, 1, 101, dtype=torch.float64))
        return cls("draft_attention", layer, float(seen.quantile(1 - recall)), tuple(quantiles.tolist()))

    def save(self, path: Path) -> None:
        """Writes the entry into a pair's file, whatever else stands there."""
        content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        content["relevance"] = {**self.to_dict(), "quantiles": list(self.quantiles)}
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

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

    def watch(self, stream: Stream) -> AttentionShare:
        """A fresh watch for one of the draft's streams."""
        return AttentionShare(self.layer % len(stream.model.layers), stream.video)

    def to_dict(self) -> dict:
        return {"scorer": self.scorer, "layer": self.layer, "threshold": self.threshold}


class AttentionShare:
    """A watch: the share of each watched query's attention that goes to the video tokens, mean over heads, of one layer."""

    def __init__(self, layer: int, video: slice):
        self.layer = layer
        self.video = video
        self.shares: list[torch.Tensor] = []  # one [n] per call

    def wants(self, layer: int) -> bool:
        return layer == self.layer

    def see(self, layer: int, weights: torch.Tensor) -> None:
        self.shares.append(weights[..., self.video].sum(-1).mean(dim=(0, 1)))

    def take(self) -> list[torch.Tensor]:
        """What was seen since the last time."""
        shares, self.shares = self.shares, []
        return shares


class Annotator:
    """Scores the tokens of a finished text on a draft stream of its own, off every lane's clock.

    The stream stands before the last prompt token, as a lane's does; ``last`` is that token, [1].
    """

    def __init__(self, calibration: Calibration, stream: Stream, last: torch.Tensor):
        self.stream = stream
        self.watch = calibration.watch(stream)
        self.unread = last

    @torch.inference_mode()
    def score(self, ids: list[int]) -> list[float]:
        """The scores of the positions where these tokens, the next of the text, stand."""
        new = torch.tensor(ids, device=self.unread.device)
        self.stream.append(torch.cat([self.unread, new[:-1]]), self.watch)
        self.unread = new[-1:]
        return self.watch.take()[0].tolist()


@torch.inference_mode()
def teacher_forced_scores(
    draft: VideoLM,
    calibration: Calibration,
    prompt: Prompt,
    token_ids: list[int],
    keep: list[int] | None,
    features: torch.Tensor | None = None,
) -> list[float]:
    """The score of every position of a given text, as the decoding loop would see it.

    ``keep``: the video tokens that the draft sees (all if None); ``features``: of this prompt, computed here if None.
    """
    features = draft.video_features(prompt) if features is None else features
    stream = draft.prefill(prompt, features, len(prompt.tail) + len(token_ids), keep)
    tail = prompt.tail.to(draft.device)
    if len(tail) > 1:
        stream.append(tail[:-1])
    return Annotator(calibration, stream, tail[-1:]).score(list(token_ids))
