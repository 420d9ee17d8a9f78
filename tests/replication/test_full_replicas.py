"""Replicas without space: when they leave, when they follow again, and how often that may happen."""

from __future__ import annotations

import asyncio

import pytest

from chronik.metadata.commands.withdraw_replicas import WithdrawReplicas, WithdrawReplicasReply
from chronik.metadata.errors import NotController
from chronik.replication.full_replicas import CALM_MS, PAUSE_MS_MAX, PAUSE_MS_MIN, ROOM_BYTES_MIN, FullReplicas
from chronik.replication.progress import Key
from tests.raft.virtual_time import LoopClock, run
from tests.replication import model
from tests.replication.world import World

KEY: Key = (b"t" * 16, 0)
LARGE = 1 << 40


class Space:
    """A node's view of its disk, and the calls that its replicas got."""

    def __init__(self) -> None:
        self.free_bytes, self.total_bytes = 0, LARGE
        self.changes: list[bool] = []  # whether it was full then
        self.asked: list[WithdrawReplicas] = []
        self.failures: list[Exception] = []
        self.full = FullReplicas(
            LoopClock(),
            node_id=1,
            submit=self._submit,
            broker_epoch=lambda: 7,
            free_bytes=lambda: self.free_bytes,
            total_bytes=lambda: self.total_bytes,
        )
        self.full.changed = lambda key: self.changes.append(key in self.full.keys)

    async def _submit(self, command: WithdrawReplicas) -> WithdrawReplicasReply:
        if self.failures:
            raise self.failures.pop()
        self.asked.append(command)
        return WithdrawReplicasReply()


def test_a_replica_without_space_follows_again_when_there_is_room() -> None:
    async def story() -> None:
        space = Space()
        watching = asyncio.ensure_future(space.full.watch())
        space.full.met(KEY)
        space.full.met(KEY)
        assert space.changes == [True]
        await asyncio.sleep(60)
        assert KEY in space.full.keys, "there is no room yet"
        space.free_bytes = LARGE
        await asyncio.sleep(1)
        assert space.changes == [True, False]
        watching.cancel()

    run(story)


def test_it_does_not_come_back_at_once_however_much_room_there_is() -> None:
    """Otherwise each refused record would move the replica out of the ISR and back."""

    async def story() -> None:
        space = Space()
        space.free_bytes = LARGE
        space.full.met(KEY)
        await asyncio.sleep(PAUSE_MS_MIN / 1000 - 0.001)
        space.full.look()
        assert KEY in space.full.keys
        await asyncio.sleep(0.001)
        space.full.look()
        assert KEY not in space.full.keys

    run(story)


def test_a_disk_that_stays_almost_full_moves_replicas_a_few_times_at_most() -> None:
    """100 MB become free again and again, and are filled again."""

    async def story() -> None:
        space = Space()
        watching = asyncio.ensure_future(space.full.watch())
        for _ in range(40):
            space.free_bytes = 0
            space.full.met(KEY)
            await asyncio.sleep(5)
            space.free_bytes = 100_000_000
            await asyncio.sleep(5)
        assert space.changes.count(False) == 5, "4, 8, 16, 32 and 64 MiB were asked for, and there are never 128"
        space.free_bytes = 200_000_000
        await asyncio.sleep(5)
        assert KEY not in space.full.keys
        watching.cancel()

    run(story)


def test_a_small_disk_is_not_asked_for_more_than_a_tenth() -> None:
    async def story() -> None:
        space = Space()
        space.total_bytes = 20 * ROOM_BYTES_MIN
        for _ in range(20):
            space.free_bytes = 0
            space.full.met(KEY)
            await asyncio.sleep(PAUSE_MS_MAX / 1000)
            space.free_bytes = 2 * ROOM_BYTES_MIN
            space.full.look()
            assert KEY not in space.full.keys

    run(story)


def test_where_room_does_not_help_the_pauses_grow() -> None:
    """A quota, or too few descriptors: the disk says that there is room."""

    async def story() -> None:
        space = Space()
        space.free_bytes = LARGE
        watching = asyncio.ensure_future(space.full.watch())
        for _ in range(300):
            space.full.met(KEY)
            await asyncio.sleep(1)
        assert space.changes.count(False) < 10, "at last once a minute"
        await asyncio.sleep(CALM_MS / 1000 + PAUSE_MS_MAX / 1000)
        space.full.met(KEY)
        await asyncio.sleep(PAUSE_MS_MIN / 1000 + 1)
        assert KEY not in space.full.keys, "after a quiet time pauses are short again"
        watching.cancel()

    run(story)


def test_the_controller_is_asked_until_it_answers() -> None:
    async def story() -> None:
        space = Space()
        asking = asyncio.ensure_future(space.full.run())
        space.failures = [NotController(None), NotController(None)]
        space.full.met(KEY)
        space.full.withdraw(KEY)
        await asyncio.sleep(1)
        assert [each.broker_epoch for each in space.asked] == [7]
        assert [(each.topic_id, each.index) for each in space.asked[0].partitions] == [KEY]
        asking.cancel()

    run(story)


def test_a_replica_that_is_gone_is_forgotten() -> None:
    async def story() -> None:
        space = Space()
        asking = asyncio.ensure_future(space.full.run())
        space.full.met(KEY)
        space.full.withdraw(KEY)
        space.full.forget(KEY)
        await asyncio.sleep(1)
        assert not space.full.keys
        assert not space.asked
        asking.cancel()

    run(story)


@pytest.mark.parametrize("is_leader", [True, False])
def test_a_replica_without_space_stays_out_until_it_follows_again(is_leader: bool) -> None:
    """With nothing to fetch it would count as caught up, and come in again at once."""

    async def story() -> None:
        world = World(0)
        await world.begin()
        leader = world.leader
        assert leader is not None
        committed = world.produce(leader)
        assert committed is not None
        await committed
        full = leader if is_leader else next(node for node in world.nodes.values() if node is not leader)
        since_s = asyncio.get_running_loop().time()
        full.replicas.full.met(model.KEY)
        await world.until(lambda: full.node_id not in world.controller.partition.isr, within_s=1)
        await world.until(lambda: full.node_id in world.controller.partition.isr, within_s=PAUSE_MS_MIN / 1000 + 2)
        assert asyncio.get_running_loop().time() - since_s > PAUSE_MS_MIN / 1000
        await world.settle()
        world.model.check_end()

    run(story)
