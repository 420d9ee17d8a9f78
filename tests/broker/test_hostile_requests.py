"""No request holds the loop of a node for more than 100 ms, and none leaves memory behind.

A real node with real sockets, and a thread of this process as the client. The measure is CPU time of the loop's thread,
in units of a reference computation on the same machine: see `tests.broker.holds`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from chronik.broker import dispatch
from tests.broker.attacks import ATTACKS, prepare
from tests.broker.holds import MeasuredNode, calibrate

HOLD_MS_MAX = 100
CYCLIC_OBJECTS_MAX = 1_000  # a connection that ends leaves some twenty
TRACKED_OBJECTS_MAX = 20_000
TRIES = 3  # a request has the same cost each time, but garbage may be collected during one of them

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("hostile")]


@pytest.fixture(scope="module")
def node() -> Iterator[MeasuredNode]:
    with MeasuredNode() as made:
        prepare(made)
        yield made


@pytest.mark.parametrize("name", ATTACKS)
def test_a_hostile_request_does_not_hold_up_the_others(node: MeasuredNode, name: str) -> None:
    """Any client can send it; others must still be served meanwhile."""
    ATTACKS[name](node)  # creates everything that is created on first use
    holds_ms: list[float] = []
    for _ in range(TRIES):
        node.start_measuring()
        ATTACKS[name](node)
        holds_ms.append(node.longest_ms())
        node.wait_until_quiet()
        if holds_ms[-1] <= HOLD_MS_MAX * calibrate():
            return
    raise AssertionError(f"the loop was held for {[round(hold_ms) for hold_ms in holds_ms]} ms")


@pytest.mark.parametrize(
    "name",
    [
        "fetch of 20,000 partitions",
        "produce to 20,000 unknown partitions, acks=0",
        "offsets of 90,000 partitions",
        "configs of 2,000 topics",
    ],
)
def test_a_large_response_is_no_garbage_in_a_cycle(node: MeasuredNode, name: str) -> None:
    """Some hundred thousand objects in cycles make one collection hold the loop for more than 100 ms, in whatever
    request it comes. Without cycles they go one by one, as soon as they are sent."""
    ATTACKS[name](node)
    gc.collect()
    gc.disable()
    try:
        ATTACKS[name](node)
        node.settle()
        node.wait_until_quiet()
        assert gc.collect() <= CYCLIC_OBJECTS_MAX
    finally:
        gc.enable()


def test_a_large_answer_is_nothing_to_the_collector(node: MeasuredNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full collection may come while the response waits to be encoded, and examines every tracked object: 200,000
    more objects blocked the loop for more than 100 ms."""
    encoded, tracked_counts = dispatch._encoded, []

    def count(*arguments: Any) -> Any:
        gc.collect()
        tracked_counts.append(len(gc.get_objects()))
        return encoded(*arguments)

    name = "elect leaders of 200,000 partitions"
    ATTACKS[name](node)
    node.wait_until_quiet()
    gc.collect()
    before_count = len(gc.get_objects())
    monkeypatch.setattr(dispatch, "_encoded", count)
    ATTACKS[name](node)
    assert max(tracked_counts) - before_count < TRACKED_OBJECTS_MAX


def test_there_are_at_least_thirty_of_them() -> None:
    assert len(ATTACKS) >= 30
