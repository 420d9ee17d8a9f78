"""A complete node whose wall clock jumps: nothing is deleted because of it, and an alarm is raised."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from chronik.runtime.alarms import CLOCK_JUMP
from chronik.runtime.units import DAY_MS
from chronik.sim.disk import SimDisk
from tests.broker.harness import start_node
from tests.broker.hostile import World, WorldClock, run
from tests.broker.test_disk_trouble import commit, committed, find_coordinator

CHECKS = {"log_retention_check_interval_ms": 10_000, "offsets_retention_check_interval_ms": 10_000}


async def made(disk: SimDisk) -> tuple[World, WorldClock]:
    world = await World.make(disk, **CHECKS)
    clock = cast(WorldClock, world.node.runtime.clock)
    disk.wall_ms = clock.wall_ms
    return world, clock


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if CLOCK_JUMP in record.getMessage()]


def test_a_clock_that_jumps_ahead_deletes_neither_records_nor_offsets(caplog: pytest.LogCaptureFixture) -> None:
    """Twenty days are more than the default retention of both. The line comes within five seconds, once."""

    async def test() -> None:
        world, clock = await made(SimDisk(1))
        await world.create()
        await find_coordinator(world)
        await world.produce(b"before")
        assert await commit(world, 1) == 0
        await asyncio.sleep(10)
        clock.jumped_ms = 20 * DAY_MS
        await asyncio.sleep(5)
        assert world.node.alarms.is_active(CLOCK_JUMP)
        assert len(lines(caplog)) == 1
        await asyncio.sleep(60)
        found = await world.fetch()
        assert (found.error_code, found.log_start_offset) == (0, 0)
        assert b"before" in bytes(found.records)
        assert await committed(world) == 1
        assert len(lines(caplog)) == 1
        clock.jumped_ms = 0
        await asyncio.sleep(5)
        assert not world.node.alarms.is_active(CLOCK_JUMP)
        await world.node.stop()

    run(test())


def test_a_jump_before_a_start_deletes_nothing() -> None:
    """The node cannot know whether it was down for twenty days, so it waits before it believes that."""

    async def test() -> None:
        disk = SimDisk(1)
        world, clock = await made(disk)
        await world.create()
        await world.produce(b"before")
        await asyncio.sleep(10)
        await world.node.stop()
        clock.jumped_ms = 20 * DAY_MS
        node = await start_node(disk, clock=clock, **CHECKS)
        world = World(node, disk)
        await world.produce(b"after")
        await asyncio.sleep(60)
        assert node.alarms.is_active(CLOCK_JUMP)
        found = await world.fetch()
        assert (found.error_code, found.log_start_offset) == (0, 0)
        assert b"before" in bytes(found.records)
        await node.stop()

    run(test())
