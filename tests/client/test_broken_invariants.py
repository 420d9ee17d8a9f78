"""State of a producer that must never be, made on purpose: nothing is sent by it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chronik.client.assignors import CooperativeStickyAssignor, RangeAssignor, RoundRobinAssignor, Subscription
from chronik.client.batching import Acknowledged, Batch, Identity, PartitionQueue
from chronik.client.topology import TopicPartition
from chronik.runtime.invariants import InvariantBroken
from tests.raft.virtual_time import run

AT = TopicPartition("t", 0)
ME = Identity(7, 0)
Break = Callable[[PartitionQueue], object]


def queue() -> PartitionQueue:
    """Two batches of three records; the first is with the broker, numbered from 0."""
    made = PartitionQueue(AT)
    for _ in range(2):
        batch = Batch(AT, 0)
        for number in range(3):
            batch.add(0, None, b"%d" % number, (), 30)
        made.batches.append(batch)
    made.take(ME)
    return made


def in_flight(made: PartitionQueue) -> Batch:
    assert made.in_flight is not None
    return made.in_flight


def again(change: Break) -> Break:
    def act(made: PartitionQueue) -> None:
        made.put_back(in_flight(made))
        change(made)
        made.take(ME)

    return act


BROKEN: dict[str, tuple[str, Break]] = {
    "two batches in flight": ("12 one batch", lambda made: made.take(ME)),
    "one given up while another is in flight": ("12 one batch", lambda made: made.take_unsent()),
    "another comes back": (
        "12 only the batch",
        lambda made: made.finish(made.batches[0], Acknowledged(0, -1), may_be_written=True),
    ),
    "never sent, sent again": (
        "12 only a batch",
        lambda made: (setattr(in_flight(made), "attempt_count", 0), made.put_back(in_flight(made))),
    ),
    "a gap before it is sent again": (
        "12 a batch that is sent again",
        again(lambda made: setattr(made, "_next_sequence", 9)),
    ),
    "a gap behind what is given up": (
        "12 the sequence",
        lambda made: (setattr(made, "_next_sequence", 9), made.renumber(in_flight(made))),
    ),
    "a sequence of nobody": (
        "12 a batch has",
        lambda made: (setattr(in_flight(made), "sequence", -1), in_flight(made).encoded(None, None)),
    ),
    "nothing to send": (
        "13 a batch that is sent",
        lambda made: (in_flight(made).records.clear(), in_flight(made).encoded(None, None)),
    ),
    "settled twice": (
        "27 a batch is settled",
        lambda made: [in_flight(made).settle(Acknowledged(0, -1)) for _ in range(2)],
    ),
    "memory lost in halves": (
        "26 two halves",
        lambda made: (setattr(in_flight(made), "size_bytes", 5), made.split(in_flight(made))),
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_queue_that_cannot_be_sends_nothing(what: str) -> None:
    promise, act = BROKEN[what]

    async def story() -> None:
        with pytest.raises(InvariantBroken, match=f"invariant {promise}"):
            act(queue())

    run(story)


@pytest.mark.parametrize("assignor", [RangeAssignor(), RoundRobinAssignor(), CooperativeStickyAssignor()])
def test_every_partition_is_assigned_once(assignor: RangeAssignor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that an assignor omits is never read, and no error shows it."""
    members = {"a": Subscription(("t",)), "b": Subscription(("t",))}
    assert sum(map(len, assignor.assign({"t": 5}, members).values())) == 5
    monkeypatch.setattr("chronik.client.assignors._topics_of", lambda members: set())
    monkeypatch.setattr(
        CooperativeStickyAssignor, "_even_out", lambda self, held, readers: next(iter(held.values())).pop()
    )
    with pytest.raises(InvariantBroken, match="18 every partition has an owner"):
        assignor.assign({"t": 5}, members)
