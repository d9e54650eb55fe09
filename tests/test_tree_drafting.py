"""Branching drafters: the trees are those of the papers, and the draft's cache keeps in step with the text."""

from __future__ import annotations

import itertools

import pytest
import torch

from lvspec_core.sampling import Sampling
from lvspec_core.tree_drafting import STATIC_PATHS, DynamicTreeDrafter, StaticTreeDrafter, static_plan
from lvspec_core.trees import tree_of


@pytest.fixture
def setup(random_pair, make_clip):
    with torch.inference_mode():
        draft = random_pair.draft
        prompt = draft.encode(make_clip(), "Describe the video.")
        stream = draft.prefill(prompt, draft.video_features(prompt), len(prompt.tail) + 80)
        stream.append(prompt.tail[:-1])
        return stream, prompt.tail[-1:]


def logprobs(stream, last, text):
    """The draft's log-probabilities after last + text, read alone."""
    ids = torch.cat([last, torch.tensor(text, dtype=torch.long)])
    return stream.model.head(stream.fork().append(ids)[0, -1]).log_softmax(-1)


def words(proposal) -> list[tuple[int, ...]]:
    """The text that each node stands for."""
    ids, tree = proposal.ids.tolist(), tree_of(proposal.parents)
    return [tuple(ids[step] for step in tree.path(node)) for node in range(len(ids))]


def ranked(stream, last, text, path) -> tuple[int, ...]:
    """The words that a path of child ranks stands for."""
    said: list[int] = []
    for rank in path:
        said.append(int(logprobs(stream, last, [*text, *said]).topk(5).indices[int(rank)]))
    return tuple(said)


DRAFTERS = {
    "static": StaticTreeDrafter,
    "dynamic": lambda stream, last, vocabulary, calibration=None: DynamicTreeDrafter(stream, last, vocabulary, calibration, 12, 3),
}


def test_the_static_tree_is_that_of_specvlms_code():
    assert len(STATIC_PATHS) == len(set(STATIC_PATHS)) == 25
    assert [sum(len(path) == deep for path in STATIC_PATHS) for deep in range(1, 6)] == [4, 8, 8, 3, 2]
    assert all(path[:-1] in ("", *STATIC_PATHS) for path in STATIC_PATHS)
    assert ",".join(STATIC_PATHS) == "0,1,2,3,00,01,02,10,11,20,21,30,000,001,002,010,011,020,021,100,0000,0001,0002,00000,00001"


@torch.inference_mode()
@pytest.mark.parametrize("depth", [1, 2, 3, 5, 9])
def test_a_static_tree_holds_the_words_of_its_child_ranks(setup, depth):
    stream, last = setup
    origin = stream.fork()
    proposal = StaticTreeDrafter(stream, last, stream.model.vocabulary).propose(depth)
    paths = [path for path in STATIC_PATHS if len(path) <= depth]
    assert words(proposal) == [ranked(origin, last, [], path) for path in paths]


def grown(stream, last, nodes, depth, width) -> dict[tuple[int, ...], float]:
    """EAGLE-2's tree, found by reading every path alone: words -> log-probability of the path."""
    found: dict[tuple[int, ...], float] = {}
    front = {(): 0.0}
    for _ in range(depth):
        level = {}
        for text, value in front.items():
            best = logprobs(stream, last, list(text)).topk(width)
            for token, gain in zip(best.indices.tolist(), best.values.tolist(), strict=True):
                level[(*text, token)] = value + gain
        found |= level
        front = dict(sorted(level.items(), key=lambda item: -item[1])[:width])
    return dict(sorted(found.items(), key=lambda item: -item[1])[:nodes])


@torch.inference_mode()
@pytest.mark.parametrize(("nodes", "depth", "width"), [(12, 4, 3), (25, 6, 4), (3, 1, 2), (5, 1, 8), (1, 4, 3), (6, 6, 1), (64, 2, 3)])
def test_a_dynamic_tree_holds_the_most_probable_paths(setup, nodes, depth, width):
    stream, last = setup
    expected = grown(stream, last, nodes, depth, width)
    proposal = DynamicTreeDrafter(stream.fork(), last, stream.model.vocabulary, None, nodes, width).propose(depth)
    assert len(proposal) == min(nodes, width + (depth - 1) * width**2)
    assert set(words(proposal)) == set(expected)


@torch.inference_mode()
def test_equal_values_never_part_a_token_from_the_one_before_it(setup):
    """A draft that is certain gives a token and its follower the same value."""
    stream, last = setup
    head = stream.model.head
    certain = torch.nn.Linear(head.in_features, head.out_features, bias=False)
    certain.weight.copy_(head.weight * 1e4)
    stream.model.head = certain
    try:
        for nodes in range(1, 9):
            proposal = DynamicTreeDrafter(stream.fork(), last, stream.model.vocabulary, None, nodes, 3).propose(6)
            assert all(-1 <= parent < node for node, parent in enumerate(proposal.parents))
            assert len(set(words(proposal))) == nodes
    finally:
        stream.model.head = head


