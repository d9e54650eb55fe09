"""The shape of a proposal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lvspec_core.trees import Tree, accepted_first, tree_of


@st.composite
def trees(draw, most: int = 12) -> Tree:
    """Any tree: each node follows the text or a node before it."""
    count = draw(st.integers(0, most))
    return Tree(tuple(draw(st.integers(-1, node - 1)) for node in range(count)))


#      text → 0 → 1 → 3
#           ↘ 2 ↘ 4
TREE = Tree((-1, 0, -1, 1, 0))


def test_what_a_tree_says_of_its_nodes_and_rows():
    assert TREE.children == ((0, 2), (1, 4), (3,), (), (), ())
    assert TREE.paths == ((2,), (0, 1, 3), (0, 4))
    assert TREE.depths == (0, 1, 0, 2, 1)
    assert TREE.inner == {0: 0, 1: 1, 2: 2}
    assert TREE.sees.int().tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [1, 0, 0, 1, 0, 0],
        [1, 1, 1, 0, 1, 0],
        [1, 1, 0, 0, 0, 1],
    ]


def test_a_chain_is_known_as_one():
    assert Tree(()).chain
    assert Tree((-1, 0, 1)).chain
    assert not Tree((-1, -1)).chain
    assert Tree(()).paths == ()
    assert tree_of((-1, 0)) is tree_of((-1, 0))


@given(trees())
def test_a_row_sees_the_text_and_the_path_to_it_and_nothing_else(tree):
    for node in range(len(tree)):
        path = tree.path(node)
        assert tree.sees[node + 1].nonzero().flatten().tolist() == [0, *(step + 1 for step in path)]
        assert len(path) == tree.depths[node] + 1
    assert {path[-1] for path in tree.paths} == {node for node in range(len(tree)) if node not in tree.parents}


@given(trees(), st.data())
def test_the_accepted_path_comes_first_and_the_tree_stays_the_same(tree, data):
    node = data.draw(st.integers(-1, len(tree) - 1))
    order, parents = accepted_first(tree.parents, tree.path(node))
    assert sorted(order) == list(range(len(tree)))
    assert tuple(order[: len(tree.path(node))]) == tree.path(node)
    assert parents[: len(tree.path(node))] == tuple(range(-1, len(tree.path(node)) - 1))
    for place, before in enumerate(parents):
        assert -1 <= before < place
        assert (order[before] if before >= 0 else -1) == tree.parents[order[place]]
