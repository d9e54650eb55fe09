"""The queue of races."""

from __future__ import annotations

import threading

import pytest

from lvspec_core.turns import Turns


def test_first_come_first_served():
    turns = Turns()
    with turns.ticket() as first:
        with turns.ticket() as second, turns.ticket() as third:
            assert [ticket.place for ticket in (first, second, third)] == [0, 1, 2]
        with turns.ticket() as fourth:
            assert fourth.place == 1
    assert turns.tickets == []


def test_whoever_waits_is_woken_when_the_queue_moves():
    turns = Turns()
    places = []
    with turns.ticket():
        ready = threading.Event()

        def wait():
            with turns.ticket() as ticket:
                places.append(ticket.place)
                ready.set()
                places.append(ticket.wait(10))

        waiter = threading.Thread(target=wait)
        waiter.start()
        ready.wait(5)
    waiter.join(5)
    assert not waiter.is_alive()
    assert places == [1, 0]


def test_waiting_ends_by_itself_too():
    turns = Turns()
    with turns.ticket(), turns.ticket() as second:
        assert second.wait(0.01) == 1


def test_a_failure_gives_the_place_back():
    turns = Turns()
    with pytest.raises(ZeroDivisionError), turns.ticket():
        _ = 1 / 0
    assert turns.tickets == []