@torch.inference_mode()
@pytest.mark.parametrize("kind", DRAFTERS)
def test_the_next_tree_continues_whatever_path_was_committed(setup, kind):
    stream, last = setup
    first = DRAFTERS[kind](stream.fork(), last, stream.model.vocabulary).propose(5)
    tree = tree_of(first.parents)
    for path in [(), *(tree.path(node) for node in range(len(tree)))]:
        drafter = DRAFTERS[kind](stream.fork(), last, stream.model.vocabulary)
        proposal = drafter.propose(5)
        drafter.learn(proposal, path, torch.tensor([50]))
        text = torch.tensor([proposal.ids[node] for node in path] + [50])
        fresh = DRAFTERS[kind](stream.fork(), torch.cat([last, text]), stream.model.vocabulary)
        second, expected = drafter.propose(3), fresh.propose(3)
        assert (second.ids.tolist(), second.parents) == (expected.ids.tolist(), expected.parents), path


@torch.inference_mode()
@pytest.mark.parametrize("kind", DRAFTERS)
def test_an_empty_proposal_leaves_the_new_token_unread(setup, kind):
    stream, last = setup
    drafter = DRAFTERS[kind](stream.fork(), last, stream.model.vocabulary)
    empty = drafter.propose(0)
    assert len(empty) == 0
    drafter.learn(empty, (), torch.tensor([50]))
    fresh = DRAFTERS[kind](stream.fork(), torch.cat([last, torch.tensor([50])]), stream.model.vocabulary)
    assert drafter.propose(3).ids.tolist() == fresh.propose(3).ids.tolist()


@torch.inference_mode()
@pytest.mark.parametrize("kind", DRAFTERS)
def test_ids_outside_the_shared_vocabulary_are_never_proposed(setup, kind):
    stream, last = setup
    limit = int(DRAFTERS[kind](stream.fork(), last, stream.model.vocabulary).propose(5).ids.max())
    assert int(DRAFTERS[kind](stream.fork(), last, limit).propose(5).ids.max()) < limit


@torch.inference_mode()
@pytest.mark.parametrize("kind", DRAFTERS)
def test_relevance_belongs_to_the_position_so_siblings_share_it(setup, kind, random_pair):
    stream, last = setup
    calibration = random_pair.calibration
    assert DRAFTERS[kind](stream.fork(), last, stream.model.vocabulary).propose(3).relevance is None
    proposal = DRAFTERS[kind](stream.fork(), last, stream.model.vocabulary, calibration).propose(5)
    for text, share in zip(words(proposal), proposal.relevance.tolist(), strict=True):
        alone, watch = stream.fork(), calibration.watch(stream)
        alone.append(torch.cat([last, torch.tensor(text[:-1], dtype=torch.long)]), watch)
        assert share == pytest.approx(float(watch.take()[0][-1]), abs=1e-5)


@torch.inference_mode()
def test_an_adaptive_tree_ends_where_no_path_is_probable_enough(setup):
    stream, last = setup

    def depth(adaptive):
        proposal = DynamicTreeDrafter(stream.fork(), last, stream.model.vocabulary, None, 64, 3, adaptive).propose(6)
        return max(tree_of(proposal.parents).depths) + 1

    found = grown(stream, last, 10**6, 6, 3)
    best = [max(value for text, value in found.items() if len(text) == deep) for deep in range(1, 7)]
    for deep, value in itertools.pairwise(range(1, 7)):
        assert depth(float(torch.tensor(best[deep - 1]).exp()) * 1.01) == deep, value
    assert depth(0.0) == 6


@torch.inference_mode()
def test_a_drawn_static_tree_has_distinct_siblings_and_says_what_they_were_drawn_from(setup):
    stream, last = setup
    generator = torch.Generator().manual_seed(1)
    sampling = Sampling(1.0)
    proposal = StaticTreeDrafter(stream.fork(), last, stream.model.vocabulary, None, sampling, generator).propose(5)
    tree, ids = tree_of(proposal.parents), proposal.ids.tolist()
    texts = [(), *words(proposal)]
    for row, place in tree.inner.items():
        expected = logprobs(stream, last, list(texts[row])).exp()
        torch.testing.assert_close(proposal.guesses[place], expected, rtol=1e-3, atol=1e-5)
        siblings = [ids[node] for node in tree.children[row]]
        assert len(set(siblings)) == len(siblings)
    again = StaticTreeDrafter(stream.fork(), last, stream.model.vocabulary, None, sampling, torch.Generator().manual_seed(1)).propose(5)
    assert again.ids.tolist() == ids


def test_a_plan_is_worked_out_once():
    assert static_plan(3, torch.device("cpu")) is static_plan(3, torch.device("cpu"))
