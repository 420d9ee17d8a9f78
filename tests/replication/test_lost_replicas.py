"""A replica that lost acknowledged records leaves the ISR, fetches them again, and rejoins by itself."""

from __future__ import annotations

import asyncio
from copy import deepcopy

import pytest

from chronik.metadata.image import Image
from chronik.sim.disk import SimDisk
from tests.raft import virtual_time
from tests.replication.model import KEY, TOPIC
from tests.replication.world import Node, World


def flip(disk: SimDisk, part: str, position: int) -> None:
    """One bit of the first segment, as it is on the platter and in the page cache."""
    inode = disk._file(f"/data/{TOPIC}-0/{part}")
    inode.content[position] ^= 1
    inode.synced = bytes(inode.content)


def first_segment(disk: SimDisk) -> str:
    return next(name for name in disk.list(f"/data/{TOPIC}-0") if name.endswith(".log"))


async def acknowledge(world: World, count: int) -> None:
    for _ in range(count):
        assert world.leader is not None
        committed = world.produce(world.leader)
        if committed is not None:
            await committed


async def everything_is_there(world: World) -> None:
    await world.settle()
    await acknowledge(world, 1)
    await world.settle()
    world.model.check_end()


async def met(world: World, node: Node) -> None:
    """Reads everything, and so finds the damage."""
    await world.until(lambda: node.has_begun)
    log = node.logs.get(*KEY)
    assert log is not None
    if log.lost is None:
        with pytest.raises(world.replicas_refusals):
            log.read(0, bytes_max=1 << 20, offset_limit=log.end_offset)
    assert log.lost is not None


def in_sync(world: World, node_id: int) -> bool:
    return node_id in world.controller.partition.isr


@pytest.mark.parametrize("elr", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_a_follower_that_rotted_while_it_was_down_is_mended_from_the_leader(seed: int, elr: bool) -> None:
    async def story() -> None:
        world = World(seed, min_insync=2, elr=elr)
        await world.begin()
        await acknowledge(world, 20)
        node_id = next(each for each in world.node_ids if each != world.controller.partition.leader)
        await world.nodes[node_id].logs.checkpoint()
        world.crash(node_id)
        disk = world.dead[node_id][0]
        flip(disk, first_segment(disk), 80)
        node = await world.start(node_id)
        await met(world, node)
        await everything_is_there(world)
        assert node.logs.get(*KEY).lost is None

    virtual_time.run(story)


@pytest.mark.parametrize("seed", range(5))
def test_a_leader_that_finds_its_records_damaged_makes_room_for_one_that_has_them(seed: int) -> None:
    """No reader is refused for good while two good copies exist, and a producer only has to look for the new leader."""

    async def story() -> None:
        world = World(seed, min_insync=2)
        await world.begin()
        await acknowledge(world, 20)
        leader = world.leader
        assert leader is not None
        await leader.logs.checkpoint()
        node_id = leader.node_id
        world.crash(node_id, power_cut=False)
        for other in list(world.nodes):
            world.crash(other, power_cut=False)  # so that it leads again, being the only one for a while
        disk = world.dead[node_id][0]
        flip(disk, first_segment(disk), 80)
        node = await world.start(node_id)
        for other in world.node_ids:
            if other != node_id:
                await world.start(other)
        await met(world, node)
        await everything_is_there(world)
        assert node.logs.get(*KEY).lost is None

    virtual_time.run(story)


@pytest.mark.parametrize("seed", range(10))
def test_a_leader_with_an_old_disk_steps_aside_for_an_eligible_replica_that_has_more(seed: int) -> None:
    """All nodes go down, and the last one comes back first, with its disk of an hour ago. Nothing on it shows that."""

    async def story() -> None:
        world = World(seed, min_insync=2, elr=True)
        await world.begin()
        await acknowledge(world, 5)
        aged = world.choose(list(world.node_ids))
        old = deepcopy(world.nodes[aged].disk._root)
        await acknowledge(world, 5)
        await world.until(lambda: len(world.controller.partition.isr) == 3)
        for node_id in [each for each in world.node_ids if each != aged]:
            world.crash(node_id, power_cut=False)
        await world.until(lambda: world.controller.partition.isr == (aged,))
        world.crash(aged, power_cut=False)
        world.dead[aged][0]._root = old
        world.model.forget_watermarks()
        await world.start(aged)
        await world.until(lambda: world.leader is world.nodes[aged])
        await everything_is_there(world)

    virtual_time.run(story)


def test_the_last_copy_stays_and_serves_what_it_has() -> None:
    """No replica has more: removing it would only make the partition unavailable."""

    async def story() -> None:
        world = World(1, replicas=1)
        await world.begin()
        await acknowledge(world, 20)
        leader = world.leader
        assert leader is not None
        await leader.logs.checkpoint()
        world.crash(1, power_cut=False)
        disk = world.dead[1][0]
        flip(disk, first_segment(disk), 80)
        node: Node = await world.start(1)
        await met(world, node)
        await world.until(lambda: bool(node.replicas.losses.last_copies))
        assert world.controller.partition.isr == (1,)
        await acknowledge(world, 1)

    virtual_time.run(story)


@pytest.mark.parametrize("elr", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_a_replica_that_is_let_in_while_it_is_mended_does_not_lead_with_what_is_left(seed: int, elr: bool) -> None:
    """Its leader requested this because of its position before the damage was found. Its own image shows that later."""

    async def story() -> None:
        world = World(seed, min_insync=2, elr=elr)
        await world.begin()
        await acknowledge(world, 20)
        await world.until(lambda: len(world.controller.partition.isr) == 3)
        first = world.controller.partition.replicas[0]
        await world.nodes[first].logs.checkpoint()
        world.crash(first, power_cut=False)
        await world.until(lambda: not in_sync(world, first) and world.leader is not None)
        await acknowledge(world, 5)
        node = await world.start(first)

        def decided(before: Image, after: Image) -> None:
            World.controller_decided(world, before, after)
            state = after.topics[KEY[0]].partitions[0]
            if first in state.isr and first not in before.topics[KEY[0]].partitions[0].isr:
                log = node.logs.get(*KEY)
                assert log is not None
                flip(node.disk, first_segment(node.disk), 80)
                log.segments[0].doubt()
                with pytest.raises(world.replicas_refusals):
                    log.read(0, bytes_max=1 << 20, offset_limit=log.end_offset)
                world.model.check()  # the read finds the damage
                asyncio.get_running_loop().call_later(0.005, world.crash, state.leader)
                del world.controller_decided  # type: ignore[method-assign]

        world.controller_decided = decided  # type: ignore[method-assign]
        await world.until(lambda: bool(world.dead))
        await everything_is_there(world)

    virtual_time.run(story)
