"""Training batches of the shapes world: pixels as the processor makes them, prompts as it writes them, captions with truth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from lvspec_core.shapes.captions import QUESTIONS, SHORT_QUESTION, Word, write_caption, write_short
from lvspec_core.shapes.models import SIDE
from lvspec_core.shapes.render import render
from lvspec_core.shapes.scene import Scene, sample_scene

FRAMES = 8
PATCH, MERGE, TEMPORAL = 14, 2, 2
HELD_OUT_SEED = 1_000_003  # scenes under this seed are never trained on: training seeds are far below


@dataclass
class Prompt:
    """A prompt as the real processor writes it. ``input_ids`` [P]; ``position_ids`` [3, P]; ``video``: where its video tokens stand."""

    input_ids: torch.Tensor
    position_ids: torch.Tensor
    video: slice


@dataclass
class Batch:
    """``patches`` [B, N, 1176]; ``captions`` [B, C] ids, end of text included, padded with 0; ``real`` and ``visual`` [B, C] bool;
    ``shares``: the moments of the clip at which the frames stand."""

    prompt: Prompt
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


def patchify(frames: np.ndarray, mean: np.ndarray, std: np.ndarray, noise: torch.Tensor | None = None) -> torch.Tensor:
    """uint8 [B, T, H, W, 3] -> float [B, N, 1176], equal to the video processor's patches.

    ``noise``: added to the pixels before they are scaled, in units of 1/255, laid out as patches of one frame:
    [B, 1, patches of a frame, 3, 1, PATCH * PATCH].
    """
    batch, count, height, width, _ = frames.shape
    rows, columns = height // PATCH, width // PATCH
    patches = torch.from_numpy(frames).view(
        batch, count // TEMPORAL, TEMPORAL, rows // MERGE, MERGE, PATCH, columns // MERGE, MERGE, PATCH, 3
    )
    patches = patches.permute(0, 1, 3, 6, 4, 7, 9, 2, 5, 8).reshape(batch, count // TEMPORAL, rows * columns, 3, TEMPORAL, PATCH * PATCH)
    scale = torch.tensor(1 / (255.0 * std), dtype=torch.float32)[:, None, None]
    shift = torch.tensor(-mean / std, dtype=torch.float32)[:, None, None]
    pixels = patches.float().mul_(scale).add_(shift if noise is None else noise * scale + shift)
    return pixels.view(batch, count // TEMPORAL * rows * columns, -1)


def word_ids(tokenizer) -> dict[str, int]:
    """The token of every word of the shapes world."""
    return {word.removeprefix("▁"): index for word, index in tokenizer.get_vocab().items() if index not in tokenizer.all_special_ids}


class BatchMaker:
    """Makes batches from a processor and a model that knows the position ids (get_rope_index)."""

    def __init__(self, processor, model):
        self.processor = processor
        self.rope_index = model.model.get_rope_index
        tokenizer = processor.tokenizer
        self.word_ids = word_ids(tokenizer)
        self.end = tokenizer.eos_token_id
        self.mean = np.asarray(processor.video_processor.image_mean, np.float32)
        self.std = np.asarray(processor.video_processor.image_std, np.float32)

    def prompt(self, question: str, frames: int, seconds: float) -> Prompt:
        """The prompt for a question about a clip of this length; all clips are SIDE × SIDE."""
        tokenizer = self.processor.tokenizer
        messages = [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": question}]}]
        text = self.processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        grid = (frames // TEMPORAL, SIDE // PATCH, SIDE // PATCH)
        tokens = grid[0] * grid[1] * grid[2] // MERGE**2
        text = text.replace("<|video_pad|>", "<|video_pad|>" * tokens)
        ids = torch.tensor(tokenizer(text, add_special_tokens=False).input_ids)
        kinds = (ids == self.processor.video_token_id).int() * 2
        positions, _ = self.rope_index(
            ids[None],
            kinds[None],
            video_grid_thw=torch.tensor([grid]),
            second_per_grid_ts=torch.tensor([TEMPORAL * seconds / frames]),
        )
        start = int((kinds > 0).int().argmax())
        return Prompt(ids, positions[:, 0], slice(start, start + tokens))

    def caption_ids(self, words: list[Word]) -> list[int]:
        return [self.word_ids[word.text] for word in words] + [self.end]

    def batch(self, size: int, rng: np.random.Generator, frames: int = FRAMES, question: str | None = None) -> Batch:
        """A random batch. Clip length, frame moments and question are shared by its clips, so that one prompt serves all."""
        question = question or str(rng.choice(QUESTIONS))
        seconds = float(rng.uniform(2.0, 8.0))
        shares = frame_shares(frames, rng)
        scenes = [sample_scene(rng) for _ in range(size)]
        captions = [write_short(scene) if question == SHORT_QUESTION else write_caption(scene, rng) for scene in scenes]
        pixels = np.stack([render(scene, shares, SIDE) for scene in scenes])
        length = max(map(len, captions)) + 1
        ids = torch.zeros(size, length, dtype=torch.long)
        real, visual = torch.zeros(size, length, dtype=torch.bool), torch.zeros(size, length, dtype=torch.bool)
        for row, words in enumerate(captions):
            ids[row, : len(words) + 1] = torch.tensor(self.caption_ids(words))
            real[row, : len(words) + 1] = True
            visual[row, : len(words)] = torch.tensor([word.visual for word in words])
        patches = patchify(pixels, self.mean, self.std, _noise(size, rng))
        return Batch(self.prompt(question, frames, seconds), patches, ids, real, visual, scenes, shares)


def _noise(size: int, rng: np.random.Generator) -> torch.Tensor:
    """What a camera and a codec do to a clip: a brightness offset and a little pixel noise, as :func:`patchify` adds it."""
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    shape = (size, 1, 1, 1, 1, 1)
    strength, offset = torch.rand(shape, generator=generator) * 4, torch.randn(shape, generator=generator) * 4
    return torch.randn(size, 1, (SIDE // PATCH) ** 2, 3, 1, PATCH**2, generator=generator) * strength + offset
