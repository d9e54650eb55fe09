"""Which draft tokens enter: every rule where it accepts, where it rejects, and at its border."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lvspec_core.drafting import Proposal
from lvspec_core.verification import Rules, Scores, find_insertions, verify_loose, verify_strict
from lvspec_core.verifiers import LooseVerifier, StrictVerifier

FILLER, ANCHOR = 0.1, 0.9
RULES = Rules(threshold=0.5, plausibility=0.2, top_k=3, window=0, entropy_gate=0.0, shift=0)


def scores(*rows: dict[int, float]) -> Scores:
    """Target positions as {token: probability}, best first."""
    ids = [list(row) for row in rows]
    return Scores([row[0] for row in ids], ids, [[math.log(p) for p in row.values()] for row in rows])


def sure(token: int) -> dict[int, float]:
    return {token: 0.98, 901: 0.01, 902: 0.01}


def torn(best: int, second: int, share: float = 0.4, third: int = 903) -> dict[int, float]:
    return {best: 0.5, second: share, third: 0.1}


@pytest.mark.parametrize(
    ("draft", "choices", "accepted", "own", "own_kind"),
    [
        ([], [7], 0, 7, "bonus"),
        ([1, 2, 3], [1, 2, 3, 4], 3, 4, "bonus"),
        ([1, 9, 3], [1, 2, 3, 4], 1, 2, "correction"),
        ([9, 2, 3], [1, 2, 3, 4], 0, 1, "correction"),
        ([1, 2, 9], [1, 2, 3, 4], 2, 3, "correction"),
    ],
)
def test_strict_accepts_the_targets_own_choices_and_nothing_after_a_mismatch(draft, choices, accepted, own, own_kind):
    verdict = verify_strict(draft, choices)
    assert verdict.kinds == ("exact",) * accepted
    assert (verdict.own, verdict.own_kind) == (own, own_kind)


def test_a_plausible_filler_enters_loosely_and_the_next_token_is_judged_after_it():
    verdict = verify_loose([1, 5, 3], scores(sure(1), torn(2, 5), sure(3), sure(4)), [FILLER] * 3, RULES)
    assert verdict.kinds == ("exact", "loose", "exact")
    assert (verdict.own, verdict.own_kind) == (4, "bonus")


@pytest.mark.parametrize(("relevance", "accepted"), [(0.49, 2), (0.5, 0), (0.9, 0)])
def test_an_anchor_is_never_loosened_and_the_threshold_itself_counts_as_anchor(relevance, accepted):
    verdict = verify_loose([5, 3], scores(torn(2, 5), sure(3), sure(4)), [relevance, FILLER], RULES)
    assert verdict.accepted == accepted


@pytest.mark.parametrize(("share", "accepted"), [(0.09, 0), (0.101, 1), (0.4, 1)])
def test_plausibility_is_a_share_of_the_best_choices_probability(share, accepted):
    """ε = 0.2 of the best choice's 0.5 is 0.1."""
    assert verify_loose([5], scores({2: 0.5, 5: share, 903: 0.01}, sure(4)), [FILLER], RULES).accepted == accepted


@pytest.mark.parametrize(("top_k", "accepted"), [(1, 0), (2, 0), (3, 1)])
def test_a_filler_must_be_among_the_k_best(top_k, accepted):
    rules = Rules(0.5, plausibility=0.0, top_k=top_k, window=0, entropy_gate=0.0, shift=0)
    assert verify_loose([5], scores({2: 0.4, 3: 0.3, 5: 0.3}, sure(4)), [FILLER], rules).accepted == accepted


@pytest.mark.parametrize(
    ("window", "draft", "accepted"),
    [
        (0, [5], 1),  # off: the last draft token needs no evidence
        (1, [5], 0),  # no draft token after it, no evidence
        (1, [5, 3], 2),
        (1, [5, 8], 0),  # the target disagrees at once
        (2, [5, 3, 8], 0),
        (1, [5, 3, 8], 2),
        (2, [5, 3], 2),  # a window cut short by the proposal's end
    ],
)
def test_the_target_must_agree_again_within_the_window(window, draft, accepted):
    rules = Rules(0.5, plausibility=0.2, top_k=3, window=window, entropy_gate=0.0, shift=0)
    rows = [torn(2, 5), sure(3), sure(4), sure(6)][: len(draft) + 1]
    assert verify_loose(draft, scores(*rows), [FILLER] * len(draft), rules).accepted == accepted


@pytest.mark.parametrize(("gate", "accepted"), [(0.0, 1), (0.3, 1), (0.99, 0)])
def test_a_position_where_the_target_hardly_hesitates_is_not_loosened(gate, accepted):
    rules = Rules(0.5, plausibility=0.2, top_k=3, window=0, entropy_gate=gate, shift=0)
    assert verify_loose([5], scores(torn(2, 5), sure(4)), [FILLER], rules).accepted == accepted


