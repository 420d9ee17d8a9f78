"""WriteTxnMarkers on a complete node: what ends a transaction, when the response is sent, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from chronik.coordinator.open_transactions import Producer, Transaction
from chronik.replication.errors import NotEnoughReplicas, NotLeader, TimedOut
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from chronik.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from chronik.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.broker import transactional
from tests.broker.hostile import World
from tests.broker.transactional import P, replica_of, write
from tests.coordinator.virtual import FakeCaller

NEWEST = 2
OFFSETS = "__consumer_offsets"


def marker(
    *topics: tuple[str, list[int]],
    epoch: int = 0,
    coordinator_epoch: int = 0,
    commits: bool = True,
    transaction_version: int = 0,
    producer_id: int = P,
) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commits,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )


async def answered(world: World, *markers: WritableTxnMarker, version: int = NEWEST) -> dict[Any, ErrorCode]:
    request = WriteTxnMarkersRequest(markers=list(markers))
    response = await world.client.ask(request, WriteTxnMarkersResponse, version)
    found = {}
    for result in response.markers:
        for topic in result.topics:
            for each in topic.partitions:
                key = (result.producer_id, topic.name, each.partition_index)
                assert key not in found
                found[key] = ErrorCode.of(each.error_code)
    return found


Story = Callable[[World], Coroutine[Any, Any, None]]


def play(story: Story) -> None:
    transactional.play(lambda world, _: story(world))


@pytest.mark.parametrize("version", range(NEWEST + 1))
@pytest.mark.parametrize("commits", [True, False])
def test_a_marker_ends_the_transaction(version: int, commits: bool) -> None:
    """Consumers of committed records continue after it, and learn of an aborted transaction."""

    async def story(world: World) -> None:
        replica = replica_of(world)
        write(replica)
        found = await answered(world, marker(("t", [0]), commits=commits), version=version)
        assert found == {(P, "t", 0): ErrorCode.NONE}
        assert (replica.high_watermark, replica.last_stable_offset) == (2, 2)
        assert len(replica.log.aborted_transactions(0, 2)) == (0 if commits else 1)

    play(story)


def test_a_marker_counts_when_it_is_committed() -> None:
    """The coordinator forgets a transaction once all its markers are acknowledged. A marker that only the leader had
    would be lost with the leader, and the transaction would stay open forever."""

    async def story(world: World) -> None:
        replica, committed = replica_of(world), asyncio.get_running_loop().create_future()
        write(replica)
        waits: list[tuple[int, int | None]] = []

        def when_committed(offset: int, timeout_ms: int | None = None) -> asyncio.Future[None]:
            waits.append((offset, timeout_ms))
            return committed

        replica.when_committed = when_committed  # type: ignore[method-assign]
        answer = asyncio.ensure_future(answered(world, marker(("t", [0]))))
        await asyncio.sleep(1)
        assert waits == [(2, 30_000)]
        assert not answer.done()
        committed.set_result(None)
        assert await answer == {(P, "t", 0): ErrorCode.NONE}

    play(story)


def test_a_marker_that_is_not_committed_in_time_is_an_error() -> None:
    """The coordinator sends it again."""

    async def story(world: World) -> None:
        replica = replica_of(world)
        write(replica)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.set_exception(TimedOut("t-0", (1,)))
        replica.when_committed = lambda offset, timeout_ms=None: future  # type: ignore[method-assign]
        assert await answered(world, marker(("t", [0]))) == {(P, "t", 0): ErrorCode.REQUEST_TIMED_OUT}

    play(story)


def test_each_partition_has_its_own_answer() -> None:
    """One that moved away must not keep the transaction open on the others."""

    async def story(world: World) -> None:
        for index in (0, 1, 2):
            write(replica_of(world, "t", index))

        def follows() -> None:
            raise NotLeader("t-1", 2)

        def lacks_replicas() -> None:
            raise NotEnoughReplicas("t-2", (1,), 2)

        replica_of(world, "t", 1).require_leader = follows  # type: ignore[method-assign,assignment]
        replica_of(world, "t", 2).require_in_sync = lacks_replicas  # type: ignore[method-assign]
        found = await answered(world, marker(("gone", [0]), ("t", [0, 1, 2, 3])))
        assert found == {
            (P, "gone", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            (P, "t", 0): ErrorCode.NONE,
            (P, "t", 1): ErrorCode.NOT_LEADER_OR_FOLLOWER,
            (P, "t", 2): ErrorCode.NOT_ENOUGH_REPLICAS,
            (P, "t", 3): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert [replica_of(world, "t", index).log.end_offset for index in (0, 1, 2)] == [2, 1, 1]

    play(story)


def test_a_marker_of_the_past_changes_nothing() -> None:
    """Neither one for an older producer nor one of a coordinator that was replaced."""

    async def story(world: World) -> None:
        replica = replica_of(world)
        write(replica, epoch=3)
        await answered(world, marker(("t", [0]), epoch=3, coordinator_epoch=5))
        write(replica, epoch=3, sequence=1)
        old = await answered(world, marker(("t", [0]), epoch=2, coordinator_epoch=5))
        replaced = await answered(world, marker(("t", [0]), epoch=3, coordinator_epoch=4))
        assert list(old.values()) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert list(replaced.values()) == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
        assert (replica.log.end_offset, replica.last_stable_offset) == (3, 2)

    play(story)


@pytest.mark.parametrize(
    ("version", "transaction_version", "epoch", "error"),
    [
        (1, 2, 3, ErrorCode.NONE),  # v1 has no room for the transaction's version
        (2, 0, 3, ErrorCode.NONE),
        (2, 1, 3, ErrorCode.NONE),
        (2, 2, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 2, 4, ErrorCode.NONE),
    ],
)
def test_the_version_of_the_transaction_reaches_the_log(
    version: int, transaction_version: int, epoch: int, error: ErrorCode
) -> None:
    """From version 2 on, every transaction has a new epoch. A marker with the current transaction's epoch belongs to
    the previous one."""

    async def story(world: World) -> None:
        write(replica_of(world), epoch=3)
        sent = marker(("t", [0]), epoch=epoch, transaction_version=transaction_version)
        assert list((await answered(world, sent, version=version)).values()) == [error]

    play(story)


def test_markers_of_one_producer_share_a_result() -> None:
    """As in Kafka, whose coordinators look for a producer's partitions in one place."""

    async def story(world: World) -> None:
        markers = [marker(("t", [0])), marker(("t", [1]), producer_id=8), marker(("t", [2]))]
        request = WriteTxnMarkersRequest(markers=markers)
        response = await world.client.ask(request, WriteTxnMarkersResponse, NEWEST)
        assert [(each.producer_id, len(each.topics[0].partitions)) for each in response.markers] == [(P, 2), (8, 1)]
        nothing = await world.client.ask(WriteTxnMarkersRequest(markers=[]), WriteTxnMarkersResponse, NEWEST)
        assert nothing.markers == []

    play(story)


