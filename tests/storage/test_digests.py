"""Batches that are whole and are not the ones that were written: a reader never gets them.

A misdirected write leaves a batch of another partition, whose CRC holds and whose offsets may fit. Rot in the part of a
header that no CRC covers leaves a batch with another offset or epoch.
"""

from __future__ import annotations

import errno

import pytest

from chronik.sim.disk import SimDisk
from chronik.sim.platter import Platter
from chronik.storage.config import LogConfig
from chronik.storage.errors import CorruptSegment
from chronik.storage.log import Log
from chronik.storage.logs import Logs
from chronik.storage.unread import Unread
from tests.storage.driving import append, batch, durable, open_logs, run, topic_id

BATCHES = 24
CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=200)
OURS, THEIRS = 0, 1  # partitions with batches of the same sizes and offsets


def value(partition: int, index: int) -> bytes:
    return b"%d:%02d" % (partition, index) * 5


async def written(disk: SimDisk) -> Logs:
    logs = await open_logs(disk)
    for partition in (OURS, THEIRS):
        log = logs.create("t", topic_id(1), partition, CONFIG)
        for index in range(BATCHES):
            append(log, batch([value(partition, index)]), epoch=index // 10)
            if index % 5 == 0:
                await durable(log)
        await durable(log)
    return logs


async def reopened(disk: SimDisk) -> tuple[Logs, Log]:
    logs = await open_logs(disk)
    return logs, the_log(logs)


def the_log(logs: Logs) -> Log:
    log = logs.get(topic_id(1), OURS)
    assert log is not None
    return log


def place_of(log: Log, index: int) -> tuple[str, int, int]:
    """Path, position and size of the batch at an offset."""
    segment = log.segments[log.index_at(index)]
    position = segment.position_of(index)
    _, header = next(segment.headers(position))
    return segment.path, position, header.size_bytes


def served(log: Log) -> list[int]:
    """Offsets that a reader is given, all of them right; the others are refused."""
    found = []
    for index in range(log.start_offset, log.end_offset):
        try:
            (data,) = log.read(index, bytes_max=1, offset_limit=log.end_offset).buffers
        except CorruptSegment:
            continue
        assert value(OURS, index) in bytes(data), f"offset {index} is another batch"
        assert int.from_bytes(bytes(data)[12:16], "big") == index // 10, "of another leader epoch"
        found.append(index)
    return found


def misdirect(disk: SimDisk, path: str, position: int, size_bytes: int) -> None:
    platter = Platter(disk)
    theirs = platter.content(path.replace(f"t-{OURS}", f"t-{THEIRS}"))
    platter.overwrite(path, position, theirs[position : position + size_bytes])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("index", range(BATCHES))
@pytest.mark.parametrize("is_clean", [True, False], ids=["closed", "killed"])
def test_a_batch_of_another_partition_is_refused(index: int, seed: int, is_clean: bool) -> None:
    """Whether the index, the checkpoint or the journal knows the digest; `seed` decides what goes through which. A
    journal that holds the batch itself puts it back."""

    async def scenario() -> None:
        disk = SimDisk(seed)
        logs = await written(disk)
        place = place_of(the_log(logs), index)
        if is_clean:
            await logs.close()
        else:
            disk = disk.process_killed()
        misdirect(disk, *place)
        _, log = await reopened(disk)
        found = served(log)
        assert index not in found or log.lost is None

    run(scenario)


@pytest.mark.parametrize("position", range(21))
def test_rot_in_what_no_crc_covers_is_refused(position: int) -> None:
    async def scenario() -> None:
        for index in (0, 4, 11, BATCHES - 1):
            disk = SimDisk(0)
            logs = await written(disk)
            path, at, _ = place_of(the_log(logs), index)
            await logs.close()
            disk.flip_bit(path, at + position, index % 8)
            _, log = await reopened(disk)
            served(log)

    run(scenario)


def test_what_stands_next_to_a_damaged_batch_is_served() -> None:
    """It may be the last copy."""

    async def scenario() -> None:
        disk = SimDisk(0)
        logs = await written(disk)
        path, at, _ = place_of(the_log(logs), 3)
        await logs.close()
        disk.flip_bit(path, at + 70)
        _, log = await reopened(disk)
        assert served(log) == [index for index in range(BATCHES) if index != 3]

    run(scenario)


def test_rot_in_an_index_costs_no_record() -> None:
    async def scenario() -> None:
        disk = SimDisk(0)
        await (await written(disk)).close()
        path = "/data/t-0/00000000000000000000.index"
        good = disk.read_file(path)
        for position in range(len(good)):
            disk.replace_file(path, good)
            disk.flip_bit(path, position)
            logs, log = await reopened(disk)
            assert served(log) == list(range(BATCHES))
            assert log.lost is None
            await logs.close()

    run(scenario)


def test_another_segments_index_is_not_believed() -> None:
    async def scenario() -> None:
        disk = SimDisk(0)
        await (await written(disk)).close()
        name = "00000000000000000000.index"
        disk.replace_file(f"/data/t-{OURS}/{name}", disk.read_file(f"/data/t-{THEIRS}/{name}"))
        _, log = await reopened(disk)
        assert served(log) == list(range(BATCHES))

    run(scenario)


@pytest.mark.parametrize("index", [0, 5, 17, BATCHES - 2])
def test_what_changes_on_the_disk_under_a_process_is_refused_once_memory_has_lost_it(index: int) -> None:
    """The process wrote it, and would give it away without another look as long as memory holds it."""

    async def scenario() -> None:
        disk = SimDisk(0)
        log = the_log(await written(disk))
        place = place_of(log, index)
        misdirect(disk, *place)
        assert index not in served(log)
        assert log.rot is not None

    run(scenario)


def test_what_is_read_with_an_evicted_batch_is_verified_too() -> None:
    """A read also brings the following bytes into memory, where they look as if they had always been there."""

    async def scenario() -> None:
        disk = SimDisk(0)
        log = the_log(await written(disk))
        path, at, _ = place_of(log, 0)
        for index in (1, 2):
            other, position, _ = place_of(log, index)
            assert other == path
            disk.flip_bit(path, position + 70)
        Platter(disk).overwrite(path, at, Platter(disk).content(path)[at : at + 1])  # unchanged, and evicted
        assert served(log) == [index for index in range(BATCHES) if index not in (1, 2)]

    run(scenario)


def test_a_piece_that_is_sent_later_is_verified_if_memory_has_lost_it_meanwhile() -> None:
    async def scenario() -> None:
        disk = SimDisk(0)
        disk.piece_bytes_min = 100
        log = the_log(await written(disk))
        [piece] = log.read(0, bytes_max=400, offset_limit=log.end_offset, to_send=True).buffers
        assert isinstance(piece, Unread)
        misdirect(disk, *place_of(log, 1))
        with pytest.raises(CorruptSegment):
            piece.read()

    run(scenario)


def test_a_cut_takes_the_digest_back() -> None:
    """Batches that are written after the truncation are verified too, also after restarts."""

    async def scenario() -> None:
        disk = SimDisk(0)
        logs = await written(disk)
        log = the_log(logs)
        log.truncate_to(13)
        for index in range(13, BATCHES):
            append(log, batch([value(OURS, index)]), epoch=max(1, index // 10))
        await logs.close()
        logs, log = await reopened(disk)
        assert served(log) == list(range(BATCHES))
        place = place_of(log, 14)
        await logs.close()
        misdirect(disk, *place)
        _, log = await reopened(disk)
        assert 14 not in served(log)

    run(scenario)


def test_a_full_disk_costs_the_digest_at_the_end_and_nothing_else() -> None:
    async def scenario() -> None:
        disk = SimDisk(0)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), OURS, CONFIG)
        for index in range(BATCHES):
            disk.fail("append", ".index", errno.ENOSPC)
            append(log, batch([value(OURS, index)]), epoch=index // 10)
        disk.heal()
        await logs.close()
        _, log = await reopened(disk)
        assert served(log) == list(range(BATCHES))

    run(scenario)
