"""Every method with every way to propose: lossless where it must be, budgets exact, adaptive drafts, sampling that repeats."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch
from test_decoding import SETTINGS, decoded, identical
from test_race import lanes
from test_sampling import chi_square_z

from lvspec_core.decoding import Lane, decode
from lvspec_core.drafting import ChainDrafter
from lvspec_core.prefill import Prefilling
from lvspec_core.proposals import open_drafter, proposal_depth, round_shapes, sampling_of
from lvspec_core.race import run_race
from lvspec_core.records import Round, from_dict, to_dict
from lvspec_core.sampling import Sampler
from lvspec_core.settings import METHODS, PROPOSALS
from lvspec_core.verifiers import StrictVerifier

TREES = PROPOSALS[1:]
WIDE = {"tree_nodes": 12, "tree_depth": 4, "tree_width": 3}


def proposing(proposal: str, **more):
    return replace(SETTINGS, proposal=proposal, **WIDE | more)


@pytest.mark.parametrize("proposal", TREES)
@pytest.mark.parametrize("seed", range(4))
def test_strict_methods_are_ar_with_trees(random_pair, make_clip, proposal, seed):
    clip = make_clip(frames=4 + seed % 3, seed=seed)
    expected = decoded(random_pair, clip, SETTINGS, "ar")[0].token_ids
    for method, adaptive in (("naive_sd", 0.0), ("specvlm", 0.0), ("naive_sd", 0.3)):
        assert decoded(random_pair, clip, proposing(proposal, adaptive=adaptive), method)[0].token_ids == expected


@pytest.mark.parametrize("proposal", TREES)
def test_lvspec_with_every_knob_shut_is_lossless_with_trees(random_pair, make_clip, proposal):
    for seed in range(3):
        shut = proposing(proposal, anchor_quantile=0.0, shift=0)
        clip = make_clip(seed=seed)
        assert decoded(random_pair, clip, shut, "lvspec")[0].token_ids == decoded(random_pair, clip, SETTINGS, "ar")[0].token_ids


@pytest.mark.parametrize("proposal", TREES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("budget", [1, 2, 7])
def test_the_token_budget_is_exact_with_trees(random_pair, make_clip, method, proposal, budget):
    lane, rounds = decoded(random_pair, make_clip(), proposing(proposal, max_new_tokens=budget), method)
    assert len(lane.token_ids) == sum(len(outcome.tokens) for outcome in rounds) == budget
    assert lane.finish == "token budget"


@pytest.mark.parametrize("proposal", TREES)
@pytest.mark.parametrize("method", METHODS)
def test_rounds_with_trees_account_for_themselves(random_pair, make_clip, method, proposal):
    lane, rounds = decoded(random_pair, make_clip(seed=5), proposing(proposal), method)
    assert [token.id for outcome in rounds for token in outcome.tokens] == lane.token_ids
    for outcome in rounds:
        assert len(outcome.tokens) == outcome.accepted + 1
        assert [t.id for t in outcome.tokens[:-1]] == list(outcome.proposed[: outcome.accepted])
        assert outcome.parents[: outcome.accepted] == tuple(range(-1, outcome.accepted - 1))[: len(outcome.parents)]
        full = (outcome.parents and (outcome.accepted - 1) not in outcome.parents) or not outcome.parents
        assert (outcome.tokens[-1].verdict == "correction") is not (full or method == "ar")
    assert max(len(outcome.proposed) for outcome in rounds) == (0 if method == "ar" else 25 if proposal == "static_tree" else 12)


def test_a_tree_accepts_more_than_a_chain_as_deep(random_pair, make_clip):
    def rounds(settings):
        return sum(decoded(random_pair, make_clip(seed=seed), settings, "naive_sd")[0].rounds for seed in range(3))

    chain = rounds(replace(SETTINGS, draft_length=5))
    assert rounds(proposing("static_tree")) < chain
    assert rounds(proposing("dynamic_tree", tree_depth=5)) < chain


@pytest.mark.parametrize("proposal", TREES)
@pytest.mark.parametrize("place", [0, 2, 3, 6])
def test_end_of_text_ends_the_lane_even_inside_a_tree(random_pair, make_clip, proposal, place):
    pair, clip = identical(random_pair), make_clip(seed=2)
    text = decoded(pair, clip, replace(SETTINGS, max_new_tokens=12), "ar")[0].token_ids
    for method in ("naive_sd", "lvspec"):
        lane, rounds = decoded(pair, clip, proposing(proposal, pruning_ratio=0.0), method, [text[place]])
        assert lane.finish == "end of text"
        assert lane.token_ids == text[: text.index(text[place]) + 1]
        assert rounds[-1].accepted <= len(rounds[-1].tokens)


@pytest.mark.parametrize("proposal", TREES)
def test_the_same_position_has_the_same_relevance_with_trees(random_pair, make_clip, proposal):
    """What a tree's draft saw is what an annotator sees who reads the text alone, a correction's position included."""
    records = list(run_race(random_pair, make_clip(), proposing(proposal, methods=("ar", "lvspec"), anchor_quantile=0.0, shift=0)))
    scored = {
        name: [t.relevance for r in records if isinstance(r, Round) and r.lane == name for t in r.tokens] for name in ("ar", "lvspec")
    }
    assert scored["lvspec"] == pytest.approx(scored["ar"], abs=2e-4)


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_records_of_every_proposal_survive_json(random_pair, make_clip, proposal):
    records = list(run_race(random_pair, make_clip(), proposing(proposal)))
    assert [from_dict(to_dict(record)) for record in records] == records
    branching = [bool(record.parents) for record in records if isinstance(record, Round) and record.proposed]
    assert any(branching) is (proposal != "chain")
    assert all(end.error is None for end in lanes(records).values())


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_every_pass_of_a_round_was_warmed_up(random_pair, make_clip, monkeypatch, proposal):
    settings = proposing(proposal, methods=("naive_sd",)).validated()
    prefilling = Prefilling(random_pair, make_clip(), settings)
    list(prefilling.run())
    seen = set()
    for model in (random_pair.target, random_pair.draft):

        def spy(hidden, *args, original=model.run, **kwargs):
            seen.add(hidden.shape[1])
            return original(hidden, *args, **kwargs)

        monkeypatch.setattr(model, "run", spy)
    lane = prefilling.lanes["naive_sd"]
    lane.end_ids = frozenset()
    assert list(decode(lane))
    assert seen <= round_shapes(settings)


# ------------------------------------------------------------------ adaptive chains


@torch.inference_mode()
def test_an_adaptive_chain_ends_with_the_first_unsure_token(random_pair, make_clip):
    draft = random_pair.draft
    prompt = draft.encode(make_clip(), "Describe the video.")
    stream = draft.prefill(prompt, draft.video_features(prompt), len(prompt.tail) + 40)
    stream.append(prompt.tail[:-1])
    last = prompt.tail[-1:]
    full = ChainDrafter(stream.fork(), last, draft.vocabulary).propose(8).ids
    logits = draft.head(stream.fork().append(torch.cat([last, full[:-1]]))[0])
    sure = logits.softmax(-1).gather(1, full[:, None])[:, 0].tolist()
    for threshold in (0.0, 0.2, 0.5, 0.9, 1.0):
        expected = next((place + 1 for place, share in enumerate(sure) if share < threshold), 8)
        proposal = ChainDrafter(stream.fork(), last, draft.vocabulary, adaptive=threshold).propose(8)
        assert proposal.ids.tolist() == full[:expected].tolist()
        assert proposal.parents == tuple(range(-1, expected - 1))


@torch.inference_mode()
def test_where_fillers_are_loose_only_a_doubtful_anchor_ends_an_adaptive_chain(random_pair, make_clip):
    draft, calibration = random_pair.draft, random_pair.calibration
    prompt = draft.encode(make_clip(), "Describe the video.")
    stream = draft.prefill(prompt, draft.video_features(prompt), len(prompt.tail) + 40)
    stream.append(prompt.tail[:-1])
    last = prompt.tail[-1:]
    full = ChainDrafter(stream.fork(), last, draft.vocabulary, calibration).propose(8)
    lines = sorted(full.relevance.tolist())
    for line in (0.0, lines[3], lines[-1], 2.0):
        for adaptive in (0.5, 1.0):
            proposal = ChainDrafter(stream.fork(), last, draft.vocabulary, calibration, adaptive, line=line).propose(8)
            plain = ChainDrafter(stream.fork(), last, draft.vocabulary, adaptive=adaptive)
            doubtful = [place for place in range(8) if _ends(plain, full, place)]
            expected = next((place + 1 for place in doubtful if float(full.relevance[place]) >= line), 8)
            assert proposal.ids.tolist() == full.ids[:expected].tolist()
            assert len(proposal.relevance) == expected


def _ends(drafter: ChainDrafter, full, place: int) -> bool:
    """Whether the draft gives the chain's token at this place less than the drafter's limit."""
    stream = drafter.stream.fork()
    logits = stream.model.head(stream.append(torch.cat([drafter.unread, full.ids[:place]]))[0, -1:])
    return float(logits.softmax(-1)[0, full.ids[place]]) < drafter.adaptive


def test_adaptive_chains_stay_lossless_and_waste_less(random_pair, make_clip):
    clip = make_clip(seed=3)
    expected = decoded(random_pair, clip, SETTINGS, "ar")[0].token_ids
    rates = []
    for adaptive in (0.0, 0.5):
        lane, rounds = decoded(random_pair, clip, replace(SETTINGS, draft_length=8, adaptive=adaptive), "naive_sd")
        assert lane.token_ids == expected
        rates.append(sum(o.accepted for o in rounds) / sum(len(o.proposed) for o in rounds))
    assert rates[1] > rates[0]


# ------------------------------------------------------------------ sampling


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_a_seed_makes_a_sampled_race_repeat_and_another_does_not(random_pair, make_clip, proposal):
    def race(seed, methods=METHODS):
        settings = proposing(proposal, temperature=0.8, top_p=0.95, seed=seed, methods=methods, max_new_tokens=10)
        return {name: end.token_ids for name, end in lanes(list(run_race(random_pair, make_clip(), settings))).items()}

    first, other = race(1), race(2)
    assert race(1) == first
    assert all(other[name] != ids for name, ids in first.items())
    assert race(1, ("specvlm",))["specvlm"] == first["specvlm"], "alone as in company"


def test_a_claim_of_the_same_distribution_is_made_where_it_holds(random_pair, make_clip):
    def claims(pair, **more):
        return {n: end.same_distribution for n, end in lanes(list(run_race(pair, make_clip(), replace(SETTINGS, **more)))).items()}

    assert claims(random_pair) == dict.fromkeys(METHODS)
    assert claims(random_pair, temperature=0.7) == {"ar": True, "naive_sd": True, "specvlm": True, "lvspec": None}
    assert claims(replace(random_pair, calibration=None), temperature=0.7)["lvspec"] is True


@pytest.mark.parametrize("proposal", PROPOSALS)
def test_a_perfect_draft_is_always_accepted_when_both_sample(random_pair, make_clip, proposal):
    """The first guess for a place is drawn from the very distribution that is wanted; a dynamic tree's guesses are not drawn."""
    settings = proposing(proposal, temperature=1.0, max_new_tokens=24)
    _, rounds = decoded(identical(random_pair), make_clip(), settings, "naive_sd")
    depth = proposal_depth(settings)
    if proposal != "dynamic_tree":
        assert [outcome.accepted for outcome in rounds[:-1]] == [depth] * (len(rounds) - 1)
    assert sum(outcome.accepted for outcome in rounds) > 0