# --- offsets


async def commit_offset(world: World, offset: int) -> None:
    """An offset of group g in a transaction of P."""
    find = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    while (await world.client.ask(find, FindCoordinatorResponse, 4)).coordinators[0].error_code:
        await asyncio.sleep(0.1)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
    request = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])])
    guard = replica_of(world, OFFSETS).log.producers.guard_for(P, 0, -1, is_tv2=False)
    answer = world.node.groups.offset_commit(request, FakeCaller(9), Transaction(Producer(P, 0), guard))
    response = await answer if isinstance(answer, asyncio.Future) else answer
    assert response.topics[0].partitions[0].error_code == 0


async def stored_offsets(world: World) -> list[tuple[int, ErrorCode]]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)], require_stable=True)
    response = await world.client.ask(request, OffsetFetchResponse, 9)
    return [
        (each.committed_offset, ErrorCode.of(each.error_code))
        for topic in response.groups[0].topics
        for each in topic.partitions
    ]


@pytest.mark.parametrize(("commits", "stored"), [(True, [(5, ErrorCode.NONE)]), (False, [])])
def test_a_marker_of_the_offsets_topic_ends_what_the_group_has_pending(commits: bool, stored: list[Any]) -> None:
    """The marker alone, in the log, would leave the group's offsets undecided until the coordinator moves."""

    async def story(world: World) -> None:
        await commit_offset(world, 5)
        found = await answered(world, marker((OFFSETS, [0]), commits=commits))
        assert found == {(P, OFFSETS, 0): ErrorCode.NONE}
        assert await stored_offsets(world) == stored

    play(story)


def test_the_version_of_the_transaction_reaches_the_offsets_topic() -> None:
    async def story(world: World) -> None:
        await commit_offset(world, 5)
        late = await answered(world, marker((OFFSETS, [0]), transaction_version=2))
        assert list(late.values()) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        right = await answered(world, marker((OFFSETS, [0]), epoch=1, transaction_version=2))
        assert list(right.values()) == [ErrorCode.NONE]

    play(story)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
@pytest.mark.parametrize("is_late", [False, True])
def test_a_group_coordinator_that_is_not_ready_is_told_as_a_leader_that_moved(
    error: ErrorCode, told: ErrorCode, is_late: bool
) -> None:
    """A transaction coordinator knows partitions, not groups, so it looks up the leader again."""

    async def story(world: World) -> None:
        await commit_offset(world, 5)
        answer: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        answer.set_result(error)
        world.node.groups.end_transaction = lambda *_: answer if is_late else error  # type: ignore[method-assign]
        assert list((await answered(world, marker((OFFSETS, [0])))).values()) == [told]

    play(story)


def test_a_group_coordinator_that_is_gone_is_no_coordinator() -> None:
    async def story(world: World) -> None:
        await commit_offset(world, 5)
        world.node.groups.unload(0)
        assert list((await answered(world, marker((OFFSETS, [0])))).values()) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    play(story)
