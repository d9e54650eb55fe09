"""Training batches of the shapes world: pixels as the processor makes them, prompts as it writes them, captions with truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from lvspec_core.shapes.architectures import PATCH, SIDE, Prompt
from lvspec_core.shapes.captions import QUESTIONS, SHORT_QUESTION, Word, write_caption, write_short
from lvspec_core.shapes.models import architecture_of
from lvspec_core.shapes.render import render
from lvspec_core.shapes.scene import Scene, sample_scene
from lvspec_core.shapes.words import word_ids

FRAMES = 8
HELD_OUT_SEED = 1_000_003  # scenes under this seed are never trained on: training seeds are far below


@dataclass
class Batch:
    """``frames`` uint8 [B, T, SIDE, SIDE, 3] and their ``patches`` [B, N, values]; ``captions`` [B, C] ids, end of
    text included, padded with 0; ``real`` and ``visual`` [B, C] bool; ``shares``: the moments of the clip at which the frames stand."""

    prompt: Prompt
    frames: np.ndarray
    patches: torch.Tensor
    captions: torch.Tensor
    real: torch.Tensor
    visual: torch.Tensor
    scenes: list[Scene]
    shares: np.ndarray


def frame_shares(frames: int, rng: np.random.Generator) -> np.ndarray:
    """Moments of a clip at which frames are taken: both ends included or the middles of equal parts, as video readers do."""
    if rng.random() < 0.5:
        return np.linspace(0, 1, frames)
    return (np.arange(frames) + rng.uniform(0.1, 0.9)) / frames


def patchify(
    frames: np.ndarray, temporal: int, merge: int, mean: np.ndarray, std: np.ndarray, noise: torch.Tensor | None = None
) -> torch.Tensor:
    """uint8 [B, T, H, W, 3] -> float [B, N, values], equal to a video processor's patches of ``temporal`` frames each,
    ``merge`` × ``merge`` of them together.

    ``noise``: added to the pixels before they are scaled, in units of 1/255, laid out as patches of one frame:
    [B, 1, patches of a frame, 3, 1, PATCH * PATCH].
    """
    batch, count, height, width, _ = frames.shape
    rows, columns = height // PATCH, width // PATCH
    patches = torch.from_numpy(frames).view(
        batch, count // temporal, temporal, rows // merge, merge, PATCH, columns // merge, merge, PATCH, 3
    )
    patches = patches.permute(0, 1, 3, 6, 4, 7, 9, 2, 5, 8).reshape(batch, count // temporal, rows * columns, 3, temporal, PATCH * PATCH)
    scale = torch.tensor(1 / (255.0 * std), dtype=torch.float32)[:, None, None]
    shift = torch.tensor(-mean / std, dtype=torch.float32)[:, None, None]
    pixels = patches.float().mul_(scale).add_(shift if noise is None else noise * scale + shift)
    return pixels.view(batch, count // temporal * rows * columns, -1)


class BatchMaker:
    """Makes batches for a stock model from its processor."""

    def __init__(self, processor, model):
        self.architecture = architecture_of(model)
        self.processor = processor
        self.model = model
        tokenizer = processor.tokenizer
        self.word_ids = word_ids(tokenizer)
        self.end = tokenizer.eos_token_id
        self.mean = np.asarray(processor.video_processor.image_mean, np.float32)
        self.std = np.asarray(processor.video_processor.image_std, np.float32)

    def prompt(self, question: str, frames: int, seconds: float) -> Prompt:
        """The prompt for a question about a clip of this length; all clips are SIDE × SIDE."""
        return self.architecture.prompt(self.model, self.processor, question, frames, seconds)

    def patches(self, frames: np.ndarray, noise: torch.Tensor | None = None) -> torch.Tensor:
        """:func:`patchify` as this model's processor does."""
        return patchify(frames, self.architecture.temporal, self.architecture.merge, self.mean, self.std, noise)

    def glances(self, size: int, rng: np.random.Generator) -> tuple[torch.Tensor, list[tuple[Scene, np.ndarray]]]:
        """As many scenes, each at a moment of its own: patches [B, N, values] of one video token's depth, and the scenes with the
        moments of their frames."""
        depth = self.architecture.temporal
        seen = [(sample_scene(rng), rng.uniform(0, 1 - (depth - 1) / FRAMES) + np.arange(depth) / FRAMES) for _ in range(size)]
        pixels = np.stack([render(scene, moments, SIDE) for scene, moments in seen])
        return self.patches(pixels, _noise(size, rng)), seen

    def caption_ids(self, words: list[Word]) -> list[int]:
        return [self.word_ids[word.text] for word in words] + [self.end]

    def batch(
        self,
        size: int,
        rng: np.random.Generator,
        frames: int = FRAMES,
        question: str | None = None,
        counts: tuple[int, ...] = (1, 2, 3),
    ) -> Batch:
        """A random batch. Clip length, frame moments and question are shared by its clips, so that one prompt serves all. ``counts``: of
        a scene's objects, to draw from."""
        question = question or str(rng.choice(QUESTIONS))
        seconds = float(rng.uniform(2.0, 8.0))
        shares = frame_shares(frames, rng)
        scenes = [sample_scene(rng, counts) for _ in range(size)]
        captions = [write_short(scene) if question == SHORT_QUESTION else write_caption(scene, rng) for scene in scenes]
        pixels = np.stack([render(scene, shares, SIDE) for scene in scenes])
        length = max(map(len, captions)) + 1
        ids = torch.zeros(size, length, dtype=torch.long)
        real, visual = torch.zeros(size, length, dtype=torch.bool), torch.zeros(size, length, dtype=torch.bool)
        for row, words in enumerate(captions):
            ids[row, : len(words) + 1] = torch.tensor(self.caption_ids(words))
            real[row, : len(words) + 1] = True
            visual[row, : len(words)] = torch.tensor([word.visual for word in words])
        patches = self.patches(pixels, _noise(size, rng))
        return Batch(self.prompt(question, frames, seconds), pixels, patches, ids, real, visual, scenes, shares)


def _noise(size: int, rng: np.random.Generator) -> torch.Tensor:
    """What a camera and a codec do to a clip: a brightness offset and a little pixel noise, as :func:`patchify` adds it."""
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    shape = (size, 1, 1, 1, 1, 1)
    strength, offset = torch.rand(shape, generator=generator) * 4, torch.randn(shape, generator=generator) * 4
    return torch.randn(size, 1, (SIDE // PATCH) ** 2, 3, 1, PATCH**2, generator=generator) * strength + offset
