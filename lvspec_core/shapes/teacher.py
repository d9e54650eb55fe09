"""A bundled model as another's teacher: its language layers to start from, and its video tokens to imitate.

The families' language models are of one make (Qwen2's layers); how they number positions and what their towers see differs. So a
second pair need not learn the language again, and its tower learns first to say what the first pair's tower says.
"""

from __future__ import annotations

import torch

from lvspec_core.registry import ASSETS
from lvspec_core.shapes.data import Batch, BatchMaker
from lvspec_core.shapes.models import ARCHITECTURES


def homes(few: int, many: int) -> list[int]:
    """Where ``few`` layers stand among ``many`` when they are spread evenly."""
    return [round((index + 0.5) * many / few - 0.5) for index in range(few)]


class Teacher:
    """The model of a bundled pair's role."""

    def __init__(self, pair: str, role: str):
        self.architecture = next(each for each in ARCHITECTURES.values() if each.pair == pair)
        folder = ASSETS / pair / role
        self.model = self.architecture.model.from_pretrained(folder, dtype=torch.float32).eval().requires_grad_(False)
        self.maker = BatchMaker(self.architecture.build_processor(), self.model)

    def give_language(self, model, processor) -> None:
        """Copies words and layers; of a deeper teacher those that were there before it was deepened (:func:`deepen` put the others between
        them, and they carry almost nothing)."""
        mine, theirs = self.model.model.language_model, model.model.language_model
        known, asked = self.maker.processor.tokenizer.get_vocab(), processor.tokenizer.get_vocab()
        with torch.no_grad():
            for token in known.keys() & asked.keys():
                theirs.embed_tokens.weight[asked[token]] = mine.embed_tokens.weight[known[token]]
        theirs.norm.load_state_dict(mine.norm.state_dict())
        for place, layer in zip(homes(len(theirs.layers), len(mine.layers)), theirs.layers, strict=True):
            layer.load_state_dict(mine.layers[place].state_dict())

    @torch.no_grad()
    def distance(self, features: torch.Tensor, batch: Batch, temporal: int) -> torch.Tensor:
        """Mean squared distance of a pupil's tile features, [B, T · tiles, hidden], to the teacher's, in units of the teacher's variance.

        The teacher's tokens may span more frames than the pupil's: each then counts for all of its frames."""
        taught = self.architecture.video_features(self.model, self.maker.patches(batch.frames))
        frames = batch.frames.shape[1]
        tiles = taught.shape[1] * self.architecture.temporal // frames
        times = self.architecture.temporal // temporal
        taught = (
            taught.view(len(taught), -1, 1, tiles, taught.shape[-1])
            .expand(-1, -1, times, -1, -1)
            .reshape(len(taught), -1, taught.shape[-1])
        )
        with torch.enable_grad():
            return (features.float() - taught).square().mean() / taught.var()
