"""Sampling: distributions as asked for, and speculative sampling that keeps them, shown by statistics with fixed seeds."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lvspec_core.drafting import Proposal
from lvspec_core.sampling import SampledChoices, Sampler, Sampling, draw, speculative_choice
from lvspec_core.tree_drafting import static_plan
from lvspec_core.trees import Tree
from lvspec_core.verification import Rules, verify_strict, verify_strict_tree
from lvspec_core.verifiers import LooseVerifier, StrictVerifier

VOCABULARY = 4


def chi_square_z(observed: list[float], expected: list[float]) -> float:
    """How many standard deviations the chi-square statistic is off, by Wilson and Hilferty's approximation; cells of which
    fewer than 5 are expected are taken together."""
    cells = sorted(zip(expected, observed, strict=True), reverse=True)
    merged: list[list[float]] = []
    rest = [0.0, 0.0]
    for cell in cells:
        rest = [rest[0] + cell[0], rest[1] + cell[1]]
        if rest[0] >= 5:
            merged.append(rest)
            rest = [0.0, 0.0]
    merged[-1] = [merged[-1][0] + rest[0], merged[-1][1] + rest[1]]
    free = len(merged) - 1
    statistic = sum((seen - wanted) ** 2 / wanted for wanted, seen in merged)
    spread = 2 / (9 * free)
    return ((statistic / free) ** (1 / 3) - (1 - spread)) / spread**0.5


# ------------------------------------------------------------------ distributions


def test_temperature_scales_the_logits():
    logits = torch.tensor([[1.0, 2.0, 4.0]])
    torch.testing.assert_close(Sampling(0.5).probabilities(logits), (logits * 2).softmax(-1))
    assert Sampling(1e-6).probabilities(logits).tolist() == [[0.0, 0.0, 1.0]]


@pytest.mark.parametrize(
    ("top_p", "expected"),
    [
        (1.0, [0.5, 0.3, 0.15, 0.05]),
        (0.8, [0.625, 0.375, 0.0, 0.0]),  # two tokens reach 0.8 exactly
        (0.81, [0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0.0]),
        (0.5, [1.0, 0.0, 0.0, 0.0]),
        (0.01, [1.0, 0.0, 0.0, 0.0]),  # the best one always stays
    ],
)
def test_the_nucleus_is_the_fewest_best_tokens_that_reach_top_p(top_p, expected):
    spread = Sampling(1.0, top_p).probabilities(torch.tensor([[0.5, 0.3, 0.15, 0.05]], dtype=torch.float64).log())
    torch.testing.assert_close(spread, torch.tensor([expected]), rtol=1e-5, atol=1e-6)


def test_rows_are_cut_each_for_itself_wherever_their_best_tokens_stand():
    spread = Sampling(1.0, 0.6).probabilities(torch.tensor([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]]).log())
    torch.testing.assert_close(spread, torch.tensor([[0.0, 0.0, 1.0], [0.625, 0.375, 0.0]]))


def test_draws_without_replacement_come_in_the_order_of_their_probability():
    spread = torch.tensor([0.5, 0.3, 0.15, 0.05])
    drawn = Counter(map(tuple, draw(spread.expand(20_000, 4), 2, torch.Generator().manual_seed(0)).tolist()))
    pairs = list(itertools.permutations(range(4), 2))
    expected = [20_000 * float(spread[a] * spread[b] / (1 - spread[a])) for a, b in pairs]
    assert set(drawn) <= set(pairs)
    assert chi_square_z([drawn[pair] for pair in pairs], expected) < 3


def test_impossible_tokens_are_drawn_last():
    drawn = draw(torch.tensor([[0.0, 0.9, 0.0, 0.1]]).expand(200, 4), 3, torch.Generator().manual_seed(0))
    assert {tuple(sorted(row[:2])) for row in drawn.tolist()} == {(1, 3)}


# ------------------------------------------------------------------ one place


@st.composite
def spreads(draw, least: float = 0.0):
    weights = draw(st.lists(st.floats(least, 1), min_size=VOCABULARY, max_size=VOCABULARY).filter(lambda w: sum(w) > 0.1))
    return torch.tensor(weights) / sum(weights)


@given(spreads(), spreads(), st.integers(0, VOCABULARY), st.integers(0, 2**31))
def test_a_choice_is_always_possible(wanted, guess, count, seed):
    generator = torch.Generator().manual_seed(seed)
    tokens = draw(guess[None], count, generator)[0].tolist()
    assert wanted[speculative_choice(wanted, guess, tokens, generator)] > 0
    assert wanted[speculative_choice(wanted, None, tokens, generator)] > 0


@given(spreads(), st.integers(0, 2**31))
def test_a_guess_from_the_wanted_distribution_is_always_taken(wanted, seed):
    generator = torch.Generator().manual_seed(seed)
    tokens = draw(wanted[None], 1, generator)[0].tolist()
    assert speculative_choice(wanted, wanted, tokens, generator) == tokens[0]


def test_a_single_guess_is_accepted_as_often_as_the_distributions_overlap():
    """Leviathan et al.: the acceptance rate is the sum over tokens of the smaller probability."""
    wanted, guess = torch.tensor([0.6, 0.2, 0.2, 0.0]), torch.tensor([0.1, 0.2, 0.3, 0.4])
    generator, runs, taken = torch.Generator().manual_seed(0), 4000, 0
    for _ in range(runs):
        tokens = draw(guess[None], 1, generator)[0].tolist()
        taken += speculative_choice(wanted, guess, tokens, generator) == tokens[0]
    assert taken / runs == pytest.approx(0.5, abs=0.025)


def test_after_a_rejection_the_rest_of_both_distributions_decides():
    """Guess 0 is impossible for the target; the second, drawn from what is left of the guess, is then always right."""
    wanted, guess = torch.tensor([0.0, 0.5, 0.5]), torch.tensor([0.5, 0.25, 0.25])
    generator = torch.Generator().manual_seed(0)
    assert all(speculative_choice(wanted, guess, [0, second], generator) == second for second in (1, 2) for _ in range(50))


@pytest.mark.parametrize("count", range(VOCABULARY + 1))
@pytest.mark.parametrize("case", range(3))
def test_a_choice_has_the_wanted_distribution_whatever_was_guessed(count, case):
    generator = torch.Generator().manual_seed(case)
    wanted, guess = (torch.randn(VOCABULARY, generator=generator).mul(1.5).softmax(-1) for _ in range(2))
    if case == 2:
        guess[1], guess = 0.0, guess / (1 - guess[1])  # a token that the draft never says
        guess = guess / guess.sum()
    runs = 3000
    guesses = draw(guess.expand(runs, VOCABULARY), count, generator).tolist()
    seen = Counter(speculative_choice(wanted, guess, tokens, generator) for tokens in guesses)
    assert chi_square_z([seen[token] for token in range(VOCABULARY)], (wanted * runs).tolist()) < 3.5


def test_the_statistic_notices_a_wrong_rule():
    """Taking siblings as if each were drawn from the whole distribution, a common mistake, is caught with as many runs."""

    def wrong(wanted, guess, tokens, generator):
        for token in tokens:
            if torch.rand((), generator=generator) * guess[token] < wanted[token]:
                return token
            wanted = (wanted - guess).clamp_min(0)
            wanted = wanted / wanted.sum()
        return int(torch.multinomial(wanted, 1, generator=generator))

    generator = torch.Generator().manual_seed(1)
    wanted, guess = torch.tensor([0.05, 0.35, 0.3, 0.3]), torch.tensor([0.7, 0.15, 0.1, 0.05])
    runs = 3000
    guesses = draw(guess.expand(runs, VOCABULARY), 3, generator).tolist()
    right, mistaken = (
        [Counter(rule(wanted, guess, tokens, generator) for tokens in guesses)[token] for token in range(VOCABULARY)]
        for rule in (speculative_choice, wrong)
    )
    assert chi_square_z(right, (wanted * runs).tolist()) < 3.5 < 6 < chi_square_z(mistaken, (wanted * runs).tolist())


# ------------------------------------------------------------------ whole rounds


class Chain:
    """A language of random order-one transitions: [last token or start, vocabulary] logits."""

    def __init__(self, seed: int, sharp: float = 1.2):
        self.table = torch.randn(VOCABULARY + 1, VOCABULARY, generator=torch.Generator().manual_seed(seed)) * sharp

    def rows(self, tree: Tree, draft: list[int]) -> torch.Tensor:
        """Logits at every row of a proposal."""
        return self.table[[VOCABULARY, *draft]]

    def spread(self, sampling: Sampling, last: int = VOCABULARY) -> torch.Tensor:
        return sampling.probabilities(self.table[last][None])[0]


def propose(tree: Tree, language: Chain, sampling: Sampling, generator) -> Proposal:
    """A tree whose siblings are drawn without replacement, as the drafters draw."""
    ids: list[int] = [0] * len(tree)
    guesses = []
    for row in tree.inner:
        spread = language.spread(sampling, ids[row - 1] if row else VOCABULARY)
        guesses.append(spread)
        for node, token in zip(tree.children[row], draw(spread[None], len(tree.children[row]), generator)[0].tolist(), strict=True):
            ids[node] = token
    return Proposal(torch.tensor(ids), tree.parents, torch.ones(len(ids)), torch.stack(guesses))


def best_first(tree: Tree, language: Chain) -> Proposal:
    """A tree of the draft's best tokens: nothing is drawn."""
    ids: list[int] = [0] * len(tree)
    for row in tree.inner:
        order = language.table[ids[row - 1] if row else VOCABULARY].topk(len(tree.children[row])).indices.tolist()
        for node, token in zip(tree.children[row], order, strict=True):
            ids[node] = token
    return Proposal(torch.tensor(ids), tree.parents, torch.ones(len(ids)))


