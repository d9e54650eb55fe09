"""What a text keeps of AR's, where no ground truth is known: anchors, distance in tokens, and what the target itself thinks of it.

METHOD's claim is that LVSpec states what AR states. For the bundled pair the world's facts decide; for any other pair these three
figures do, each of which sees something else: anchors can be kept in a text that reads badly, and a likely text can say something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
from rapidfuzz.distance import LCSseq, Levenshtein

from lvspec_core.families.stream import Stream
from lvspec_core.records import Token

ROWS = 32  # text positions read in one pass of the target


@dataclass(frozen=True)
class Fidelity:
    """``anchors_kept``: share of AR's anchors that the text states too, in their order; None where nothing was scored.
    ``edit_distance``: tokens to change, insert or delete ÷ tokens of the longer text, 0 to 1. ``log_likelihood``: the target's, in nats
    per token of the text; ``log_likelihood_ar``: of AR's text, greedily chosen, so that it is hard to beat; None where the target did
    not read them."""

    anchors_kept: float | None
    edit_distance: float
    log_likelihood: float | None
    log_likelihood_ar: float | None


def anchors_kept(ar: Sequence[Token], text: Sequence[Token]) -> float | None:
    """Share of AR's anchors that stand in the other text in the same order, whatever stands between; None if AR has none."""
    anchors = [token.id for token in ar if token.anchor]
    return LCSseq.similarity(anchors, [token.id for token in text]) / len(anchors) if anchors else None


def edit_distance(ar: Sequence[int], text: Sequence[int]) -> float:
    """Levenshtein distance of two token sequences ÷ the longer one's length."""
    return Levenshtein.normalized_distance(ar, text)


@torch.inference_mode()
def log_likelihood(stream: Stream, last: torch.Tensor, ids: Sequence[int]) -> float:
    """The mean log-probability, in nats, that a model gives each token of a text. ``stream`` stands before the last prompt token
    ``last``, [1], and is read on; the text's rows must fit into it."""
    said = torch.tensor(ids, device=last.device)
    total = 0.0
    for states, wanted in zip(stream.read_text(last, ids, ROWS), said.split(ROWS), strict=True):
        spread = stream.model.head(states).float().log_softmax(-1)
        total += float(spread.gather(1, wanted[:, None]).sum())
    return total / len(ids)


def fidelity(target: Stream, last: torch.Tensor, ar: Sequence[Token], text: Sequence[Token]) -> Fidelity:
    """``target``: the target's stream before the last prompt token ``last``; it is left as it is. Neither text may be empty."""
    mine, theirs = [token.id for token in text], [token.id for token in ar]
    reference = log_likelihood(target.fork(), last, theirs)
    own = reference if mine == theirs else log_likelihood(target.fork(), last, mine)
    return Fidelity(anchors_kept(ar, text), edit_distance(theirs, mine), own, reference)


def medians(measured: Iterable[Fidelity]) -> dict[str, float | None]:
    """The median of each figure over clips."""
    rows = [asdict(each) for each in measured]
    known = {name: [row[name] for row in rows if row[name] is not None] for name in Fidelity.__dataclass_fields__}
    return {name: round(float(np.median(values)), 4) if values else None for name, values in known.items()}
