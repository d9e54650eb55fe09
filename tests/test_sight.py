"""How the real processors, with the real checkpoints' settings, turn frames into tokens: pinned on frames made here."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scaled_pairs import save_scaled, tokenizer_of
from transformers import (
    LlavaOnevisionForConditionalGeneration,
    LlavaOnevisionImageProcessor,
    LlavaOnevisionProcessor,
    LlavaOnevisionVideoProcessor,
    Qwen2VLVideoProcessor,
)
from transformers.models.qwen2_vl.video_processing_qwen2_vl import smart_resize

from lvspec_core.checkpoints import CHECKPOINTS, LLAVA_PROCESSOR, QWEN_PROCESSOR
from lvspec_core.shapes.llava import CHAT_TEMPLATE
from lvspec_core.sight import SIGHTS, smart_size
from lvspec_core.video import VideoClip
from lvspec_core.video.sampling import fit

QWEN = SIGHTS["qwen2_5_vl"](CHECKPOINTS["Qwen/Qwen2.5-VL-7B-Instruct"].config, QWEN_PROCESSOR)
LLAVA = SIGHTS["llava_onevision"](CHECKPOINTS["llava-hf/llava-onevision-qwen2-7b-ov-hf"].config, LLAVA_PROCESSOR)


def frames(count: int, height: int, width: int) -> np.ndarray:
    return np.zeros((count, height, width, 3), np.uint8)


@pytest.mark.parametrize(
    ("count", "height", "width", "grid", "tokens"),
    [
        (8, 448, 448, (4, 32, 32), 1024),  # the largest frame that the reader hands on: 256 tokens per two frames
        (8, 336, 597, (4, 24, 42), 1008),  # 16:9, as the reader scales it
        (7, 336, 597, (4, 24, 42), 1008),  # an odd number: the last frame stands twice
        (1, 448, 448, (1, 32, 32), 256),
        (2, 112, 112, (1, 8, 8), 16),  # not enlarged: the checkpoints' lower limit is 3,136 pixels
        (2, 20, 20, (1, 4, 4), 4),  # but this is
        (4, 40, 240, (2, 2, 18), 18),
    ],
)
def test_qwens_processor_lays_out_patches_of_14_pixels_two_frames_at_a_time(count, height, width, grid, tokens):
    processor = Qwen2VLVideoProcessor(**QWEN_PROCESSOR, cap_pixels_per_frame=False)
    made = processor([frames(count, height, width)], do_sample_frames=False, return_tensors="pt")
    assert tuple(made["video_grid_thw"][0].tolist()) == grid
    assert grid[0] * grid[1] * grid[2] // 4 == tokens == QWEN.tokens(count, height, width)
    patches, values = made["pixel_values_videos"].shape
    assert (patches, values) == (QWEN.patch_count(count, height, width), QWEN.values) == (tokens * 4, 1176)


def test_qwens_processor_reads_a_patchs_merged_four_one_after_the_other():
    """Values 0 to 15 are the four patches of the token at the top left, row by row, each over two frames."""
    video = frames(2, 112, 112)
    video[:, :14, :14], video[:, :14, 14:28], video[:, 14:28, :14] = 50, 100, 150
    processor = Qwen2VLVideoProcessor(**QWEN_PROCESSOR, cap_pixels_per_frame=False, do_normalize=False)
    rows = processor([video], do_sample_frames=False, return_tensors="pt")["pixel_values_videos"].mean(1) * 255
    assert rows[:5].round().tolist() == [50, 100, 150, 0, 0]


def test_a_prompt_with_the_real_settings_places_its_tokens_by_time_row_and_column(random_pair, monkeypatch):
    """Five frames of 16:9 over five seconds: three pairs of frames, two seconds each, two positions a second."""
    if random_pair.info.family != "qwen2_5_vl":
        pytest.skip("M-RoPE alone numbers rows and columns")
    target = random_pair.target
    monkeypatch.setattr(target.processor, "video_processor", Qwen2VLVideoProcessor(**QWEN_PROCESSOR))
    clip = VideoClip("wide", frames(5, 336, 597), (0.0, 1.0, 2.0, 3.0, 4.0), 5.0, 25.0, 597, 336, 125, "none")
    prompt = target.encode(clip, "What moves?")
    assert prompt.grid == (3, 12, 21)
    assert prompt.video_tokens == QWEN.tokens(5, 336, 597) == 756
    time, row, column = prompt.positions[:, prompt.video] - prompt.positions[0, prompt.video.start]
    order = torch.arange(756)
    assert torch.equal(time, order // 252 * 4)
    assert torch.equal(row, order % 252 // 21)
    assert torch.equal(column, order % 21)
    assert prompt.next_position == int(prompt.positions.max()) + 1


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_frames_are_scaled_as_qwens_own_function_scales_them(height, width):
    if max(height, width) / min(height, width) > 200:
        return
    limits = QWEN_PROCESSOR["min_pixels"], QWEN_PROCESSOR["max_pixels"]
    assert smart_size(height, width, 28, *limits) == smart_resize(height, width, 28, *limits)
    assert smart_size(height, width, 28, 3136, 50176) == smart_resize(height, width, 28, 3136, 50176)


def test_the_reader_hands_on_frames_of_about_256_tokens_at_most():
    """Shapes from square to 2:1, scaled as the reader does: what memory is reckoned with when no clip is known."""
    for width in range(448, 900, 7):
        columns, rows = fit(width * 4, 448 * 4, 448 * 448)
        assert QWEN.tokens(2, rows, columns) <= 1.06 * QWEN.tokens(2)


def llava_processor(**changes) -> LlavaOnevisionProcessor:
    pixels = {name: LLAVA_PROCESSOR[name] for name in ("size", "image_mean", "image_std")}
    return LlavaOnevisionProcessor(
        image_processor=LlavaOnevisionImageProcessor(**pixels),
        tokenizer=tokenizer_of("llava_onevision"),
        video_processor=LlavaOnevisionVideoProcessor(**pixels),
        num_image_tokens=LLAVA_PROCESSOR["num_image_tokens"],
        vision_feature_select_strategy="full",
        chat_template=CHAT_TEMPLATE,
        **changes,
    )


@pytest.mark.parametrize(("count", "height", "width"), [(1, 448, 448), (3, 336, 597), (8, 60, 200)])
def test_llavas_processor_takes_196_tokens_a_frame_whatever_its_shape_and_one_newline(count, height, width):
    processor = llava_processor()
    text = processor.apply_chat_template(
        [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": "What moves?"}]}], add_generation_prompt=True
    )
    made = processor(text=[text], videos=[frames(count, height, width)], do_sample_frames=False, return_tensors="pt")
    assert made["pixel_values_videos"].shape == (1, count, 3, 384, 384)
    tokens = int((made["input_ids"] == processor.video_token_id).sum())
    assert tokens == count * 14 * 14 + 1 == LLAVA.tokens(count, height, width)
    assert LLAVA.patch_count(count, height, width) == count * 27 * 27
    assert LLAVA.patch_count(1) * LLAVA.values == 27 * 27 * 3 * 14 * 14


@torch.inference_mode()
def test_llavas_model_makes_as_many_features_as_its_processor_makes_room_for(tmp_path):
    """A scaled-down copy: 5 × 5 patches a frame, an odd number as 27 is, pooled to 3 × 3, and the newline last."""
    folder = save_scaled("llava-hf/llava-onevision-qwen2-0.5b-ov-hf", tmp_path)
    model = LlavaOnevisionForConditionalGeneration.from_pretrained(folder).eval()
    processor = LlavaOnevisionProcessor.from_pretrained(folder)
    made = processor(text=["<video> What moves?"], videos=[frames(4, 60, 80)], do_sample_frames=False, return_tensors="pt")
    features = model.get_video_features(made["pixel_values_videos"]).pooler_output[0]
    sight = SIGHTS["llava_onevision"](model.config.to_dict(), {})
    assert len(features) == 4 * 3 * 3 + 1 == sight.tokens(4) == int((made["input_ids"] == processor.video_token_id).sum())
    assert torch.equal(features[-1], model.model.image_newline)
