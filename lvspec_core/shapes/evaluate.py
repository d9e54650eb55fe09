"""How well a shapes model describes held-out scenes: facts stated right, per attribute."""

from __future__ import annotations

import numpy as np
import torch
from transformers import DynamicCache

from lvspec_core.pruning import keep_count, uniform_keep
from lvspec_core.shapes.batched import sequence, video_features
from lvspec_core.shapes.captions import score_facts
from lvspec_core.shapes.data import FRAMES, HELD_OUT_SEED, BatchMaker
from lvspec_core.shapes.scene import ATTRIBUTES

LONGEST = 176


@torch.inference_mode()
def greedy_captions(model, maker: BatchMaker, batch, keep: torch.Tensor | None = None) -> list[str]:
    """Greedy captions of a batch's clips, decoded together (one prompt, one length, so no padding is needed)."""
    features = video_features(model, batch.patches)
    size = len(features)
    embeddings, positions, _ = sequence(model, batch.prompt, features, torch.zeros(size, 0, dtype=torch.long), keep)
    language_model, cache = model.model.language_model, DynamicCache(config=model.config.text_config)
    written = torch.zeros(size, 0, dtype=torch.long)
    position = int(batch.prompt.position_ids.max()) + 1
    done = torch.zeros(size, dtype=torch.bool)
    while written.shape[1] < LONGEST and not done.all():
        hidden = language_model(
            inputs_embeds=embeddings, position_ids=maker.architecture.position_ids(positions), cache=cache, use_cache=True
        ).last_hidden_state
        token = model.lm_head(hidden[:, -1]).argmax(-1)
        done |= token == maker.end
        written = torch.cat([written, token[:, None]], dim=1)
        embeddings = language_model.embed_tokens(token[:, None])
        positions = torch.full((len(positions), size, 1), position)
        position += 1
    texts = []
    for row in written.tolist():
        row = row[: row.index(maker.end)] if maker.end in row else row
        texts.append(maker.processor.tokenizer.decode(row, skip_special_tokens=True))
    return texts


def facts_right(model, maker: BatchMaker, scenes: int = 500, seed: int = HELD_OUT_SEED, keep_ratio: float = 1.0, batch_size: int = 50):
    """Attribute -> share of facts right over held-out scenes, "all" over all facts.

    ``keep_ratio``: share of the video tokens that stay, pruned uniformly as for LVSpec's draft.
    """
    rng, batch_size = np.random.default_rng(seed), min(batch_size, scenes)
    right, total = dict.fromkeys(ATTRIBUTES, 0), dict.fromkeys(ATTRIBUTES, 0)
    for _ in range(scenes // batch_size):
        batch = maker.batch(batch_size, rng, question="Describe the video in detail.")
        keep = None
        if keep_ratio < 1:
            grid = maker.architecture.grid(FRAMES)
            tokens = batch.prompt.video.stop - batch.prompt.video.start
            keep = torch.tensor(uniform_keep(grid, keep_count(tokens, 1 - keep_ratio))).expand(batch_size, -1)
        for text, scene in zip(greedy_captions(model, maker, batch, keep), batch.scenes, strict=True):
            for attribute, (hits, facts) in score_facts(text, scene).items():
                right[attribute] += hits
                total[attribute] += facts
    shares = {attribute: right[attribute] / total[attribute] for attribute in ATTRIBUTES}
    return {**shares, "all": sum(right.values()) / sum(total.values())}
