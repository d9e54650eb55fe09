"""LLaVA-OneVision: plain positions, a fixed number of pooled tokens per frame, one newline after the last frame."""

from __future__ import annotations

import math

import torch
from transformers import LlavaOnevisionForConditionalGeneration, LlavaOnevisionProcessor

from lvspec_core.families.base import Prompt, VideoLM
from lvspec_core.families.stock import open_stock
from lvspec_core.video import VideoClip


class LlavaOneVision(VideoLM):
    """The stock ``LlavaOnevisionForConditionalGeneration`` and ``LlavaOnevisionProcessor``.

    Every frame is stretched to a square and becomes ``side`` × ``side`` tokens; the model is told nothing of a clip's seconds.
    """

    axes = 1

    @classmethod
    def load(cls, source: str, dtype: torch.dtype, device: torch.device, **options) -> LlavaOneVision:
        model, processor = open_stock(LlavaOnevisionForConditionalGeneration, LlavaOnevisionProcessor, source, dtype, device, **options)
        return cls(source, model, processor, model.model.language_model, model.lm_head)

    @property
    def side(self) -> int:
        """Tokens along a side of a frame, after the stock model has pooled 2 × 2 patches."""
        vision = self.model.config.vision_config
        return math.ceil(vision.image_size // vision.patch_size / 2)

    def encode(self, clip: VideoClip, question: str) -> Prompt:
        inputs = self.processor(text=[self.question_text(question)], videos=[clip.frames], do_sample_frames=False, return_tensors="pt")
        ids = inputs["input_ids"][0]
        start = int((ids == self.processor.video_token_id).int().argmax())
        grid = (len(clip.frames), self.side, self.side)
        return Prompt(
            ids=ids,
            positions=torch.arange(len(ids))[None],
            video=slice(start, start + math.prod(grid)),
            grid=grid,
            next_position=len(ids),
            inputs=dict(inputs),
            marks=1,
        )

    def video_features(self, prompt: Prompt) -> torch.Tensor:
        pixels = prompt.inputs["pixel_values_videos"].to(self.device, self.dtype)
        return self.model.model.get_video_features(pixels, return_dict=True).pooler_output[0]

    def same_sight(self, other: VideoLM) -> bool:
        return self.side == other.side and self._picture == other._picture

    @property
    def _picture(self) -> tuple:
        """What the processor makes of a frame."""
        video = self.processor.video_processor
        return dict(video.size), tuple(video.image_mean), tuple(video.image_std)
