"""Scores from a draft while it drafts, and the same scores of a finished text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch

from lvspec_core.families.attention import Watch
from lvspec_core.families.base import Prompt, VideoLM
from lvspec_core.families.stream import Stream

if TYPE_CHECKING:
    from lvspec_core.relevance.calibration import Calibration


class LiveScorer(Watch, Protocol):
    """A watch on a draft's stream that turns what it saw into relevance, in [0, 1]."""

    def take(self) -> list[torch.Tensor]:
        """What was seen since the last time: for each pass [n], the relevance of the positions that its rows predict."""

    def last(self) -> torch.Tensor:
        """[1], the relevance of the position that the row read last predicts; nothing is taken."""


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
    return Annotator(calibration, stream, stream.read_tail(prompt)).score(list(token_ids))