def test_entropy_is_scaled_to_one_for_three_equal_choices_and_zero_for_one():
    assert scores({1: 1 / 3, 2: 1 / 3, 3: 1 / 3}).entropy(0) == pytest.approx(1.0)
    assert scores({1: 1.0, 2: 1e-30, 3: 1e-30}).entropy(0) == pytest.approx(0.0, abs=1e-6)
    assert Scores([1], [[1]], [[0.0]]).entropy(0) == 0.0


SHIFTING = Rules(0.5, plausibility=0.2, top_k=3, window=1, entropy_gate=0.0, shift=2)


def test_an_inserted_filler_is_tolerated_where_the_target_still_wants_the_same_anchor_after_it():
    """Draft: "very small circle", target: "small circle"; after "very" it still says "small"."""
    very, small, circle, end = 5, 2, 3, 4
    rows = scores(torn(small, very), sure(small), sure(circle), sure(end))
    verdict = verify_loose([very, small, circle], rows, [ANCHOR, ANCHOR, ANCHOR], SHIFTING)
    assert verdict.kinds == ("shifted", "exact", "exact")
    assert (verdict.own, verdict.own_kind) == (end, "bonus")


def test_a_wrong_anchor_is_no_insertion_because_the_target_goes_on_after_it():
    """Draft: "large circle", target: "small circle"; after "large" it says "circle"."""
    large, small, circle = 5, 2, 3
    verdict = verify_loose([large, circle], scores(torn(small, large), sure(circle), sure(4)), [ANCHOR, ANCHOR], SHIFTING)
    assert verdict.accepted == 0
    assert (verdict.own, verdict.own_kind) == (small, "correction")


def test_a_delayed_anchor_that_the_draft_gets_wrong_is_corrected_after_the_insertion():
    very, small, large = 5, 2, 6
    verdict = verify_loose([very, large, 3], scores(torn(small, very), torn(small, large), sure(3), sure(4)), [FILLER] * 3, SHIFTING)
    assert verdict.kinds == ("shifted",)
    assert (verdict.own, verdict.own_kind) == (small, "correction")


@pytest.mark.parametrize(("shift", "accepted"), [(0, 0), (1, 0), (2, 3)])
def test_the_shift_knob_bounds_how_far_an_anchor_may_be_delayed(shift, accepted):
    rules = Rules(0.5, plausibility=0.2, top_k=3, window=1, entropy_gate=0.0, shift=shift)
    rows = scores(torn(2, 5), torn(6, 7), sure(2), sure(4))
    assert verify_loose([5, 7, 2], rows, [ANCHOR, FILLER, ANCHOR], rules).accepted == accepted


def test_an_insertion_may_not_hold_a_second_anchor():
    rows = scores(torn(2, 5), torn(6, 7), sure(2), sure(4))
    assert verify_loose([5, 7, 2], rows, [ANCHOR, ANCHOR, ANCHOR], SHIFTING).accepted == 0


def test_an_implausible_insertion_is_refused():
    rows = scores(torn(2, 904, third=905), sure(2), sure(4))
    assert verify_loose([5, 2], rows, [ANCHOR, ANCHOR], SHIFTING).accepted == 0


def test_an_insertion_may_not_repeat_an_anchor_that_was_just_said():
    rows = scores(torn(2, 5), sure(2), sure(4))
    assert verify_loose([5, 2], rows, [ANCHOR, ANCHOR], SHIFTING).accepted == 2
    assert verify_loose([5, 2], rows, [ANCHOR, ANCHOR], SHIFTING, said=[5]).accepted == 0


RATHER, FAIRLY, SMALL, LARGE, CIRCLE, END = 5, 6, 2, 7, 3, 4


def test_a_token_after_which_its_rival_is_chosen_was_an_insertion():
    rows = scores(torn(SMALL, RATHER), sure(SMALL), sure(CIRCLE), sure(END))
    assert find_insertions([RATHER, SMALL, CIRCLE], rows, SHIFTING) == {RATHER}
    rows = scores(torn(SMALL, LARGE), sure(CIRCLE), sure(END))
    assert find_insertions([LARGE, CIRCLE], rows, SHIFTING) == set(), "large took small's place"


