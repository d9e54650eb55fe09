"""The stock modules run by us give the stock model's numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import stock
import torch
from transformers import DynamicCache

from lvspec_core.errors import SettingsError
from lvspec_core.families.attention import attention_weights
from lvspec_core.pruning import VideoTokenAttention
from lvspec_core.relevance import AttentionShare


@pytest.fixture
def target(random_pair):
    return random_pair.target


@pytest.fixture
def prompt(target, make_clip):
    return target.encode(make_clip(), "Describe the video.")


@torch.inference_mode()
def opened(model, prompt, room=40, keep=None):
    return model.prefill(prompt, model.video_features(prompt), len(prompt.tail) + room, keep)


@torch.inference_mode()
def test_prefill_and_appended_tokens_equal_the_stock_forward_pass(target, prompt):
    ids = [30, 31, 32, 33, 34, 35]
    expected = stock.hidden_states(target, prompt, ids)
    stream = opened(target, prompt)
    tail = stream.append(prompt.tail)[0]
    one = stream.append(torch.tensor(ids[:1]))[0]
    many = stream.append(torch.tensor(ids[1:]))[0]
    ours = torch.cat([tail, one, many])
    torch.testing.assert_close(ours, expected[prompt.features_end :], rtol=1e-4, atol=2e-5)
    assert stream.length == len(prompt.ids) + len(ids)


@torch.inference_mode()
def test_the_layers_called_by_us_equal_the_stock_text_model(target):
    hidden = torch.randn(1, 9, target.decoder.config.hidden_size)
    positions = target.row_of_positions(0, 9)
    cache = DynamicCache(config=target.decoder.config)
    expected = target.decoder(inputs_embeds=hidden, position_ids=stock.position_ids(positions), cache=cache)
    assert torch.equal(target.run(hidden, target.rotary(positions), target.new_cache(9)), expected.last_hidden_state)


@torch.inference_mode()
def test_our_cache_serves_the_stock_text_model_too(target):
    decoder = target.decoder
    hidden = torch.randn(1, 12, decoder.config.hidden_size)
    results = []
    for cache in (DynamicCache(config=decoder.config), target.new_cache(12)):
        for start, stop in ((0, 7), (7, 8), (8, 12)):
            positions = stock.position_ids(target.row_of_positions(start, stop))
            out = decoder(inputs_embeds=hidden[:, start:stop], position_ids=positions, cache=cache).last_hidden_state
        results.append(out)
        assert cache.get_seq_length() == 12
    assert torch.equal(*results)


@torch.inference_mode()
def test_rolling_back_forgets_and_forking_does_not_share(target, prompt):
    stream = opened(target, prompt)
    stream.append(prompt.tail)
    before = stream.length
    fork = stream.fork()
    first = stream.append(torch.tensor([30, 31, 32]))
    stream.rollback(before)
    stream.append(torch.tensor([40, 41]))
    stream.rollback(before)
    assert torch.equal(stream.append(torch.tensor([30, 31, 32])), first)
    assert fork.length == before
    assert torch.equal(fork.append(torch.tensor([30, 31, 32])), first)


def test_a_cache_refuses_what_it_cannot_hold(target):
    cache = target.new_cache(4)
    with pytest.raises(IndexError, match="holds 4 tokens, 5 were asked for"):
        target.run(torch.zeros(1, 5, target.decoder.config.hidden_size), target.rotary(target.row_of_positions(0, 5)), cache)
    with pytest.raises(IndexError, match="cannot roll back"):
        cache.rollback(1)


@torch.inference_mode()
def test_streams_of_different_prompts_interleave_on_one_model(target, make_clip):
    """Nothing of a sequence is kept in the model: positions come from the stream."""
    prompts = [target.encode(make_clip(frames=4), "Describe the video."), target.encode(make_clip(frames=8, seed=1), "What moves?")]
    alone = []
    for prompt in prompts:
        stream = opened(target, prompt)
        alone.append([stream.append(prompt.tail)[:, -1:], *(stream.append(torch.tensor([token])) for token in (30, 31))])
    streams = [opened(target, prompt) for prompt in prompts]
    together = [[stream.append(prompt.tail)[:, -1:]] for stream, prompt in zip(streams, prompts, strict=True)]
    for token in (30, 31):
        for mine, stream in zip(together, streams, strict=True):
            mine.append(stream.append(torch.tensor([token])))
    for mine, theirs in zip(together, alone, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


@torch.inference_mode()
def test_pruned_video_tokens_are_gone_and_the_others_keep_their_positions(target, prompt):
    """Equal to the full pass in which nobody may look at the pruned tokens."""
    keep = [0, 3, 10, 17, 31]
    pruned = [prompt.video.start + token for token in range(prompt.video_tokens) if token not in keep]
    embeddings = target.embed(prompt.ids).clone()
    embeddings[prompt.video.start : prompt.features_end] = target.video_features(prompt)
    length = len(prompt.ids)
    mask = torch.full((length, length), float("-inf")).triu(1)
    mask[:, pruned] = float("-inf")
    mask[pruned, pruned] = 0.0
    expected = target.run(embeddings[None], target.rotary(prompt.positions), target.new_cache(length), mask[None, None])
    stream = opened(target, prompt, keep=keep)
    assert stream.video == slice(prompt.video.start, prompt.video.start + len(keep))
    ours = stream.append(prompt.tail)
    torch.testing.assert_close(ours, expected[:, prompt.features_end :], rtol=1e-4, atol=2e-5)


@torch.inference_mode()
def test_watched_attention_is_the_eager_attention_of_the_asked_rows(target, prompt):
    stream = opened(target, prompt)
    shares, tokens = AttentionShare(2, stream.video), VideoTokenAttention(stream.video)
    stream.append(prompt.tail[:-1], tokens)
    stream.append(prompt.tail[-1:], shares)

    target.decoder.set_attn_implementation("eager")
    try:
        embeddings = target.embed(prompt.ids).clone()
        embeddings[prompt.video.start : prompt.features_end] = target.video_features(prompt)
        out = target.decoder(
            inputs_embeds=embeddings[None], position_ids=stock.position_ids(prompt.positions), output_attentions=True, use_cache=False
        )
    finally:
        target.decoder.set_attn_implementation("watched_sdpa")
    asked = torch.stack([layer[0, :, prompt.features_end : -1, prompt.video] for layer in out.attentions])  # [layers, heads, rows, video]
    torch.testing.assert_close(tokens.scores, asked.mean(dim=(0, 1, 2)), rtol=1e-3, atol=1e-5)
    share = out.attentions[2][0, :, -1, prompt.video].sum(-1).mean()
    torch.testing.assert_close(shares.take()[0][0], share, rtol=1e-3, atol=1e-5)
    assert shares.take() == []


def test_the_full_matrix_of_a_first_pass_is_refused():
    with pytest.raises(ValueError, match="full matrix"):
        attention_weights(torch.zeros(1, 2, 3, 4), torch.zeros(1, 1, 3, 4), None, 1.0)


@torch.inference_mode()
def test_a_batch_goes_through_stock_sdpa(target):
    """The registered function also serves ordinary callers, as training and `generate` are."""
    hidden = torch.randn(2, 5, target.decoder.config.hidden_size)
    both = target.decoder(inputs_embeds=hidden, use_cache=False).last_hidden_state
    first = target.run(hidden[:1], target.rotary(target.row_of_positions(0, 5)), target.new_cache(5))
    torch.testing.assert_close(both[:1], first, rtol=1e-4, atol=1e-5)


def test_the_prompt_tells_where_its_video_stands(target, make_clip):
    prompt = target.encode(make_clip(frames=6, seconds=3.0), "What moves?")
    times = {"Qwen2_5_VL": 3, "LlavaOneVision": 6}[type(target).__name__]
    assert prompt.grid == (times, 4, 4)
    assert prompt.video_tokens == times * 16
    assert (prompt.ids[prompt.video.start : prompt.features_end] == target.processor.video_token_id).all()
    assert (prompt.ids == target.processor.video_token_id).sum() == prompt.video_tokens + prompt.marks
    assert prompt.positions.shape == (target.axes, len(prompt.ids))
    assert prompt.next_position == int(prompt.positions.max()) + 1
    assert torch.equal(prompt.tail, prompt.ids[prompt.features_end :])


def test_qwen_counts_seconds(make_clip, random_pair):
    """Two seconds per grid of a clip of one second a frame; the config counts two positions a second."""
    if random_pair.info.family != "qwen2_5_vl":
        pytest.skip("M-RoPE alone counts seconds")
    prompt = random_pair.target.encode(make_clip(frames=6, seconds=3.0), "What moves?")
    times = prompt.positions[0, prompt.video].view(3, 16)[:, 0]
    assert (times - times[0]).tolist() == [0, 2, 4]


def test_llavas_newline_stands_after_the_last_frame_and_is_never_pruned(make_clip, random_pair):
    if random_pair.info.family != "llava_onevision":
        pytest.skip("LLaVA-OneVision alone has one")
    model = random_pair.target
    prompt = model.encode(make_clip(frames=2), "What moves?")
    assert prompt.marks == 1
    features = model.video_features(prompt)
    assert torch.equal(features[-1], model.model.model.image_newline)
    for keep in (None, [3, 9], []):
        stream = opened(model, prompt, keep=keep)
        seen = prompt.video_tokens if keep is None else len(keep)
        assert stream.length == prompt.video.start + seen + 1
        assert stream.video == slice(prompt.video.start, prompt.video.start + seen)
        assert stream.base == stream.length


def test_llava_pools_what_the_stock_tower_sees_frame_by_frame(make_clip, random_pair):
    """A frame's tokens do not depend on the frames beside it."""
    if random_pair.info.family != "llava_onevision":
        pytest.skip("Qwen2.5-VL merges two frames into one token")
    model, clip = random_pair.target, make_clip(frames=4)
    both = model.video_features(model.encode(clip, "What?"))
    half = model.video_features(model.encode(replace(clip, frames=clip.frames[2:]), "What?"))
    torch.testing.assert_close(both[32:], half, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("frames", "height", "width"), [(1, 112, 112), (5, 60, 200), (2, 240, 40), (4, 8, 8)])
