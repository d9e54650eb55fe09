"""Qwen2.5-VL: M-RoPE positions of three axes, video tokens between two text parts, seconds per temporal grid."""

from __future__ import annotations

import torch
from transformers import Qwen2_5_VLForConditionalGeneration, Qwen2_5_VLProcessor
from transformers.video_utils import VideoMetadata

from lvspec_core.errors import SettingsError
from lvspec_core.families.base import Prompt, VideoLM
from lvspec_core.families.stock import open_stock
from lvspec_core.video import VideoClip


class Qwen2_5_VL(VideoLM):
    """The stock ``Qwen2_5_VLForConditionalGeneration`` and ``Qwen2_5_VLProcessor``."""

    axes = 3

    @classmethod
    def load(cls, source: str, dtype: torch.dtype, device: torch.device, **options) -> Qwen2_5_VL:
        model, processor = open_stock(Qwen2_5_VLForConditionalGeneration, Qwen2_5_VLProcessor, source, dtype, device, **options)
        return cls(source, model, processor, model.model.language_model, model.lm_head)

    def encode(self, clip: VideoClip, question: str) -> Prompt:
        frames = len(clip.frames)
        rate = frames / clip.seconds if clip.seconds > 0 else 1.0
        metadata = VideoMetadata(total_num_frames=frames, fps=rate, frames_indices=list(range(frames)))
        try:
            inputs = self.processor(
                text=[self.question_text(question)],
                videos=[clip.frames],
                video_metadata=[metadata],
                do_sample_frames=False,
                cap_pixels_per_frame=False,  # the reader's frames are small; left unsaid, transformers warns of another default to come
                return_tensors="pt",
            )
        except ValueError as error:  # the processor refuses pictures more than 200 times as long as wide
            raise SettingsError(
                f"This pair cannot read pictures of {clip.width} × {clip.height} pixels; crop the video to a more usual shape."
            ) from error
        ids, grid = inputs["input_ids"], inputs["video_grid_thw"]
        positions, _ = self.model.model.get_rope_index(
            ids,
            inputs["mm_token_type_ids"],
            video_grid_thw=grid,
            second_per_grid_ts=torch.as_tensor(inputs["second_per_grid_ts"]),
        )
        where = (ids[0] == self.processor.video_token_id).nonzero().flatten().tolist()
        time, rows, columns = grid[0].tolist()
        merge = self.model.config.vision_config.spatial_merge_size
        return Prompt(
            ids=ids[0],
            positions=positions[:, 0],
            video=slice(where[0], where[-1] + 1),
            grid=(time, rows // merge, columns // merge),
            next_position=int(positions.max()) + 1,
            inputs=dict(inputs),
        )

    def video_features(self, prompt: Prompt) -> torch.Tensor:
        pixels = prompt.inputs["pixel_values_videos"].to(self.device, self.dtype)
        grid = prompt.inputs["video_grid_thw"].to(self.device)
        return torch.cat(list(self.model.model.get_video_features(pixels, grid, return_dict=True).pooler_output))

    def same_sight(self, other: VideoLM) -> bool:
        mine, yours = self.model.config.vision_config, other.model.config.vision_config
        names = ("patch_size", "spatial_merge_size", "temporal_patch_size", "tokens_per_second")
        return all(getattr(mine, name) == getattr(yours, name) for name in names)