@pytest.mark.parametrize(("known", "accepted"), [([], 0), ([RATHER], 2)])
def test_a_known_insertion_of_the_target_may_be_dropped_before_its_own_next_best_choice(known, accepted):
    """Draft: "small circle", target: "rather small circle"."""
    rows = scores(torn(RATHER, SMALL), sure(CIRCLE), sure(END))
    verdict = verify_loose([SMALL, CIRCLE], rows, [ANCHOR, ANCHOR], SHIFTING, insertions=known)
    assert verdict.kinds == ("shifted", "exact")[:accepted]


def test_what_follows_a_dropped_insertion_must_be_the_targets_best_among_all_else():
    """Draft: "large circle", target: "rather", then rather "small" than "large"."""
    row = {RATHER: 0.4, SMALL: 0.3, LARGE: 0.3}
    assert verify_loose([LARGE, CIRCLE], scores(row, sure(CIRCLE), sure(END)), [ANCHOR] * 2, SHIFTING, insertions=[RATHER]).accepted == 0
    assert verify_loose([SMALL, CIRCLE], scores(row, sure(CIRCLE), sure(END)), [ANCHOR] * 2, SHIFTING, insertions=[RATHER]).accepted == 2


@pytest.mark.parametrize(
    ("known", "kinds"),
    [
        ([], ()),
        ([FAIRLY], ()),
        ([RATHER, FAIRLY], ("loose", "exact")),
        ([RATHER], ("shifted", "exact")),  # "fairly" may then be what "rather" stands before: it is the target's next best
    ],
)
def test_one_known_insertion_may_stand_for_another_before_an_anchor(known, kinds):
    rows = scores(torn(RATHER, FAIRLY), sure(SMALL), sure(CIRCLE))
    assert verify_loose([FAIRLY, SMALL], rows, [ANCHOR, ANCHOR], SHIFTING, insertions=known).kinds == kinds


def test_without_the_shift_knob_insertions_are_not_used():
    rules = Rules(0.5, plausibility=0.2, top_k=3, window=1, entropy_gate=0.0, shift=0)
    for draft, row in (([SMALL, CIRCLE], torn(RATHER, SMALL)), ([FAIRLY, CIRCLE], torn(RATHER, FAIRLY))):
        rows = scores(row, sure(CIRCLE), sure(END))
        assert verify_loose(draft, rows, [ANCHOR, ANCHOR], rules, insertions=[RATHER, FAIRLY]).accepted == 0


# ------------------------------------------------------------------ properties

VOCABULARY = 6


@st.composite
def rounds(draw):
    """A proposal, what the target thinks of it, and the positions' relevance."""
    count = draw(st.integers(0, 8))
    token = st.integers(0, VOCABULARY - 1)
    draft = draw(st.lists(token, min_size=count, max_size=count))
    rows = []
    for _ in range(count + 1):
        order = draw(st.permutations(range(VOCABULARY)))
        falls = draw(st.lists(st.floats(0.01, 3), min_size=VOCABULARY, max_size=VOCABULARY))
        logit, row = 0.0, []
        for index in range(VOCABULARY):
            row.append((order[index], logit))
            logit -= falls[index]
        rows.append(row)
    relevance = draw(st.lists(st.floats(0, 1), min_size=count, max_size=count))
    made = Scores([row[0][0] for row in rows], [[i for i, _ in row] for row in rows], [[v for _, v in row] for row in rows])
    return draft, made, relevance


known = st.sets(st.integers(0, VOCABULARY - 1), max_size=3)


@st.composite
def knobs(draw):
    return Rules(
        threshold=draw(st.floats(0, 1.1)),
        plausibility=draw(st.floats(0, 1)),
        top_k=draw(st.integers(1, VOCABULARY)),
        window=draw(st.integers(0, 4)),
        entropy_gate=draw(st.floats(0, 1)),
        shift=draw(st.integers(0, 4)),
    )


@given(rounds())
def test_strict_verification_is_exact_match(example):
    draft, made, _ = example
    verdict = verify_strict(draft, made.choices)
    assert draft[: verdict.accepted] == list(made.choices[: verdict.accepted])
    assert verdict.accepted == len(draft) or draft[verdict.accepted] != made.choices[verdict.accepted]
    assert verdict.own == made.choices[verdict.accepted]


@given(rounds(), knobs(), known)
def test_all_anchors_and_no_shift_is_strict_verification(example, rules, insertions):
    draft, made, relevance = example
    everything = Rules(0.0, rules.plausibility, rules.top_k, rules.window, rules.entropy_gate, shift=0)
    assert verify_loose(draft, made, relevance, everything, (), insertions) == verify_strict(draft, made.choices)


