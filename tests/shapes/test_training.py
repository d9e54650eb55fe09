"""The training code against the stock model and processor: same pixels, same prompt, same numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import Qwen2_5_VLForConditionalGeneration
from transformers.video_utils import VideoMetadata

from lvspec_core.shapes import train
from lvspec_core.shapes.batched import caption_logits, sequence, video_features
from lvspec_core.shapes.data import BatchMaker, patchify
from lvspec_core.shapes.evaluate import greedy_captions
from lvspec_core.shapes.models import build_config, build_processor
from lvspec_core.shapes.render import render
from lvspec_core.shapes.scene import sample_scene


@pytest.fixture(scope="module")
def maker():
    torch.manual_seed(0)
    model = Qwen2_5_VLForConditionalGeneration(build_config(layers=2, vision_layers=2, vision_hidden=64)).eval()
    return BatchMaker(build_processor(), model), model


def _processed(maker, frames, question, seconds):
    messages = [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": question}]}]
    text = maker.processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    count = len(frames)
    metadata = VideoMetadata(total_num_frames=count, fps=count / seconds, duration=seconds, frames_indices=list(range(count)))
    return maker.processor(text=[text], videos=[frames], video_metadata=[metadata], do_sample_frames=False, return_tensors="pt")


def test_patches_and_prompt_equal_the_processors(maker):
    maker, model = maker
    frames = render(sample_scene(np.random.default_rng(0)), np.linspace(0, 1, 8))
    inputs = _processed(maker, frames, "Describe this video.", 5.0)
    prompt = maker.prompt("Describe this video.", 8, 5.0)
    assert torch.equal(prompt.input_ids, inputs["input_ids"][0])
    assert torch.allclose(patchify(frames[None], maker.mean, maker.std)[0], inputs["pixel_values_videos"], atol=1e-5)
    positions, _ = model.model.get_rope_index(
        inputs["input_ids"],
        inputs["mm_token_type_ids"],
        video_grid_thw=inputs["video_grid_thw"],
        second_per_grid_ts=inputs["second_per_grid_ts"],
    )
    assert torch.equal(prompt.position_ids, positions[:, 0])


def test_the_batched_forward_equals_the_stock_one(maker):
    maker, model = maker
    batch = maker.batch(2, np.random.default_rng(1))
    grid = torch.tensor([[4, 8, 8]])
    with torch.inference_mode():
        logits = caption_logits(model, batch.prompt, video_features(model, batch.patches), batch.captions)
        for row in range(2):
            ids = torch.cat([batch.prompt.input_ids, batch.captions[row, :-1]])[None]
            _, positions, _ = sequence(model, batch.prompt, video_features(model, batch.patches), batch.captions[:, :-1])
            stock = model(
                input_ids=ids, pixel_values_videos=batch.patches[row], video_grid_thw=grid, position_ids=positions[:, row : row + 1]
            ).logits
            assert torch.allclose(stock[0, len(batch.prompt.input_ids) - 1 :], logits[row], atol=1e-4)


def test_batched_greedy_captions_equal_generate(maker):
    maker, model = maker
    batch = maker.batch(2, np.random.default_rng(2), question="Describe this video.")
    texts = greedy_captions(model, maker, batch)
    inputs = {
        "input_ids": batch.prompt.input_ids[None],
        "pixel_values_videos": batch.patches[1],
        "video_grid_thw": torch.tensor([[4, 8, 8]]),
        "position_ids": batch.prompt.position_ids[:, None],
    }
    ids = model.generate(**inputs, do_sample=False, max_new_tokens=20)[0, len(batch.prompt.input_ids) :]
    expected = maker.processor.tokenizer.decode(ids, skip_special_tokens=True)
    assert texts[1].startswith(expected)


def test_deepening_changes_nothing_at_first(maker):
    maker, model = maker
    batch = maker.batch(2, np.random.default_rng(3))
    deep = train.deepen(model, build_config(layers=7, vision_layers=2, vision_hidden=64)).eval()
    with torch.inference_mode():
        before = caption_logits(model, batch.prompt, video_features(model, batch.patches), batch.captions)
        after = caption_logits(deep, batch.prompt, video_features(deep, batch.patches), batch.captions)
    assert len(deep.model.language_model.layers) == 7
    assert torch.allclose(before, after, atol=1e-4)


def test_training_goes_on_from_its_checkpoint_to_the_same_weights(tmp_path, monkeypatch, capsys):
    stages = (train.Stage(1, 4, 4, 1e-3, visual_weight=2, tiles=0.5, bfloat16=False), train.Stage(2, 2, 4, 1e-3, pruned=1.0, bfloat16=False))
    recipe = train.Recipe(1, 32, stages, seed=9)
    monkeypatch.setattr(train, "SAVE_EVERY", 2)
    whole = train.Training("m", tmp_path / "whole", recipe)
    whole.run()

    class Killed(Exception):
        pass

    broken = train.Training("m", tmp_path / "broken", recipe)
    original, calls = broken._train_step, []

    def dies(stage):
        calls.append(1)
        if len(calls) == 4:
            raise Killed
        return original(stage)

    broken._train_step = dies
    with pytest.raises(Killed):
        broken.run()
    resumed = train.Training("m", tmp_path / "broken", recipe)
    assert resumed.step == 2
    resumed.run()
    for (name, one), other in zip(whole.model.state_dict().items(), resumed.model.state_dict().values(), strict=True):
        assert torch.allclose(one, other, atol=1e-4), name
