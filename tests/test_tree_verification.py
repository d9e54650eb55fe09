"""Verification of proposals that branch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_trees import trees
from test_verification import ANCHOR, FILLER, RULES, VOCABULARY, knobs, known, scores, sure, torn

from lvspec_core.drafting import Proposal
from lvspec_core.trees import Tree
from lvspec_core.verification import (
    Rules,
    Scores,
    find_insertions,
    rows_of,
    verify_loose,
    verify_loose_tree,
    verify_strict,
    verify_strict_tree,
)
from lvspec_core.verifiers import LooseVerifier, StrictVerifier

FORK = Tree((-1, -1, 0, 1))  # text → 0 → 2 and text → 1 → 3


@pytest.mark.parametrize(
    ("draft", "choices", "path", "own", "own_kind"),
    [
        ([1, 2, 3, 4], [2, 7, 4, 7, 9], (1, 3), 9, "bonus"),
        ([1, 2, 3, 4], [1, 3, 7, 8, 7], (0, 2), 8, "bonus"),
        ([1, 2, 3, 4], [1, 9, 4, 7, 7], (0,), 9, "correction"),
        ([1, 2, 3, 4], [9, 3, 4, 7, 7], (), 9, "correction"),
    ],
)
def test_strict_takes_the_path_of_the_targets_own_choices(draft, choices, path, own, own_kind):
    verdict = verify_strict_tree(FORK, draft, choices)
    assert (verdict.path, verdict.kinds, verdict.own, verdict.own_kind) == (path, ("exact",) * len(path), own, own_kind)


def test_of_two_equal_siblings_the_one_that_leads_further_is_taken():
    assert verify_strict_tree(Tree((-1, -1, 1)), [1, 1, 5], [1, 9, 5, 7]).path == (1, 2)


def test_the_loosest_path_wins_over_a_shorter_exact_one():
    """After 5, which the target finds plausible, three tokens enter; after its own choice 2 only that one."""
    tree = Tree((-1, -1, 1, 0, 3))
    rows = scores(torn(2, 5), sure(6), sure(3), sure(4), sure(8), sure(9))
    verdict = verify_loose_tree(tree, [5, 2, 7, 6, 8], rows, [FILLER] * 5, RULES)
    assert verdict.path == (0, 3, 4)
    assert verdict.kinds == ("loose", "exact", "exact")
    assert (verdict.own, verdict.own_kind) == (9, "bonus")


def test_of_equally_long_paths_the_more_exact_one_wins():
    rows = scores(torn(2, 5), sure(6), sure(3), sure(7), sure(7))
    verdict = verify_loose_tree(FORK, [5, 2, 6, 3], rows, [FILLER] * 4, RULES)
    assert (verdict.path, verdict.kinds) == ((1, 3), ("exact", "exact"))


def test_an_anchor_is_not_loosened_for_a_longer_path():
    rows = scores(torn(2, 5), sure(6), sure(3), sure(7), sure(7))
    verdict = verify_loose_tree(FORK, [5, 4, 6, 3], rows, [ANCHOR, ANCHOR, FILLER, FILLER], RULES)
    assert verdict.path == ()
    assert verdict.own == 2


@st.composite
def tree_rounds(draw):
    """A tree, its tokens (siblings differ), what the target thinks at each row, and the positions' relevance (shared by siblings)."""
    tree = draw(trees(8).filter(lambda tree: 0 < max(map(len, tree.children)) <= VOCABULARY))
    draft = [0] * len(tree)
    for below in tree.children:
        for node, token in zip(below, draw(st.permutations(range(VOCABULARY))), strict=False):
            draft[node] = token
    ids, logits = [], []
    for _ in range(len(tree) + 1):
        ids.append(list(draw(st.permutations(range(VOCABULARY)))))
        falls = draw(st.lists(st.floats(0.01, 3), min_size=VOCABULARY - 1, max_size=VOCABULARY - 1))
        logits.append([-sum(falls[:index]) for index in range(VOCABULARY)])
    at_row = draw(st.lists(st.floats(0, 1), min_size=len(tree) + 1, max_size=len(tree) + 1))
    relevance = [at_row[parent + 1] for parent in tree.parents]
    return tree, draft, Scores([row[0] for row in ids], ids, logits), relevance


@given(tree_rounds())
def test_strict_on_a_tree_is_the_best_of_strict_along_its_paths(example):
    tree, draft, made, _ = example
    along = [verify_strict([draft[node] for node in path], [made.choices[row] for row in rows_of(path)]) for path in tree.paths]
    verdict = verify_strict_tree(tree, draft, made.choices)
    assert verdict.accepted == len(verdict.path) == max(other.accepted for other in along)
    assert verdict.own == made.choices[verdict.path[-1] + 1 if verdict.path else 0]
    assert [draft[node] for node in verdict.path] == [made.choices[row] for row in rows_of(verdict.path)[:-1]]
    assert verdict.path == (tree.path(verdict.path[-1]) if verdict.path else ())


@given(tree_rounds(), knobs(), known)
def test_loose_on_a_tree_accepts_no_less_than_any_path_alone_and_what_a_path_allows(example, rules, insertions):
    tree, draft, made, relevance = example
    along = {}
    for path in tree.paths:
        tokens, shares = [draft[node] for node in path], [relevance[node] for node in path]
        along[path] = verify_loose(tokens, made.along(rows_of(path)), shares, rules, (), insertions)
    verdict = verify_loose_tree(tree, draft, made, relevance, rules, (), insertions)
    assert verdict.accepted == max(other.accepted for other in along.values()) >= verify_strict_tree(tree, draft, made.choices).accepted
    told = (verdict.path, verdict.kinds, verdict.own, verdict.own_kind)
    assert told in [(path[: other.accepted], other.kinds, other.own, other.own_kind) for path, other in along.items()]


@given(tree_rounds(), known)
def test_all_anchors_and_no_shift_is_strict_on_trees_too(example, insertions):
    tree, draft, made, relevance = example
    shut = Rules(0.0, 0.0, VOCABULARY, 0, 0.0, shift=0)
    loose, strict = verify_loose_tree(tree, draft, made, relevance, shut, (), insertions), verify_strict_tree(tree, draft, made.choices)
    assert loose == strict


@given(tree_rounds(), knobs())
def test_the_device_side_says_what_the_pure_functions_say(example, rules):
    tree, draft, made, relevance = example
    logits = torch.full((len(draft) + 1, VOCABULARY), -50.0)
    for row, (ids, values) in enumerate(zip(made.top_ids, made.top_logits, strict=True)):
        logits[row, ids] = torch.tensor(values)
    if tree.chain or any(len(set(row.tolist())) < VOCABULARY for row in logits):
        return  # float32 may merge two close logits; such examples say nothing
    proposal = Proposal(torch.tensor(draft), tree.parents, torch.tensor(relevance))
    assert StrictVerifier().judge(proposal, logits) == (draft, verify_strict_tree(tree, draft, made.choices), None)
    shares = torch.tensor(relevance).tolist()
    rounded = Scores(made.choices, made.top_ids, [logits[row, ids].tolist() for row, ids in enumerate(made.top_ids)])
    insertions = set()
    for path in tree.paths:
        insertions |= find_insertions([draft[node] for node in path], rounded.along(rows_of(path)), rules)
    expected = verify_loose_tree(tree, draft, rounded, shares, rules, (), insertions)
    verifier = LooseVerifier(rules)
    assert verifier.judge(proposal, logits) == (draft, expected, shares)
    said = [draft[node] for node in expected.path if shares[node] >= rules.threshold]
    assert verifier.said == said[-rules.shift - 1 :]
