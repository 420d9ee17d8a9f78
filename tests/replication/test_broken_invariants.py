"""State of a replica that must never be, made on purpose: the next step stops the node."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chronik.replication.waits import Waits
from chronik.runtime.invariants import InvariantBroken
from tests.raft.virtual_time import LoopClock, run
from tests.replication.small import One, fetched

Break = Callable[[One], object]


def high_watermark(one: One, value: int) -> None:
    one.replica.high_watermark = one.replica.log.high_watermark = value


def in_log(one: One, name: str, value: object) -> None:
    """A field of the log changes under the replica, and then the image."""
    setattr(one.replica.log, name, value)
    one.change(isr=(1, 2))


TAKEN = fetched([b"a"], offset=1, epoch=1)
BROKEN: dict[str, tuple[str, Break]] = {
    "the leader epoch went back": ("11 epochs", lambda one: one.change(leader_epoch=0)),
    "two leaders of an epoch": ("11 a leader epoch has one", lambda one: one.change(leader=2)),
    "a leader outside its ISR": ("11 a leader is in", lambda one: one.change(isr=(2, 3))),
    "a follower appends": ("11 only a leader", lambda one: (one.change(leader=2, leader_epoch=2), one.write(b"a"))),
    "a leader takes over": (
        "11 a leader takes",
        lambda one: one.replica.append_fetched(TAKEN),
    ),
    "a leader gives up": ("7 a leader gives up", lambda one: one.replica.truncate_to(0)),
    "a follower ahead of its leader": ("9 a follower", lambda one: one.reports(2, 99)),
    "an ISR without its leader": ("11 an ISR", lambda one: one.replica.ask_for_isr((2, 3))),
    "an ISR with a stranger": ("11 an ISR", lambda one: one.replica.ask_for_isr((1, 9))),
    "a watermark behind the end": ("10 the high", lambda one: (high_watermark(one, 9), one.change(isr=(1, 2)))),
    "two watermarks": (
        "10 replica and log",
        lambda one: in_log(one, "high_watermark", 0),
    ),
    "a leader that commits nothing": (
        "11 a leader commits",
        lambda one: in_log(one, "on_durable", None),
    ),
    "records deleted too soon": (
        "7 only what",
        lambda one: (one.write(b"b"), one.replica.delete_before(2, 0)),
    ),
    "a replica that ends twice": ("30 a replica", lambda one: (one.replica.end(), one.replica.end())),
    "a commit outside the log": (
        "10 the high",
        lambda one: (
            setattr(one.replica.log, "_durable_offset", 9),
            [setattr(each, "end_offset", 9) for each in one.followers.values()],
            one.replica._commit(),
        ),
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_replica_that_cannot_be_stops(what: str) -> None:
    promise, act = BROKEN[what]

    async def story() -> None:
        one = await One.make()
        end = await one.write_durably(b"a")
        one.reports(2, end)
        one.reports(3, end)
        assert one.replica.high_watermark == 1
        with pytest.raises(InvariantBroken, match=f"invariant {promise}"):
            act(one)

    run(story)


def test_what_is_committed_is_not_given_up_by_a_follower() -> None:
    """Only an unclean election takes it, and then it is said in the log."""

    async def story() -> None:
        one = await One.make(leader=2)
        one.replica.append_fetched(fetched([b"a", b"b"], offset=0, epoch=1))
        one.replica.learn(2, 0)
        with pytest.raises(InvariantBroken, match=r"7 nothing committed is given up \(partition t-0, offset 1"):
            one.replica.truncate_to(1)

    run(story)


def test_those_who_wait_are_kept_in_order() -> None:
    async def story() -> None:
        waits = Waits(LoopClock(), lambda: TimeoutError())
        for offset in (1, 2):
            waits.add(offset, None, timeout_ms=1000 * offset, shared=False)
        waits._queue.reverse()
        waits.add(3, None, timeout_ms=3000, shared=False)
        with pytest.raises(InvariantBroken, match="27 those who wait"):
            waits._time_is_up()

    run(story)