def test_a_low_temperature_is_greedy(random_pair, make_clip):
    greedy = decoded(random_pair, make_clip(), SETTINGS, "ar")[0].token_ids
    for proposal in PROPOSALS:
        cold = proposing(proposal, temperature=1e-6)
        assert decoded(random_pair, make_clip(), cold, "naive_sd")[0].token_ids == greedy
    assert sampling_of(SETTINGS) is None


@pytest.mark.parametrize("proposal", PROPOSALS)
@torch.inference_mode()
def test_sampled_texts_have_ars_distribution(random_pair, make_clip, proposal):
    """First two tokens of many lanes against the target's own probabilities, with the real models and caches."""
    settings = proposing(proposal, temperature=0.5, adaptive=0.4, max_new_tokens=4, methods=("naive_sd",)).validated()
    prefilling = Prefilling(random_pair, make_clip(), settings)
    list(prefilling.run())
    target, draft, last = prefilling._target["naive_sd"], prefilling._draft["naive_sd"], prefilling.prompt.tail[-1:]
    sampling = sampling_of(settings)
    generator = torch.Generator().manual_seed(5)

    def lane():
        drafter = open_drafter(settings, draft.fork(), last, random_pair.vocabulary, None, generator)
        verifier = StrictVerifier(Sampler(sampling, generator))
        made = Lane("naive_sd", target.fork(), drafter, verifier, last, 4, proposal_depth(settings), random_pair.vocabulary)
        made.end_ids = frozenset()
        while len(made.token_ids) < 2:
            made.round()
        return tuple(made.token_ids[:2])

    def spread(text):
        hidden = target.fork().append(torch.cat([last, torch.tensor(text, dtype=torch.long)]))
        return sampling.probabilities(target.model.head(hidden[0, -1:]))[0]

    runs = 250
    texts = Counter(lane() for _ in range(runs))
    first = spread([])
    cells = {}
    for token in first.topk(3).indices.tolist():
        second = spread([token])
        for other in second.topk(3).indices.tolist():
            cells[token, other] = float(first[token] * second[other])
    observed = [texts[cell] for cell in cells]
    expected = [share * runs for share in cells.values()]
    assert chi_square_z([*observed, runs - sum(observed)], [*expected, runs - sum(expected)]) < 3.5
