"""Moves of replicas as shown to users: their duration, and what they wait for."""

from __future__ import annotations

import pytest

from chronik.cli.moving import Pace, Standing, copies, name_blocker
from chronik.client.addresses import Address
from chronik.client.admin.nodes import LogDirectory
from chronik.client.admin.reassignments import Move
from chronik.client.topology import Broker, Partition, Topic, TopicPartition, Topology

AT = TopicPartition("orders", 0)
MOVING = {AT: Move((3, 1, 2), (3,), (2,))}


def topology(*, leader: int = 1, isr: tuple[int, ...] = (1, 2), alive: tuple[int, ...] = (1, 2, 3)) -> Topology:
    partition = Partition(0, leader, 0, (3, 1, 2), isr, ())
    return Topology(
        brokers={node_id: Broker(node_id, Address("h", 1), None) for node_id in alive},
        topics={"orders": Topic("orders", b"", False, {0: partition})},
    )


def directory(node_id: int, size_bytes: int) -> LogDirectory:
    return LogDirectory(node_id, "/data", -1, -1, {AT: size_bytes})


def test_what_is_copied_is_compared_with_the_leader() -> None:
    directories = [directory(1, 1000), directory(2, 900), directory(3, 300)]
    assert copies(MOVING, topology(), directories) == {(AT, 3): (300, 1000)}
    assert copies(MOVING, topology(isr=(1, 2, 3)), directories) == {}, "it is in sync"
    ahead = [directory(1, 1000), directory(3, 2000)]
    assert copies(MOVING, topology(), ahead) == {(AT, 3): (1000, 1000)}, "never more than all"


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (topology(), "orders-0 on broker 3: it has 300 B of 1000 B"),
        (topology(alive=(1, 2)), "broker 3, the target of orders-0: it is not alive"),
        (topology(leader=-1, isr=(2,)), "orders-0: it has no leader to copy from; start one of brokers [2]"),
        (topology(isr=(1, 2, 3)), "orders-0 to be in sync"),
    ],
)
def test_the_blocker_is_named(seen: Topology, words: str) -> None:
    """A user who waits for hours must know the reason."""
    copying = copies(MOVING, seen, [directory(1, 1000), directory(3, 300)])
    assert name_blocker(MOVING, seen, copying) == words


def test_the_time_left_follows_the_pace_and_a_standstill_is_noticed() -> None:
    pace = Pace(100.0)
    assert pace.look(100.0, 10, 1000) is None, "nothing is known yet"
    assert pace.look(110.0, 10, 800) == 40_000
    assert pace.look(120.0, 5, 500) == 20_000
    assert pace.stalled_s(125.0) == 5.0
    assert pace.look(130.0, 5, 500) == 30_000
    assert pace.stalled_s(130.0) == 10.0
    pace.look(131.0, 4, 500)
    assert pace.stalled_s(131.0) == 0.0


def test_words_for_people() -> None:
    standing = Standing(3, 10, 2048, 61_000, "broker 3")
    assert str(standing) == "7 of 10 partitions moved, 2.0 KiB to copy, about 1m 1s left; waits for broker 3"
    assert str(Standing(10, 10, 0, None, None)) == "0 of 10 partitions moved"
