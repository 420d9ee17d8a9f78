"""The causes of a group's lag: nine staged causes and more, each named, and none for a group without lag."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chronik.client.doctor.lag_causes import Cause, Look, PartitionLook, causes
from chronik.client.topology import NO_LEADER, TopicPartition

A, B, C = (TopicPartition("orders", index) for index in range(3))
PAUSE_MS = 10_000


def look(
    a: tuple[int | None, int],
    b: tuple[int | None, int] = (50, 50),
    *,
    late: bool = False,
    state: str = "Stable",
    readers: dict[TopicPartition, str] | None = None,
    members: tuple[str, ...] = ("worker-1", "worker-2"),
    start: int = 0,
    leader: int = 1,
) -> Look:
    """Committed and end offsets of two partitions; the first starts at `start` and is led by `leader`."""
    partitions = {A: PartitionLook(a[0], start, a[1], leader), B: PartitionLook(b[0], 0, b[1], 2)}
    reading = {A: "worker-1", B: "worker-2"} if readers is None else readers
    return Look(PAUSE_MS if late else 0, state, reading, members, partitions)


def later(a: tuple[int | None, int], b: tuple[int | None, int] = (50, 50), **changes: object) -> Look:
    return look(a, b, late=True, **changes)  # type: ignore[arg-type]


BUSY = look((100, 1_000), (100, 1_000))
# (names of the causes, a part of the first one's text, before, after)
STAGED: list[tuple[list[str], str, Look, Look]] = [
    (["no-leader"], "orders-0 is without a leader", look((5, 5), leader=NO_LEADER), later((5, 5), leader=NO_LEADER)),
    (
        ["below-log-start", "nothing-committed"],
        "deleted 20 offsets",
        look((10, 99), start=30),
        later((10, 99), start=30),
    ),
    (["beyond-log-end", "nothing-committed"], "in orders-1", look((5, 10), (9, 2)), later((5, 10), (9, 2))),
    (["no-members"], "990 records wait", look((10, 1_000), members=()), later((10, 1_000), members=(), readers={})),
    (
        ["rebalancing"],
        "for 10.0s or more",
        look((10, 99), state="PreparingRebalance"),
        later((10, 99), state="PreparingRebalance", readers={}),
    ),
    (
        ["members-change", "nothing-committed"],
        "came or went",
        look((10, 99), members=("worker-1",)),
        later((10, 99)),
    ),
    (["partitions-unread"], "No member reads orders-0", look((10, 99)), later((10, 99), readers={B: "worker-2"})),
    (["nothing-committed"], "worker-1 committed nothing within 10.0s", look((10, 99)), later((10, 150))),
    (
        ["partition-stuck", "catching-up"],
        "orders-0 stands still",
        look((10, 99), (10, 99), readers={A: "w", B: "w"}),
        later((10, 99), (80, 99), readers={A: "w", B: "w"}),
    ),
    (["catching-up"], "1.0 records/s arrive, 90 records/s are read", BUSY, later((600, 1_010), (500, 1_000))),
    (["hot-partition"], "orders-0 has 4,100 of the 4,150 records", BUSY, later((900, 5_000), (1_000, 1_050))),
    (["too-slow"], "200 records/s arrive, 20 records/s are read", BUSY, later((200, 2_000), (200, 2_000))),
]


def test_a_streams_group_that_waits_for_topics_says_for_which() -> None:
    """Its application runs, and reads nothing."""
    for missing, name, part in (
        (("b", "a"), "missing-topics", "2 topics of the application's topology are missing: a, b."),
        ((), "wrong-partitions", "the numbers of partitions"),
    ):
        waiting = replace(look((5, 5), state="NotReady"), missing_topics=missing)
        (cause,) = causes("app", waiting, waiting)
        assert cause.name == name
        assert part in cause.text
    assert causes("app", look((5, 5)), later((5, 5))) == []


def names(found: list[Cause]) -> list[str]:
    return [each.name for each in found]


@pytest.mark.parametrize(("expected", "part", "before", "after"), STAGED, ids=[row[0][0] for row in STAGED])
def test_each_staged_cause_is_named(expected: list[str], part: str, before: Look, after: Look) -> None:
    """An operator acts on the first line."""
    found = causes("billing", before, after)
    assert names(found) == expected
    assert part in found[0].text


def test_a_group_that_is_not_behind_has_no_causes() -> None:
    """Neither while records arrive and are read, nor when nothing happens."""
    assert causes("billing", look((5, 5)), later((5, 5))) == []
    assert causes("billing", look((5, 5)), later((90, 90), (70, 70))) == []


def test_more_members_are_advised_only_where_they_help() -> None:
    """A consumer more than there are partitions reads nothing."""
    before, after = BUSY, later((200, 2_000), (200, 2_000))
    assert "add partitions" in causes("billing", before, after)[0].action
    alone = {A: "worker-1", B: "worker-1"}
    [cause] = causes(
        "billing",
        look((100, 1_000), (100, 1_000), members=("worker-1",), readers=alone),
        later((200, 2_000), (200, 2_000), members=("worker-1",), readers=alone),
    )
    assert "Start up to 1 more consumer" in cause.action


def test_the_time_to_clear_follows_from_both_rates() -> None:
    """A lag of 900 + 900 records; 1 per second arrives, 90 are read."""
    [cause] = causes("billing", BUSY, later((600, 1_010), (500, 1_000)))
    assert "done in about 10.2s" in cause.text
    assert cause.action == ""


def test_a_partition_without_an_offset_counts_from_its_start() -> None:
    """A consumer that has committed nothing yet has the whole partition as its lag."""
    assert PartitionLook(None, 3, 10).lag == 7
    assert PartitionLook(2, 3, 10).lag == 7
    assert PartitionLook(12, 3, 10).lag == 0
    partitions = {
        TopicPartition("orders", 0): PartitionLook(None, 3, 10),
        TopicPartition("orders", 1): PartitionLook(2, 0, 5),
    }
    both = Look(0, "Empty", {}, [], partitions)
    assert (both.lag, both.lag_without_offset) == (10, 7)


def test_who_has_not_given_up_a_partition_of_a_consumer_group_is_told_whether_records_wait_or_not() -> None:
    """One consumer that does not poll keeps another one from its partitions."""
    for lag in (0, 10):
        awaited = {A: ("slow", "new")}
        before, after = (
            replace(look(a=(5, 5 + lag), state="Reconciling", late=late), awaited=awaited) for late in (False, True)
        )
        [cause] = [each for each in causes("g", before, after) if each.name == "partitions-awaited"]
        assert cause.text == "slow has not given up orders-0, which new waits for."
        assert "slow" in cause.action
        given_up = replace(after, awaited={})
        assert "partitions-awaited" not in [each.name for each in causes("g", before, given_up)]
