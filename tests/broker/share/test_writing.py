"""What a leader of a share partition does about the share coordinator: waits for it, loses it, is replaced by another.

The coordinator is a fake that answers when the test says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from chronik.broker.share.acquisition import ACCEPT, RELEASE
from chronik.coordinator.share.persister import SharePartitionKey, ShareState, StateBatch
from chronik.wire.error_codes import ErrorCode
from tests.broker.hostile import TOPIC, World, run
from tests.broker.share.members import Member, partitions_of, world_with_group
from tests.broker.share.test_members import LOCK_S, produced
from tests.broker.transactional import replica_of

AVAILABLE, ACKNOWLEDGED = 0, 2


class Write(NamedTuple):
    leader_epoch: int
    state_epoch: int
    start_offset: int
    complete_count: int
    batches: list[StateBatch]
    answered: asyncio.Future[ErrorCode]


class FakePersister:
    """Reads are answered at once, with `state`; a write when its future is set."""

    def __init__(self, world: World, state: ShareState | ErrorCode | None = None) -> None:
        self.state = ShareState(3, 0, []) if state is None else state
        self.read_by: list[int] = []
        self.writes: list[Write] = []
        leading = world.node.services.share_partitions
        leading._parts = leading._parts._replace(persister=self)  # of partitions that are made from now on

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState | ErrorCode:
        self.read_by.append(leader_epoch)
        return self.state

    async def write(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        state_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> ErrorCode:
        answered: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        made = Write(leader_epoch, state_epoch, start_offset, delivery_complete_count, list(batches), answered)
        self.writes.append(made)
        return await answered

    async def next_write(self) -> Write:
        while not self.writes:
            await asyncio.sleep(0.001)
        return self.writes.pop(0)


def test_an_acknowledgement_is_answered_when_it_is_written_and_not_before() -> None:
    async def test() -> None:
        world = await world_with_group()
        await produced(world, 3)
        persister = FakePersister(world)
        one = Member(world.node, "one")
        assert len(await one.take()) == 3
        told = asyncio.ensure_future(one.acknowledge((0, 1, ACCEPT)))
        write = await persister.next_write()
        await asyncio.sleep(1)
        assert not told.done()
        assert write[:5] == (0, 3, 0, 2, [StateBatch(0, 1, ACKNOWLEDGED, 1)])
        write.answered.set_result(ErrorCode.NONE)
        assert await told == ErrorCode.NONE
        told = asyncio.ensure_future(one.acknowledge((2, 2, RELEASE)))
        write = await persister.next_write()
        assert write[2:5] == (2, 0, [StateBatch(2, 2, AVAILABLE, 1)])
        assert await Member(world.node, "other").take() == [], "it is not released before that is written"
        write.answered.set_result(ErrorCode.NONE)
        assert await told == ErrorCode.NONE
        await world.node.stop()

    run(test())


def test_one_write_is_under_way_and_the_next_has_all_that_came_meanwhile() -> None:
    async def test() -> None:
        world = await world_with_group()
        await produced(world, 6)
        persister = FakePersister(world)
        members = [Member(world.node, name) for name in "abc"]
        for member in members:
            assert len(await member.take(records_max=2)) == 2
        told = [asyncio.ensure_future(members[0].acknowledge((0, 1, ACCEPT)))]
        first = await persister.next_write()
        assert first.batches == [StateBatch(0, 1, ACKNOWLEDGED, 1)]
        told += [asyncio.ensure_future(members[n].acknowledge((2 * n, 2 * n + 1, ACCEPT))) for n in (1, 2)]
        await asyncio.sleep(1)
        assert not persister.writes
        first.answered.set_result(ErrorCode.NONE)
        second = await persister.next_write()
        assert second[2:5] == (2, 4, [StateBatch(2, 3, ACKNOWLEDGED, 1), StateBatch(4, 5, ACKNOWLEDGED, 1)])
        second.answered.set_result(ErrorCode.NONE)
        assert await asyncio.gather(*told) == [0, 0, 0]
        await world.node.stop()

    run(test())


def test_what_could_not_be_written_is_held_as_before() -> None:
    async def test() -> None:
        world = await world_with_group()
        await produced(world, 1)
        persister = FakePersister(world)
        one, other = Member(world.node, "one"), Member(world.node, "other")
        assert await one.take() == [(0, 1)]
        told = asyncio.ensure_future(one.acknowledge((0, 0, ACCEPT)))
        (await persister.next_write()).answered.set_result(ErrorCode.NOT_COORDINATOR)
        assert await told == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await other.take() == []
        told = asyncio.ensure_future(one.acknowledge((0, 0, ACCEPT)))
        (await persister.next_write()).answered.set_result(ErrorCode.NONE)
        assert await told == ErrorCode.NONE
        await world.node.stop()

    run(test())


def test_a_lock_that_ends_while_an_acknowledgement_fails_is_released_at_last() -> None:
    """Back to its member, whose lock has no timer any more, it would be stuck. And its count is written, later."""

    async def test() -> None:
        world = await world_with_group()
        await produced(world, 2)
        persister = FakePersister(world)
        one, other = Member(world.node, "one"), Member(world.node, "other")
        assert len(await one.take()) == 2
        told = asyncio.ensure_future(one.acknowledge((0, 0, ACCEPT)))
        write = await persister.next_write()
        await asyncio.sleep(LOCK_S + 5)
        assert await other.take() == [(1, 2)], "the lock of the other record ends on time"
        write.answered.set_result(ErrorCode.REQUEST_TIMED_OUT)
        assert await told == ErrorCode.UNKNOWN_SERVER_ERROR
        assert await other.take(wait_ms=100) == [(0, 2)]
        write = await persister.next_write()
        assert write.batches == [StateBatch(0, 0, AVAILABLE, 1), StateBatch(1, 1, AVAILABLE, 1)]
        write.answered.set_result(ErrorCode.NONE)
        await world.node.stop()

    run(test())


def test_a_leader_that_was_replaced_serves_nothing_more_and_reads_the_state_again() -> None:
    """Its memory is of the past: another leader may have delivered what it believes to be held."""

    async def test() -> None:
        world = await world_with_group()
        await produced(world, 2)
        persister = FakePersister(world)
        one = Member(world.node, "one")
        assert len(await one.take()) == 2
        told = asyncio.ensure_future(one.acknowledge((0, 0, ACCEPT)))
        write = await persister.next_write()
        persister.state = ShareState(4, 1, [])
        write.answered.set_result(ErrorCode.FENCED_STATE_EPOCH)
        assert await told == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await one.take(wait_ms=1000) == [(1, 1)]
        told = asyncio.ensure_future(one.acknowledge((1, 1, ACCEPT)))
        write = await persister.next_write()
        assert write.state_epoch == 4
        write.answered.set_result(ErrorCode.NONE)
        assert await told == ErrorCode.NONE
        await world.node.stop()

    run(test())


def test_the_state_is_read_with_the_leader_epoch_and_again_when_the_leadership_has_moved() -> None:
    """The epoch in the read is what keeps an older leader from writing."""

    async def test() -> None:
        world = await world_with_group()
        await produced(world, 2)
        persister = FakePersister(world)
        one = Member(world.node, "one")
        replica = replica_of(world, TOPIC)
        replica.leader_epoch = replica._state.leader_epoch
        assert len(await one.take()) == 2
        waiting = asyncio.ensure_future(one.fetch(wait_ms=60_000))
        await asyncio.sleep(1)
        elsewhere = replica.state._replace(leader=2, leader_epoch=5)
        replica.state = elsewhere
        replica.wake()
        told = partitions_of(await waiting)[0]
        assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        replica.state = elsewhere._replace(leader=1, leader_epoch=7)
        assert await one.take(wait_ms=1000) == [(0, 1), (1, 1)]
        assert persister.read_by == [0, 7]
        await world.node.stop()

    run(test())


def test_a_state_that_cannot_be_read_is_an_error_of_the_partition() -> None:
    async def test() -> None:
        world = await world_with_group()
        await produced(world, 1)
        persister = FakePersister(world, ErrorCode.GROUP_ID_NOT_FOUND)
        one = Member(world.node, "one")
        told = partitions_of(await one.fetch(wait_ms=1000))[0]
        assert told.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        persister.state = ShareState(3, 0, [])
        assert await one.take(wait_ms=1000) == [(0, 1)]
        await world.node.stop()

    run(test())


def test_what_is_not_committed_is_not_delivered() -> None:
    async def test() -> None:
        world = await world_with_group()
        await produced(world, 3)
        FakePersister(world)
        replica = replica_of(world, TOPIC)
        replica.high_watermark = 1
        one = Member(world.node, "one")
        assert await one.take(wait_ms=1000) == [(0, 1)]
        replica.high_watermark = 3
        assert await one.take(wait_ms=1000) == [(1, 1), (2, 1)]
        await world.node.stop()

    run(test())