@given(rounds(), knobs(), known)
def test_a_verdict_accounts_for_every_accepted_token(example, rules, insertions):
    draft, made, relevance = example
    verdict = verify_loose(draft, made, relevance, rules, (), insertions)
    assert verdict.accepted >= verify_strict(draft, made.choices).accepted
    assert verdict.own == made.choices[verdict.accepted]
    assert verdict.own_kind == ("bonus" if verdict.accepted == len(draft) else "correction")
    for place, kind in enumerate(verdict.kinds):
        agrees = draft[place] == made.choices[place]
        assert (kind == "exact") == agrees or kind == "shifted"
        if not agrees:
            assert made.plausible(place, draft[place], rules)
        if kind == "loose":
            assert relevance[place] < rules.threshold or {draft[place], made.choices[place]} <= insertions


@given(rounds(), knobs())
def test_nothing_is_accepted_past_a_rejected_anchor(example, rules):
    """Every accepted anchor is the target's own choice, or stands where an insertion delayed one that follows right after it."""
    draft, made, relevance = example
    verdict = verify_loose(draft, made, relevance, rules)
    for place, kind in enumerate(verdict.kinds):
        if relevance[place] >= rules.threshold and draft[place] != made.choices[place]:
            assert kind == "shifted"


@given(rounds(), knobs(), st.lists(st.integers(0, VOCABULARY - 1), max_size=3), known)
def test_a_shift_never_loses_or_repeats_an_anchor(example, rules, said, insertions):
    draft, made, relevance = example
    verdict = verify_loose(draft, made, relevance, rules, said, insertions)
    text = [*draft[: verdict.accepted], verdict.own]
    place = 0
    while place < verdict.accepted:
        if verdict.kinds[place] != "shifted":
            place += 1
            continue
        wanted, begin = made.choices[place], place
        ends = [at for at in range(begin + 1, begin + 1 + rules.shift) if at <= verdict.accepted and made.choices[at] == wanted]
        if ends and all(kind == "shifted" for kind in verdict.kinds[begin : ends[0]]) and text[ends[0]] == wanted:
            # inserted: nothing that was just said, and what was wanted stands right after it
            assert not set(draft[begin : ends[0]]) & {wanted, *said}
            place = ends[0]
        else:
            # dropped: only an insertion, in favour of the target's best choice among all else
            assert wanted in insertions
            assert draft[place] == next(token for token in made.top_ids[place] if token not in insertions)
            place += 1


@given(rounds(), knobs(), known, st.data())
def test_loosening_one_knob_never_shortens_a_round(example, rules, insertions, data):
    draft, made, relevance = example
    looser = {
        "threshold": st.floats(rules.threshold, 1.2),
        "plausibility": st.floats(0, rules.plausibility),
        "top_k": st.integers(rules.top_k, VOCABULARY + 2),
        "window": st.integers(0, rules.window),
        "entropy_gate": st.floats(0, rules.entropy_gate),
        "shift": st.integers(rules.shift, 6),
    }
    name = data.draw(st.sampled_from(sorted(looser)))
    changed = Rules(**{**rules.__dict__, name: data.draw(looser[name])})
    before = verify_loose(draft, made, relevance, rules, (), insertions)
    assert verify_loose(draft, made, relevance, changed, (), insertions).accepted >= before.accepted


@given(rounds(), knobs())
def test_the_device_side_says_what_the_pure_functions_say(example, rules):
    draft, made, relevance = example
    logits = torch.full((len(draft) + 1, VOCABULARY), -50.0)
    for row, (ids, values) in enumerate(zip(made.top_ids, made.top_logits, strict=True)):
        logits[row, ids] = torch.tensor(values)
    # float32 may merge two close logits; such examples say nothing
    if len({len(set(row.tolist())) for row in logits} | {VOCABULARY}) > 1:
        return
    proposal = Proposal(torch.tensor(draft, dtype=torch.long), tuple(range(-1, len(draft) - 1)), torch.tensor(relevance))
    assert StrictVerifier().judge(proposal, logits) == (draft, verify_strict(draft, made.choices), None)
    near = torch.tensor(relevance).tolist()
    rounded = Scores(made.choices, made.top_ids, [logits[row, ids].tolist() for row, ids in enumerate(made.top_ids)])
    drafted, verdict, shares = LooseVerifier(rules).judge(proposal, logits)
    assert (drafted, verdict) == (draft, verify_loose(draft, rounded, near, rules, (), find_insertions(draft, rounded, rules)))
    assert shares == near


def test_the_verifier_remembers_the_anchors_it_let_in():
    verifier = LooseVerifier(SHIFTING)
    logits = torch.full((3, 10), -9.0)
    logits[0, 5] = logits[1, 6] = logits[2, 7] = 9.0
    verifier.judge(Proposal(torch.tensor([5, 6]), (-1, 0), torch.tensor([ANCHOR, FILLER])), logits)
    assert verifier.said == [5]
