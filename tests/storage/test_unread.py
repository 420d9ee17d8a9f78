"""Batches that are read when they are sent: the same ones that a read finds, whole, or none of them."""

from __future__ import annotations

import errno
from random import Random

import pytest

from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig
from chronik.storage.errors import CorruptSegment, StorageError
from chronik.storage.log import Log
from chronik.storage.logs import Logs
from chronik.storage.unread import Unread
from tests.storage.driving import append, batch, durable, open_logs, run, topic_id

PIECE_BYTES_MIN = 200


def small_pieces(disk: SimDisk) -> SimDisk:
    disk.piece_bytes_min = PIECE_BYTES_MIN
    return disk


async def filled(disk: SimDisk, seed: int = 1, count: int = 60) -> tuple[Logs, Log]:
    random = Random(seed)
    logs = await open_logs(small_pieces(disk))
    log = logs.create("t", topic_id(1), 0, LogConfig(index_interval_bytes=300, segment_bytes=3000))
    for _ in range(count):
        append(log, batch([random.randbytes(random.randint(0, 120)) for _ in range(random.randint(1, 3))]))
    await durable(log)
    return logs, log


def unread(log: Log, offset: int = 0, bytes_max: int = 1000) -> Unread:
    [piece] = log.read(offset, bytes_max=bytes_max, offset_limit=log.end_offset, to_send=True).buffers
    assert isinstance(piece, Unread)
    return piece


@pytest.mark.parametrize("seed", range(20))
def test_what_is_sent_is_what_a_read_returns(seed: int) -> None:
    async def scenario() -> None:
        random = Random(seed)
        _, log = await filled(SimDisk(1), seed)
        unread_count = 0
        for _ in range(200):
            offset, limit = sorted(random.randint(0, log.end_offset) for _ in range(2))
            bytes_max = random.choice((0, 1, 100, 300, 1000, 2500, 10_000))
            at_least_one = random.random() < 0.5
            expected = log.read(offset, bytes_max=bytes_max, offset_limit=limit, at_least_one=at_least_one)
            for segment in log.segments:
                if random.random() < 0.5:
                    segment._recent.clear()
            found = log.read(offset, bytes_max=bytes_max, offset_limit=limit, at_least_one=at_least_one, to_send=True)
            pieces = [piece.read() if isinstance(piece, Unread) else piece for piece in found.buffers]
            unread_count += any(isinstance(piece, Unread) for piece in found.buffers)
            assert found.size_bytes == expected.size_bytes == sum(map(len, found.buffers))
            assert (pieces, found.next_offset) == (expected.buffers, expected.next_offset)
        assert unread_count > 20

    run(scenario)


def test_a_large_piece_is_found_by_one_index_entry_and_the_headers_behind_it() -> None:
    async def scenario() -> None:
        disk = SimDisk(1)
        _, log = await filled(disk)
        offset = log.read(0, bytes_max=1000, offset_limit=log.end_offset, to_send=True).next_offset
        disk.calls.clear()
        unread(log, offset)
        assert disk.calls["read"] == 2

    run(scenario)


def test_what_retention_removed_meanwhile_is_sent() -> None:
    """The size has been told, and the reader was promised these records."""

    async def scenario() -> None:
        _, log = await filled(SimDisk(1))
        expected = log.read(0, bytes_max=1000, offset_limit=log.end_offset).buffers
        piece = unread(log)
        log.advance_start(log.segments[1].base_offset)
        log.drop_below(log.start_offset)
        assert [piece.read()] == expected

    run(scenario)


def test_what_was_cut_meanwhile_is_not_sent() -> None:
    """Other records, from another leader, may be at this position by now."""

    async def scenario() -> None:
        _, log = await filled(SimDisk(1))
        piece = unread(log)
        log.truncate_to(1)
        append(log, batch([bytes(3000)]))
        with pytest.raises(StorageError, match="was cut"):
            piece.read()

    run(scenario)


def test_what_an_earlier_process_wrote_is_checked_before_a_byte_of_it_is_sent() -> None:
    async def scenario() -> None:
        disk = SimDisk(1)
        logs, _ = await filled(disk)
        await logs.close()
        log = (await open_logs(small_pieces(disk))).get(topic_id(1), 0)
        assert log is not None
        first = log.read(0, bytes_max=1000, offset_limit=log.end_offset, to_send=True).buffers
        assert not isinstance(first[0], Unread)
        assert [unread(log).read()] == first

    run(scenario)


def test_what_cannot_be_read_is_refused_by_the_next_reader_with_its_place() -> None:
    """The first has told its reader a size, and can only give up the connection."""

    async def scenario() -> None:
        disk = SimDisk(1)
        _, log = await filled(disk)
        piece = unread(log)
        disk.fail("read", "/t-0/", errno.EIO)
        with pytest.raises(CorruptSegment, match="cannot be read"):
            piece.read()
        disk.fail("read", "/t-0/", errno.EIO)
        with pytest.raises(CorruptSegment, match="cannot be read"):
            log.read(0, bytes_max=1000, offset_limit=log.end_offset, to_send=True)

    run(scenario)


def test_a_wrong_index_is_no_damage() -> None:
    async def scenario() -> None:
        _, log = await filled(SimDisk(1))
        expected = log.read(0, bytes_max=1000, offset_limit=log.end_offset)
        index = log.segments[0].index
        for number in range(1, len(index)):
            entry = index.entry(number)
            index.positions[number] = entry.position + 7
        assert log.read(0, bytes_max=1000, offset_limit=log.end_offset, to_send=True) == expected

    run(scenario)
