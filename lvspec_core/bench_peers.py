"""transformers' own decoding, on stock models: what a user would pick instead."""

from __future__ import annotations

import time

import torch
from transformers import AutoModelForImageTextToText, StoppingCriteria, StoppingCriteriaList

from lvspec_core.pairs import Pair
from lvspec_core.settings import RaceSettings


class Ticks(StoppingCriteria):
    """The moment of every step of ``generate``; never stops it. An assisted step may bring several tokens."""

    def __init__(self):
        self.moments: list[float] = []
        self.lengths: list[int] = []

    def __call__(self, input_ids, scores, **kwargs):
        self.moments.append(time.perf_counter())
        self.lengths.append(input_ids.shape[1])
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)

    @property
    def tokens_per_second(self) -> float:
        """Tokens after the first step ÷ the seconds they took, so that the prefill is left out as it is in a lane's decode seconds."""
        return (self.lengths[-1] - self.lengths[0]) / (self.moments[-1] - self.moments[0])


class Peers:
    """transformers' own decoding on stock models, loaded with its defaults."""

    def __init__(self, pair: Pair):
        self.pair = pair
        dtype, device = pair.target.dtype, pair.target.device
        self.target = AutoModelForImageTextToText.from_pretrained(pair.info.target, dtype=dtype).to(device).eval()
        self.draft = AutoModelForImageTextToText.from_pretrained(pair.info.draft, dtype=dtype).to(device).eval()

    @torch.inference_mode()
    def run(self, clip, settings: RaceSettings, assisted: bool) -> tuple[float, list[int]]:
        """Tokens per second of decoding, and the tokens."""
        prompt = self.pair.target.encode(clip, settings.question)
        inputs = {name: value.to(self.target.device) if isinstance(value, torch.Tensor) else value for name, value in prompt.inputs.items()}
        inputs.pop("video_metadata", None)
        ticks = Ticks()
        options = {"assistant_model": self.draft} if assisted else {}
        ids = self.target.generate(
            **inputs, do_sample=False, max_new_tokens=settings.max_new_tokens, stopping_criteria=StoppingCriteriaList([ticks]), **options
        )
        return ticks.tokens_per_second, ids[0, len(prompt.ids) :].tolist()
