"""All scorers behind one signature: a reading of a text in, variants by name out, [n] scores each, higher = more visual.

Most of them are here to be measured against each other. In the loop run those that cost next to nothing there (LIVE).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.functional import normalize

from lvspec_core.relevance.reading import Reading, Seen

TOP_VIDEO = 8  # similarity: a token is compared with the video positions that are most like it
HEADS_OF = 4  # drafts of at most this many layers have every head measured on its own
OTHER = "other clip"  # the variant of `contrast` that calibration goes by
Variants = dict[str, torch.Tensor]


def similarity(reading: Reading) -> Variants:
    """Cosine similarity of a token's output embedding, or of the target's hidden state at its position, to the target's hidden
    states at the video positions, mean over the most similar ones [ours]."""
    video = normalize(reading.video.float(), dim=-1)
    rows = reading.models["target"].head.weight[reading.token_ids].float()
    return {"token": _top_mean(rows, video), "position": _top_mean(reading.target.hidden.float(), video)}


def lens(reading: Reading) -> Variants:
    """How strongly some video position predicts the token through the target's own head [ours]."""
    head = reading.models["target"].head
    with torch.inference_mode():
        best = torch.stack([head(part).float().softmax(-1).amax(0) for part in reading.video.split(256)]).amax(0)  # [vocabulary]
    return {"": best[reading.token_ids]}


def attention(reading: Reading) -> Variants:
    """The video's share of the target's attention, mean over the heads of each layer."""
    return {f"layer {index}": shares.mean(0) for index, shares in enumerate(reading.target.shares)}


def draft_attention(reading: Reading) -> Variants:
    """The same of the draft; every head on its own where the draft is shallow."""
    shares = reading.draft.shares
    found = {f"layer {index}": layer.mean(0) for index, layer in enumerate(shares)}
    if len(shares) <= HEADS_OF:
        found |= {f"layer {index}, head {head}": share for index, layer in enumerate(shares) for head, share in enumerate(layer)}
    return found


def contrast(reading: Reading) -> Variants:
    """How far the target's next-token distribution moves when the video is taken away, or another clip's is put in its place (the
    most that any of several moves it) [ours]. The reference where there is no truth; it costs whole forward passes.

    A model that never was without a video says nothing sensible without one: there "other clip" is the better reference.
    """
    return _contrast(reading, "target", reading.target)


def draft_contrast(reading: Reading) -> Variants:
    """The same of the draft."""
    return _contrast(reading, "draft", reading.draft)


def _contrast(reading: Reading, role: str, seen: Seen) -> Variants:
    found = {"no video": divergence(seen, reading.without(role))}
    misled = [divergence(seen, other) for other in reading.misled(role)]
    return found | ({OTHER: torch.stack(misled).amax(0)} if misled else {})


SCORERS: dict[str, Callable[[Reading], Variants]] = {
    "similarity": similarity,
    "lens": lens,
    "attention": attention,
    "draft_attention": draft_attention,
    "contrast": contrast,
    "draft_contrast": draft_contrast,
}


def divergence(one: Seen, other: Seen) -> torch.Tensor:
    """[n] Jensen–Shannon divergence of two models' next-token distributions, in bits: 0 the same, 1 nothing in common."""
    first, second = one.logits.float().softmax(-1), other.logits.float().softmax(-1)
    middle = (first + second) / 2
    return ((_entropy(middle) - (_entropy(first) + _entropy(second)) / 2) / torch.log(torch.tensor(2.0))).clamp(0, 1)


def _entropy(spread: torch.Tensor) -> torch.Tensor:
    return -torch.special.xlogy(spread, spread).sum(-1)


def _top_mean(rows: torch.Tensor, video: torch.Tensor) -> torch.Tensor:
    found = normalize(rows, dim=-1) @ video.T  # [n, video tokens]
    return found.topk(min(TOP_VIDEO, found.shape[-1]), dim=-1).values.mean(-1)
