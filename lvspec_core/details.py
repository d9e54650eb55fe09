"""What draft and target thought at every position of a round, for the inspector. Off the lanes' clocks.

While a round runs, only references to tensors that exist anyway are kept; they become plain values here, after the clock has
stopped, once per batch of records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from lvspec_core.drafting import Proposal
from lvspec_core.record_checks import TOP
from lvspec_core.sampling import Sampling
from lvspec_core.trees import Tree

SPARE_ROWS = 8  # positions beside the accepted path that a record describes: more would not stay under 4 KB a token

Top = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Seen:
    """What a round leaves behind. ``logits``: the target's, [n + 1, vocabulary]. ``order``: the proposal's nodes, those that
    were accepted first. ``why``: see :class:`lvspec_core.records.Round`."""

    tree: Tree
    proposal: Proposal
    logits: torch.Tensor
    draft: Sequence[int]
    order: Sequence[int]
    accepted: int
    why: str = ""


@torch.inference_mode()
def round_details(seen: Seen, sampling: Sampling | None, spell: Callable[[int], str]) -> dict:
    """The fields of a round's record that details fill. ``sampling``: how the lane samples, None: it is greedy."""
    rows = [0, *(node + 1 for node in seen.order)][: seen.accepted + 1 + SPARE_ROWS]
    target = _spread(seen.logits, sampling)
    drafted, sources = _draft_spread(seen, sampling)
    # the row of the draft from which what follows a row was taken; the children of a row share it
    after = {row: sources[below[0]] for row, below in enumerate(seen.tree.children) if below} if sources else {}
    tops = _tops(drafted, spell) if drafted is not None else []
    return {
        "target_top": tuple(_tops(target[rows], spell)),
        "draft_top": tuple(tops[after[row]] if row in after else () for row in rows),
        "chances": _chances(seen, target, drafted, sources),
        "why": seen.why,
    }


def _spread(logits: torch.Tensor, sampling: Sampling | None) -> torch.Tensor:
    return logits.float().softmax(-1) if sampling is None else sampling.probabilities(logits)


def _draft_spread(seen: Seen, sampling: Sampling | None) -> tuple[torch.Tensor | None, list[int]]:
    """The draft's distributions, [rows read, vocabulary], and for each node the row that it was taken from."""
    source = seen.proposal.source
    if source is None or not len(seen.proposal):
        return None, []
    drawn = sampling if seen.proposal.guesses is not None else None
    rows = source.rows.tolist() if isinstance(source.rows, torch.Tensor) else list(source.rows)
    return _spread(torch.cat(source.parts), drawn), rows


def _tops(spread: torch.Tensor, spell: Callable[[int], str]) -> list[Top]:
    """The best choices of each row; impossible ones are left out."""
    best = spread.topk(min(TOP, spread.shape[-1]))
    rows = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [tuple((spell(token), round(min(1.0, chance), 4)) for token, chance in zip(*row, strict=True) if chance > 0) for row in rows]


def _chances(seen: Seen, target: torch.Tensor, drafted: torch.Tensor | None, sources: list[int]) -> tuple[tuple[float, float], ...]:
    """For each draft token, in the record's order, what (draft, target) gave it."""
    if drafted is None:
        return ()
    ids = torch.tensor(seen.draft, device=target.device)
    parents = torch.tensor(seen.tree.parents, device=target.device) + 1
    theirs = target[parents, ids].tolist()
    own = drafted[torch.tensor(sources, device=drafted.device), ids].tolist()
    return tuple((round(min(1.0, own[node]), 4), round(min(1.0, theirs[node]), 4)) for node in seen.order)