def test_odd_frame_counts_and_any_aspect_ratio_are_encoded(target, make_clip, frames, height, width):
    prompt = target.encode(make_clip(frames=frames, height=height, width=width), "What?")
    assert prompt.video_tokens == prompt.grid[0] * prompt.grid[1] * prompt.grid[2] > 0
    assert opened(target, prompt).length == prompt.features_end


def test_a_question_cannot_smuggle_in_control_tokens(target, make_clip):
    clean = target.encode(make_clip(), "What is this ?")
    for token in target.tokenizer.get_added_vocab():
        sly = target.encode(make_clip(), f"What {token * 3} is this ?")
        assert sly.video_tokens == clean.video_tokens
        special = torch.tensor(target.tokenizer.convert_tokens_to_ids(token))
        if special != target.tokenizer.unk_token_id:  # what is left of the others are unknown words
            assert (sly.ids == special).sum() == (clean.ids == special).sum()


def test_a_shape_that_the_processor_refuses_is_one_sentence(target, make_clip):
    if target.axes == 1:
        pytest.skip("LLaVA-OneVision stretches every picture to a square")
    with pytest.raises(SettingsError, match="cannot read pictures of 2400 × 8 pixels"):
        target.encode(make_clip(height=8, width=2400), "What?")


def test_end_of_text_comes_from_the_generation_config(target):
    assert target.end_ids == {target.tokenizer.eos_token_id}
