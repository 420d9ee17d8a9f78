"""A hung disk is distinguished from a slow one, from one with a long queue, and from a suspended process."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import cast

import pytest

from chronik.runtime.hung_disk import HungDisk
from chronik.runtime.interfaces import Disk, Lane
from chronik.runtime.kernel_sync import KernelSync
from chronik.runtime.real_disk import RealDisk
from chronik.runtime.real_file import RealFile
from chronik.sim.disk import SimDisk

HANG_MS = 6000


class FakeLane:
    name = "journal"

    def __init__(self) -> None:
        self.operation: int | None = None

    def under_way(self) -> list[tuple[str, int]]:
        return [] if self.operation is None else [("thread", self.operation)]


class FakeDisk:
    def __init__(self) -> None:
        self.lane = FakeLane()
        self.prompt_lanes = [cast("Lane", self.lane)]


def watched() -> tuple[FakeLane, HungDisk]:
    disk = FakeDisk()
    return disk.lane, HungDisk(cast("Disk", disk), HANG_MS)


def looks(hung_disk: HungDisk, ms: int) -> bool:
    for _ in range(ms // hung_disk.look_ms):
        hung_disk.look()
    return hung_disk.is_hung


def test_one_operation_that_does_not_end_is_a_hang() -> None:
    lane, hung_disk = watched()
    lane.operation = 7
    assert not looks(hung_disk, HANG_MS)
    assert looks(hung_disk, hung_disk.look_ms)
    assert hung_disk.oldest_ms == HANG_MS
    assert hung_disk.lane_name == "journal"


def test_a_queue_that_moves_is_no_hang_however_long_it_is() -> None:
    """A slow disk under load is never idle: each operation ends, and the next begins at once."""
    lane, hung_disk = watched()
    for operation in range(20):
        lane.operation = operation
        assert not looks(hung_disk, HANG_MS - hung_disk.look_ms)


def test_a_disk_that_answered_once_has_to_answer_for_a_while() -> None:
    """A disk that is always slightly too slow would otherwise give up its leaderships again and again."""
    lane, hung_disk = watched()
    for operation in range(3):
        lane.operation = operation
        assert looks(hung_disk, HANG_MS + 1000)
    lane.operation = None
    assert looks(hung_disk, HANG_MS - hung_disk.look_ms)
    assert not looks(hung_disk, hung_disk.look_ms)


@pytest.mark.parametrize("by_kernel", [False, True])
def test_a_lane_names_the_operation_that_is_under_way(
    by_kernel: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the thread and in the kernel. Completed and queued operations are not named."""
    released = threading.Event()
    monkeypatch.setattr(RealFile, "sync", lambda file: released.wait())
    if not by_kernel:
        monkeypatch.setattr(KernelSync, "open", lambda loop: None)

    async def test() -> None:
        disk = RealDisk()
        lane = disk.lane("journal", is_prompt=True)
        assert disk.prompt_lanes == [lane]
        assert lane.under_way() == []
        file = disk.open(f"{tmp_path}/file", create=True)
        file.append([b"bytes"])
        syncing = lane.sync([file])
        await asyncio.sleep(0)
        queued = lane.run(lambda: None)
        if by_kernel and lane.under_way()[-1:] == [("kernel", 1)]:
            await syncing  # the kernel's sync does not hang here, but it is named until the loop has heard of its end
            await queued
        else:
            assert lane.under_way() == [("thread", 0)]
            assert lane.under_way() == [("thread", 0)]
            released.set()
            await queued
            await syncing
        assert lane.under_way() == []
        lane.close()
        assert disk.prompt_lanes == []

    asyncio.run(test())


def test_the_simulated_lane_does_the_same() -> None:
    async def test() -> None:
        disk = SimDisk(0)
        lane = disk.lane("journal", is_prompt=True)
        first, second = lane.run(lambda: None), lane.run(lambda: None)
        assert lane.under_way() == [("lane", 0)]
        await first
        assert lane.under_way() == [("lane", 1)]
        await second
        assert lane.under_way() == []
        lane.close()
        assert disk.prompt_lanes == []

    asyncio.run(test())


def test_lanes_for_long_work_are_not_watched() -> None:
    """A checkpoint may sync gigabytes, and the scrubber reads all day."""

    async def test() -> None:
        for disk in (RealDisk(), SimDisk(0)):
            lane = disk.lane("storage")
            assert disk.prompt_lanes == []
            lane.close()

    asyncio.run(test())