CHAIN = Tree((-1, 0, 1))
FORK = Tree((-1, -1, -1, 0, 0, 1, 3))
STATIC = Tree(static_plan(2, torch.device("cpu"))[1])


def joint(texts: Counter, target: Chain, sampling: Sampling, length: int, runs: int) -> float:
    """How far the texts of this length are off the target's distribution over all of them."""
    observed, expected = [], []
    for text in itertools.product(range(VOCABULARY), repeat=length):
        chance, last = 1.0, VOCABULARY
        for token in text:
            chance *= float(target.spread(sampling, last)[token])
            last = token
        observed.append(texts[text])
        expected.append(chance * runs)
    return chi_square_z(observed, expected)


def run(judge, make, target: Chain, sampling: Sampling, generator, length: int, runs: int) -> Counter:
    """Texts whose beginning is one round's and whose rest the target draws alone."""
    texts: Counter = Counter()
    for _ in range(runs):
        proposal = make()
        tree = Tree(proposal.parents)
        draft, verdict, _ = judge(proposal, target.rows(tree, proposal.ids.tolist()))
        text = [*(draft[node] for node in verdict.nodes), verdict.own]
        while len(text) < length:
            text.append(int(torch.multinomial(target.spread(sampling, text[-1]), 1, generator=generator)))
        texts[tuple(text[:length])] += 1
    return texts


