"""Where a lossless text leaves AR's: two tokens that are equally probable to the target but for rounding, or a fault.

A pass over several tokens rounds otherwise than a pass over one, and a near tie may then fall the other way [SpecVLM's README says so
of its own lanes]. What counts as rounding is ours.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from lvspec_core.families.stream import Stream
from lvspec_core.fidelity import ROWS
from lvspec_core.records import LaneEnd

# steps of the weights' precision, at the logits' size, by which two passes over the same text may differ
STEPS = 8

log = logging.getLogger(__name__)


@torch.inference_mode()
def logits_at(stream: Stream, last: torch.Tensor, text: Sequence[int], at: int) -> torch.Tensor:
    """[vocabulary] the logits from which the token of index ``at`` of a text is chosen. ``stream`` stands before the last prompt token
    ``last``, [1], and is read on."""
    *_, states = stream.read_text(last, text[: at + 1], ROWS)
    return stream.model.head(states[-1:])[0].float()


def is_near(gap: float, size: float, dtype: torch.dtype) -> bool:
    """Whether two logits of at most that size, ``gap`` apart, are the same but for rounding in ``dtype``."""
    return gap <= STEPS * torch.finfo(dtype).eps * abs(size)


def judged(end: LaneEnd, ar: Sequence[int], fork: Callable[[], Stream], last: torch.Tensor) -> LaneEnd:
    """The summary of a lossless lane that leaves the text ``ar``, with ``departure_gap`` and ``near_tie`` filled in. ``fork``: the
    target as it was before the last prompt token ``last``, [1]. A failure costs the figures, never the race."""
    at = end.first_difference
    if at is None or at >= min(len(ar), len(end.token_ids)):
        return end
    try:
        stream = fork()
        logits = logits_at(stream, last, ar, at)
    except Exception as error:
        log.error("Where %s leaves AR could not be looked into.", end.lane, exc_info=error)
        return end
    wanted, written = float(logits[ar[at]]), float(logits[end.token_ids[at]])
    gap = abs(wanted - written)
    return replace(end, departure_gap=gap, near_tie=is_near(gap, max(abs(wanted), abs(written)), stream.model.dtype))
