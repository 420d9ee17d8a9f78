"""Logs that lost some of their files: the reported loss never begins after the real one."""

from __future__ import annotations

import pytest

from chronik.sim.disk import SimDisk
from chronik.storage import lost_logs
from chronik.storage.config import LogConfig
from chronik.storage.errors import CorruptSegment
from chronik.storage.log import Log
from chronik.storage.logs import Logs
from tests.storage.driving import append, batch, open_logs, run, topic_id

BATCHES = 12


async def closed(disk: SimDisk, *, epochs: int = 1) -> list[str]:
    """A log of several segments, all of it in the checkpoint; the names of its segments."""
    logs = await open_logs(disk)
    log = logs.create("t", topic_id(1), 0, LogConfig(segment_bytes=400))
    for index in range(BATCHES):
        append(log, batch([b"%d" % index * 20]), epoch=index * epochs // BATCHES)
    await logs.close()
    return [name for name in disk.list("/data/t-0") if name.endswith(".log")]


async def reopened(disk: SimDisk) -> tuple[Logs, Log]:
    logs = await open_logs(disk)
    log = logs.get(topic_id(1), 0)
    assert log is not None
    return logs, log


def whole_batches(disk: SimDisk, names: list[str]) -> int:
    """How many offsets from the beginning on are really there."""
    end = 0
    for name in names:
        path = f"/data/t-0/{name}"
        if not disk.exists(path) or int(name[:20]) != end:
            break
        data = disk.read_file(path)
        while len(data) >= 12 and len(data) >= (size := int.from_bytes(data[8:12], "big") + 12):
            data = data[size:]
            end += 1
    return end


@pytest.mark.parametrize("which", range(3))
def test_a_segment_that_is_gone_is_noticed_wherever_it_stood(which: int) -> None:
    """Missing offsets are normal only in a compacted log."""

    async def scenario() -> None:
        disk = SimDisk(1)
        names = await closed(disk)
        assert len(names) == 3
        disk.remove(f"/data/t-0/{names[which]}")
        _, log = await reopened(disk)
        assert log.lost is not None
        assert log.lost.lost_from <= whole_batches(disk, names)
        assert (log.start_offset, log.end_offset) == (0, BATCHES)

    run(scenario)


@pytest.mark.parametrize("size_bytes", [0, 1, 60, 61, 89, 200, 300])
@pytest.mark.parametrize("which", [0, 2])
def test_a_segment_that_is_cut_short_is_mended_from_before_the_cut(which: int, size_bytes: int) -> None:
    """The checkpoint's offset is that of a byte which is gone: fetching from there on would leave a hole."""

    async def scenario() -> None:
        disk = SimDisk(1)
        names = await closed(disk)
        disk.open(f"/data/t-0/{names[which]}").truncate(size_bytes)
        there = whole_batches(disk, names)
        _, log = await reopened(disk)
        if log.lost is None:  # a sealed segment is checked when it is read
            with pytest.raises(CorruptSegment):
                log.read(there, bytes_max=1 << 20, offset_limit=BATCHES)
        assert log.lost is not None
        assert log.lost.lost_from <= there
        lost_logs.cut(log, disk)
        assert log.lost is None
        assert log.end_offset <= there

    run(scenario)


@pytest.mark.parametrize("offset", range(BATCHES))
@pytest.mark.parametrize("bit", [0, 1, 3])
def test_a_batch_under_a_wrong_offset_is_never_served(offset: int, bit: int) -> None:
    """No checksum covers the offset, so it is compared with the neighbours' offsets, whatever is requested."""

    async def scenario() -> None:
        disk = SimDisk(1)
        await closed(disk)
        _, log = await reopened(disk)
        segment = log.segments[log.index_at(offset)]
        disk.flip_bit(segment.path, segment.position_of(offset) + 7, bit)
        for asked in range(BATCHES):
            fresh = (await reopened_copy(disk))[1]
            try:
                found = fresh.read(asked, bytes_max=100, offset_limit=BATCHES)
            except CorruptSegment:
                continue
            for piece in found.buffers:
                base = int.from_bytes(piece[:8], "big")
                assert b"%d" % base * 20 in bytes(piece), f"asked for {asked}, got another record as {base}"

    async def reopened_copy(disk: SimDisk) -> tuple[Logs, Log]:
        disk._locked.clear()
        return await reopened(disk)

    run(scenario)


def test_a_batch_of_an_epoch_that_the_partition_has_not_reached_is_damage() -> None:
    """No checksum covers a batch's leader epoch. The followers of such a leader would refuse the batch forever."""

    async def scenario() -> None:
        logs = await open_logs(SimDisk(0))
        log = logs.create("t", topic_id(1), 0, LogConfig())
        for epoch in (0, 2, 2, 9):
            append(log, batch([b"v"]), epoch=epoch)
        lost_logs.compare_epochs(log, 9)
        assert log.lost is None
        lost_logs.compare_epochs(log, 3)
        assert log.lost is not None
        assert log.lost.lost_from == 3
        assert "leader epoch 9, the partition is in epoch 3" in str(log.lost)
        await logs.close()

    run(scenario)