@pytest.mark.parametrize(
    ("tree", "sampling", "drawn"),
    [
        *itertools.product((CHAIN, FORK, STATIC), (Sampling(1.0), Sampling(0.7, 0.8)), (True,)),
        (STATIC, Sampling(1.0), False),
    ],
)
def test_a_rounds_text_has_the_targets_distribution(tree, sampling, drawn):
    target, draft, generator, runs = Chain(0), Chain(1), torch.Generator().manual_seed(2), 2500

    def make():
        return propose(tree, draft, sampling, generator) if drawn else best_first(tree, draft)

    judge = StrictVerifier(Sampler(sampling, generator)).judge
    length = 3 if tree is CHAIN else 2
    texts = run(judge, make, target, sampling, generator, length, runs)
    assert joint(texts, target, sampling, length, runs) < 3.5


def test_lvspec_with_every_knob_shut_keeps_the_distribution_and_open_it_does_not():
    target, draft, sampling, runs = Chain(0), Chain(1), Sampling(1.0), 1500
    off = []
    for rules in (Rules(0.5, shift=0), Rules(9.0, plausibility=0.0, top_k=4, window=0, entropy_gate=0.0, shift=0)):
        generator = torch.Generator().manual_seed(3)
        verifier = LooseVerifier(rules, Sampler(sampling, generator))
        texts = run(verifier.judge, lambda g=generator: propose(CHAIN, draft, sampling, g), target, sampling, generator, 2, runs)
        off.append(joint(texts, target, sampling, 2, runs))
    assert off[0] < 3.5
    assert off[1] > 10, "loose acceptance leans towards the draft"


def test_choices_are_drawn_when_asked_for_and_then_stay():
    generator = torch.Generator().manual_seed(0)
    target = torch.full((4, VOCABULARY), 1 / VOCABULARY)
    choices = SampledChoices(CHAIN, [0, 1, 2], target, target[:3], generator)
    assert len(choices) == 4
    assert list(choices) == list(choices)
    assert verify_strict([0, 1, 2], choices).kinds == ("exact",) * 3
    before = generator.get_state()
    lazy = SampledChoices(FORK, [0, 1, 2, 0, 1, 0, 0], torch.eye(4)[[3] * 8], None, generator)
    assert verify_strict_tree(FORK, [0, 1, 2, 0, 1, 0, 0], lazy).own == 3
    assert len(lazy._drawn) == 1, "rows that are not reached are not drawn"
    assert not torch.equal(generator.get_state(), before)
