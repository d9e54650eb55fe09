"""Runs on the report's page belong to who added them, and wait for them a while."""

from __future__ import annotations

from copy import deepcopy

from page_shelves import Shelf, Shelves, Visitor


class Hands:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_every_visit_has_a_shelf_of_its_own():
    first = Visitor()
    one, other = deepcopy(first), deepcopy(first)
    one.shelf.runs.append("a run")
    assert other.shelf.runs == first.shelf.runs == []
    assert len({first.shelf.key, one.shelf.key, other.shelf.key}) == 3


def test_a_shelf_waits_an_hour_from_when_it_was_last_kept():
    clock = Hands()
    shelves, shelf = Shelves(seconds=3600, now=clock), Shelf()
    assert shelves.find(shelf.key) is None
    shelves.keep(shelf)
    clock.now = 3000
    assert shelves.find(shelf.key) is shelf
    shelves.keep(shelf)
    clock.now = 6500
    assert shelves.find(shelf.key) is shelf
    clock.now = 6601
    assert shelves.find(shelf.key) is None


def test_the_one_unused_for_longest_makes_room():
    shelves, shelf = Shelves(most=2), [Shelf() for _ in range(3)]
    for each in (shelf[0], shelf[1], shelf[0], shelf[2]):
        shelves.keep(each)
    assert [shelves.find(each.key) for each in shelf] == [shelf[0], None, shelf[2]]
