"""Sampling, and how the target samples without wasting a draft's guesses: pure functions over distributions.

A lossless method draws every token from the target's own distribution, whatever the draft proposed. Speculative sampling
(Leviathan et al., arXiv 2211.17192) draws it so that it is the draft's token as often as that is possible; with several
guesses for one place, drawn one after another without replacement, the guesses are tried in turn and what remains of both
distributions is carried on (recursive rejection: SpecInfer, arXiv 2305.09781; without replacement: arXiv 2402.14160). Guesses
that follow from the text alone need none of this: the target draws, and a guess is accepted when it is what was drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from lvspec_core.trees import Tree


@dataclass(frozen=True)
class Sampling:
    """How logits become the distribution that is drawn from: ``temperature`` above 0, then the ``top_p`` nucleus."""

    temperature: float
    top_p: float = 1.0

    def probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        """[n, vocabulary] float32, each row sums to 1; the nucleus is the fewest best tokens that reach ``top_p``."""
        spread = (logits.float() / self.temperature).softmax(-1)
        if self.top_p >= 1:
            return spread
        ranked, order = spread.sort(dim=-1, descending=True, stable=True)
        ranked[ranked.cumsum(-1) - ranked >= self.top_p] = 0  # what is already reached without it; the best token always stays
        spread = torch.zeros_like(spread).scatter_(-1, order, ranked)
        return spread / spread.sum(-1, keepdim=True)


def draw(spread: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """[n, count] tokens of each row of [n, vocabulary], one after another without replacement, in the order they were drawn.

    Where a row has fewer tokens of any probability, impossible ones follow. (An exponential race: the order in which clocks
    of these rates ring is that of draws without replacement.)
    """
    clocks = torch.empty_like(spread).exponential_(generator=generator).clamp_min_(torch.finfo(spread.dtype).tiny)
    return (spread / clocks).topk(count, dim=-1).indices


def speculative_choice(wanted: torch.Tensor, guess: torch.Tensor | None, tokens: Sequence[int], generator: torch.Generator) -> int:
    """A token distributed as ``wanted`` [vocabulary], one of ``tokens`` as often as possible.

    ``tokens`` were drawn in this order, without replacement, from ``guess`` [vocabulary]; None: they were not drawn at all.
    """
    if guess is not None:
        for token in tokens:
            chance, likely, left = torch.stack([wanted[token], guess[token], guess.sum()]).tolist()
            if likely <= 0:
                break  # impossible, so it was not drawn
            if torch.rand((), generator=generator, device=wanted.device) * likely < chance * left:
                return token
            wanted = (wanted - guess / left).clamp_min(0)
            rest = wanted.sum()
            if rest <= 0:
                return token  # both distributions are the same but for rounding
            wanted = wanted / rest
            guess = guess.index_fill(0, torch.tensor([token], device=guess.device), 0.0)
    return int(torch.multinomial(wanted, 1, generator=generator))


class SampledChoices(Sequence):
    """The target's choice at each row of a proposal, drawn when it is first asked for.

    ``draft``: the nodes' tokens. ``target``: [n + 1, vocabulary] distributions. ``guesses``: [inner rows, vocabulary], what
    each row's children were drawn from, None if they were not drawn.
    """

    def __init__(self, tree: Tree, draft: Sequence[int], target: torch.Tensor, guesses: torch.Tensor | None, generator: torch.Generator):
        self.tree = tree
        self.draft = draft
        self.target = target
        self.guesses = guesses
        self.generator = generator
        self._drawn: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.tree) + 1

    def __getitem__(self, row: int) -> int:
        if row not in self._drawn:
            children = self.tree.children[row]
            guess = self.guesses[self.tree.inner[row]] if children and self.guesses is not None else None
            self._drawn[row] = speculative_choice(self.target[row], guess, [self.draft[node] for node in children], self.generator)
        return self._drawn[row]


@dataclass(frozen=True)
class Sampler:
    """How a lane samples, and the generator that it draws from."""

    sampling: Sampling
    generator: torch.Generator

    def choices(self, tree: Tree, draft: Sequence[int], logits: torch.Tensor, guesses: torch.Tensor | None) -> SampledChoices:
        """The target's choices; ``logits``: [n + 1, vocabulary], ``guesses``: what the proposal's tokens were drawn from."""
        return SampledChoices(tree, draft, self.sampling.probabilities(logits), guesses, self.generator)
