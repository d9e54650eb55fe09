"""The bundled pair keeps its promises: lossless where the method is, and fast enough for speculation to pay."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import StoppingCriteria, StoppingCriteriaList

from lvspec_core.pairs import load_pair
from lvspec_core.prefill import Prefilling
from lvspec_core.race import run_race
from lvspec_core.records import LaneEnd
from lvspec_core.settings import RaceSettings
from lvspec_core.shapes.captions import QUESTIONS
from lvspec_core.shapes.data import HELD_OUT_SEED
from lvspec_core.shapes.render import render
from lvspec_core.shapes.scene import sample_scene
from lvspec_core.video import VideoClip

CLIPS = 100
STRICT = ("ar", "naive_sd", "specvlm")


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair("shapes-qwen")


def held_out_clip(number: int) -> VideoClip:
    """A clip that no model was trained on; length and number of frames vary."""
    rng = np.random.default_rng((HELD_OUT_SEED, number))
    scene, frames, seconds = sample_scene(rng), int(rng.choice([6, 8, 8, 10])), float(rng.uniform(2, 8))
    shares = (np.arange(frames) + 0.5) / frames
    return VideoClip("scene.mp4", render(scene, shares), tuple(shares * seconds), seconds, 24.0, 112, 112, round(24 * seconds), "rendered")


@torch.inference_mode()
def generate(model, prompt, tokens: int, **options) -> list[int]:
    inputs = {name: value for name, value in prompt.inputs.items() if isinstance(value, torch.Tensor)}
    inputs["second_per_grid_ts"] = prompt.inputs["second_per_grid_ts"]
    return model.model.generate(**inputs, do_sample=False, max_new_tokens=tokens, **options)[0, len(prompt.ids) :].tolist()


@pytest.mark.slow
@pytest.mark.no_cover  # tracing every line of 25,000 forward passes takes minutes
@pytest.mark.timeout(1200)
def test_strict_methods_are_ar_and_ar_is_generate_over_a_hundred_held_out_clips(pair):
    different = []
    for number in range(CLIPS):
        clip = held_out_clip(number)
        settings = RaceSettings(question=QUESTIONS[number % len(QUESTIONS)], methods=STRICT, max_new_tokens=48)
        lanes = {record.lane: record for record in run_race(pair, clip, settings) if isinstance(record, LaneEnd)}
        expected = generate(pair.target, pair.target.encode(clip, settings.question), settings.max_new_tokens)
        different += [(number, name) for name in STRICT if list(lanes[name].token_ids) != expected]
        assert lanes["naive_sd"].same_as_ar is lanes["specvlm"].same_as_ar is True
    assert different == []


def cpu_seconds(work: Callable[[], object], repeats: int = 15) -> float:
    """The least processor time of several runs: what the work costs when nothing disturbs it."""
    work()
    taken = []
    for _ in range(repeats):
        began = time.thread_time()
        work()
        taken.append(time.thread_time() - began)
    return min(taken)


def test_a_draft_step_costs_at_most_a_tenth_of_a_target_forward(pair):
    prefilling = Prefilling(pair, held_out_clip(0), replace(RaceSettings(), methods=("lvspec",)))
    list(prefilling.run())
    lane = prefilling.lanes["lvspec"]
    stream, token, at = lane.target, lane.pending, lane.target.length

    def target_forward():
        stream.model.head(stream.append(token)[0]).argmax(-1)
        stream.rollback(at)

    def draft_eight():
        lane.drafter.propose(8)
        lane.drafter.stream.rollback(lane.drafter.start - 1)

    with torch.inference_mode():
        assert cpu_seconds(draft_eight) / 8 <= cpu_seconds(target_forward) / 10


class StepTimes(StoppingCriteria):
    """Notes the processor time at every step of `generate`, and never stops it."""

    def __init__(self):
        self.times: list[float] = []

    def __call__(self, input_ids, scores, **kwargs):
        self.times.append(time.thread_time())
        return torch.zeros(len(input_ids), dtype=torch.bool)


def test_the_ar_lane_is_not_slower_than_generate(pair):
    """Both in one process, in turns; a quick step of either (of ten, one is quicker), in its least disturbed turn."""
    clip, tokens = held_out_clip(1), 40
    settings = RaceSettings(methods=("ar",), max_new_tokens=tokens)
    prompt = pair.target.encode(clip, settings.question)
    ours, theirs = [], []
    for _ in range(4):
        prefilling = Prefilling(pair, clip, settings)
        list(prefilling.run())
        lane, times = prefilling.lanes["ar"], []
        while lane.finish is None:
            lane.round()
            times.append(time.thread_time())
        ours.append(float(np.quantile(np.diff(times), 0.1)))
        steps = StepTimes()
        generate(pair.target, prompt, tokens, stopping_criteria=StoppingCriteriaList([steps]))
        theirs.append(float(np.quantile(np.diff(steps.times), 0.1)))
    assert min(ours) <= min(theirs) * 1.03
