"""Commits of a producer are admitted on its newest connection, and on no older one."""

from __future__ import annotations

from chronik.broker.producer_connections import ProducerConnections
from chronik.coordinator.open_transactions import Producer

P, Q, NEXT = Producer(7, 0), Producer(8, 0), Producer(7, 1)


def test_a_commit_on_an_older_connection_is_late() -> None:
    known = ProducerConnections()
    assert known.admits(P, 3)
    assert known.admits(P, 3)
    assert known.admits(P, 5)
    assert not known.admits(P, 3)
    assert known.admits(P, 5)


def test_producers_do_not_share_connections() -> None:
    known = ProducerConnections()
    assert known.admits(P, 5)
    assert known.admits(Q, 3)


def test_a_producer_that_takes_over_may_have_an_older_connection() -> None:
    """It connected before the producer that it replaces, and waited."""
    known = ProducerConnections()
    assert known.admits(P, 5)
    assert known.admits(NEXT, 3)
    assert not known.admits(NEXT, 2)


def test_only_so_many_producers_are_remembered() -> None:
    """The least recently active producers are forgotten. A producer that commits continuously is not."""
    known = ProducerConnections(producers_max=2)
    assert known.admits(P, 5)
    for producer_id in range(100, 110):
        assert known.admits(Producer(producer_id, 0), 1)
        assert known.admits(P, 5)
    assert not known.admits(P, 4)
    assert known.admits(Producer(100, 0), 0), "forgotten"
