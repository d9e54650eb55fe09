"""The proposing side keeps its own cache in step with the text."""

from __future__ import annotations

import pytest
import torch

from lvspec_core.drafting import ChainDrafter, NoDrafter


@pytest.fixture
def setup(random_pair, make_clip):
    with torch.inference_mode():
        draft = random_pair.draft
        prompt = draft.encode(make_clip(), "Describe the video.")
        stream = draft.prefill(prompt, draft.video_features(prompt), len(prompt.tail) + 40)
        stream.append(prompt.tail[:-1])
        return stream, prompt.tail[-1:]


def greedy(stream, last, text, count):
    """The draft's greedy continuation of last + text, on a fork."""
    fork, ids = stream.fork(), torch.cat([last, torch.tensor(text, dtype=torch.long)])
    out = []
    for _ in range(count):
        ids = stream.model.head(fork.append(ids)[0, -1:]).argmax(-1)
        out.append(int(ids))
    return out


@torch.inference_mode()
@pytest.mark.parametrize("accepted", [0, 1, 3, 4])
def test_the_next_chain_continues_what_was_committed_however_much_was_accepted(setup, accepted):
    stream, last = setup
    origin = stream.fork()
    drafter = ChainDrafter(stream, last, stream.model.vocabulary)
    first = drafter.propose(4)
    assert first.ids.tolist() == greedy(origin, last, [], 4)
    assert first.parents == (-1, 0, 1, 2)
    drafter.learn(first, range(accepted), torch.tensor([50]))
    text = [*first.ids.tolist()[:accepted], 50]
    assert drafter.propose(4).ids.tolist() == greedy(origin, last, text, 4)


@torch.inference_mode()
def test_an_empty_proposal_leaves_the_new_token_unread(setup):
    stream, last = setup
    origin = stream.fork()
    drafter = ChainDrafter(stream, last, stream.model.vocabulary)
    empty = drafter.propose(0)
    assert len(empty) == 0
    drafter.learn(empty, (), torch.tensor([50]))
    assert drafter.propose(3).ids.tolist() == greedy(origin, last, [50], 3)


@torch.inference_mode()
def test_ids_outside_the_shared_vocabulary_are_never_proposed(setup):
    stream, last = setup
    usual = ChainDrafter(stream.fork(), last, stream.model.vocabulary).propose(12).ids
    limit = int(usual.max())
    assert int(ChainDrafter(stream.fork(), last, limit).propose(12).ids.max()) < limit


@torch.inference_mode()
def test_relevance_is_taken_while_drafting(setup, random_pair):
    stream, last = setup
    assert ChainDrafter(stream.fork(), last, stream.model.vocabulary).propose(3).relevance is None
    proposal = ChainDrafter(stream, last, stream.model.vocabulary, random_pair.calibration).propose(3)
    assert proposal.relevance.shape == (3,)
    assert ((proposal.relevance >= 0) & (proposal.relevance <= 1)).all()


def test_ar_proposes_nothing():
    drafter = NoDrafter(torch.device("cpu"))
    assert len(drafter.propose(8)) == 0
    drafter.learn(drafter.propose(8), (), torch.tensor([1]))
    assert drafter.propose(8).ids.shape == (0,)
