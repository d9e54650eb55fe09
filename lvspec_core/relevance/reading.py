"""What both models make of a given text, with the video and without it: what scorers are measured on. Not for the loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from lvspec_core.families.attention import EveryLayer
from lvspec_core.families.base import Prompt, VideoLM

ROWS = 32  # text positions read in one pass, so that no matrix of all positions against each other is ever made


@dataclass(frozen=True)
class Seen:
    """A text read by one model. ``hidden``: [n, width], final hidden states at the positions that predict its n tokens;
    ``shares``: [layers, heads, n], how much of each position's attention goes to the video; ``logits``: [n, vocabulary]."""

    hidden: torch.Tensor
    shares: torch.Tensor
    logits: torch.Tensor


class Reading:
    """A text read teacher-forced by a pair. ``token_ids``: the text; ``keep``: the video tokens that the draft sees, None: all;
    ``others``: prompts of other clips with as many video tokens, whose video may be put in this one's place.

    What a scorer asks for is computed when it is first asked for, and once.
    """

    def __init__(
        self,
        target: VideoLM,
        draft: VideoLM,
        prompt: Prompt,
        token_ids: list[int],
        keep: list[int] | None,
        others: Sequence[Prompt] = (),
    ):
        self.models = {"target": target, "draft": draft}
        self.prompt = prompt
        self.token_ids = list(token_ids)
        self.keep = keep
        self.others = tuple(others)
        self._seen: dict[str, torch.Tensor] = {}

    @cached_property
    def draft(self) -> Seen:
        return self._read("draft", self.prompt, self.keep)

    @cached_property
    def target(self) -> Seen:
        return self._read("target", self.prompt, None)

    def without(self, role: str) -> Seen:
        """A model without the video."""
        return self._read(role, self.prompt, [])

    def misled(self, role: str) -> list[Seen]:
        """A model with each of the other videos in this one's place."""
        return [self._read(role, other, self.keep if role == "draft" else None) for other in self.others]

    @cached_property
    def video(self) -> torch.Tensor:
        """[video tokens, width]: the target's final hidden states at the video's positions."""
        target, prompt, end = self.models["target"], self.prompt, self.prompt.features_end
        with torch.inference_mode():
            text = target.embed(prompt.ids[: prompt.video.start].to(target.device))
            embeddings = torch.cat([text, self._features("target", prompt).to(text)])[None]
            hidden = target.run(embeddings, target.rotary(prompt.positions[:, :end]), target.new_cache(end))
        return hidden[0, prompt.video]

    def _features(self, role: str, shown: Prompt) -> torch.Tensor:
        if shown is not self.prompt:
            return self.models[role].video_features(shown)
        if role not in self._seen:
            self._seen[role] = self.models[role].video_features(shown)
        return self._seen[role]

    @torch.inference_mode()
    def _read(self, role: str, shown: Prompt, keep: list[int] | None) -> Seen:
        """The text as a model reads it after the video of ``shown``."""
        model, prompt = self.models[role], self.prompt
        stream = model.prefill(prompt, self._features(role, shown), len(prompt.tail) + len(self.token_ids), keep)
        last = stream.read_tail(prompt)
        watch = EveryLayer(lambda weights: weights[..., stream.video].sum(-1).flatten(0, 1).T)  # [n, heads]
        hidden, shares = [], []
        for states in stream.read_text(last, self.token_ids, ROWS, watch):
            hidden.append(states)
            shares.append(watch.take())
        states = torch.cat(hidden)
        return Seen(states, torch.cat(shares).permute(1, 2, 0), model.head(states))
