"""The scrubber finds damaged bytes that no consumer has requested, at an even pace and across restarts."""

from __future__ import annotations

import asyncio

import pytest

from chronik.sim.disk import SimDisk
from chronik.storage import scrubber as scrubbing
from chronik.storage.config import LogConfig
from chronik.storage.log import Log
from chronik.storage.logs import Logs
from chronik.storage.scrubber import BEGINNING, Pass, Scrubber
from tests.raft import virtual_time
from tests.raft.virtual_time import LoopClock
from tests.storage.driving import NOW_MS, append, batch, open_logs, topic_id

SEGMENT_BYTES = 400


async def filled(disk: SimDisk, *, partitions: int = 1, batches: int = 12, epochs: int = 1) -> Logs:
    """Reopened, so that nothing of it counts as read by this process."""
    logs = await open_logs(disk)
    for partition in range(partitions):
        log = logs.create("t", topic_id(1), partition, LogConfig(segment_bytes=SEGMENT_BYTES))
        for index in range(batches):
            append(log, batch([b"%d" % index * 20]), epoch=index * epochs // batches)
    await logs.close()
    return await open_logs(disk)


def scrubber_of(logs: Logs, disk: SimDisk, interval_ms: int = 1_000) -> Scrubber:
    return Scrubber(logs, disk, LoopClock(), interval_ms)


def the_log(logs: Logs, partition: int = 0) -> Log:
    log = logs.get(topic_id(1), partition)
    assert log is not None
    return log


def flip(disk: SimDisk, log: Log, offset: int, position: int) -> None:
    """One bit of the batch at an offset."""
    segment = log.segments[log.index_at(offset)]
    disk._file(segment.path).content[segment.position_of(offset) + position] ^= 1


def test_a_pass_over_sound_logs_reads_every_byte_and_finds_nothing() -> None:
    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await filled(disk, partitions=3, epochs=4)
        scrubber = scrubber_of(logs, disk)
        await scrubber.one_pass()
        assert scrubber.checked_bytes == sum(log.size_bytes for log in logs.all())
        assert [log.lost for log in logs.all()] == [None] * 3
        assert scrubber.progress.next_place == BEGINNING
        assert scrubber.progress.finished_ms >= scrubber.progress.started_ms > 0

    virtual_time.run(scenario)


# Positions of header fields: base offset, length, leader epoch, magic, CRC, last offset delta, first record.
@pytest.mark.parametrize("position", [0, 7, 8, 11, 12, 15, 16, 17, 20, 23, 26, 61, 70])
@pytest.mark.parametrize("offset", [0, 4, 5, 11])
def test_every_damaged_byte_is_found_wherever_it_stands(offset: int, position: int) -> None:
    """Also offset and leader epoch, which no CRC covers. The reported loss begins at or before the damage."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await filled(disk, epochs=3)
        log = the_log(logs)
        told: list[Log] = []
        logs.on_lost = told.append
        flip(disk, log, offset, position)
        scrubber = scrubber_of(logs, disk)
        await scrubber.one_pass()
        assert log.lost is not None
        assert log.lost.lost_from <= offset
        assert told == [log]
        assert scrubber.damaged_count == 1

    virtual_time.run(scenario)


def test_a_compacted_log_has_gaps_and_is_sound() -> None:
    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        config = LogConfig(segment_bytes=SEGMENT_BYTES, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0)
        log = logs.create("t", topic_id(1), 0, config)
        for index in range(20):
            append(log, batch([b"%d" % index * 20], keys=[b"k%d" % (index % 2)]))
        log.high_watermark = log.end_offset
        await logs.maintain(NOW_MS)
        assert log.compacted_offset > 0
        await logs.checkpoint()
        await scrubber_of(logs, disk).one_pass()
        assert log.lost is None

    virtual_time.run(scenario)


def test_a_pass_goes_on_where_the_last_process_left_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrubbing, "KEEP_MS", 0)

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await filled(disk, partitions=4)
        first = scrubber_of(logs, disk, interval_ms=1_000_000)
        task = asyncio.ensure_future(first.one_pass())
        while first.progress.next_place < (topic_id(1), 2, 0):
            await asyncio.sleep(0.01)
        task.cancel()
        again = scrubber_of(await open_again(logs, disk), disk)
        assert again.progress.next_place >= (topic_id(1), 1, 0)
        assert again.progress.started_ms == first.progress.started_ms
        await again.one_pass()
        total = sum(log.size_bytes for log in logs.all())
        assert 0 < again.checked_bytes <= total * 3 // 4

    async def open_again(logs: Logs, disk: SimDisk) -> Logs:
        await logs.close()
        return await open_logs(disk)

    virtual_time.run(scenario)


def test_a_pass_takes_its_interval_and_not_less() -> None:
    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await filled(disk, partitions=8)
        scrubber = scrubber_of(logs, disk, interval_ms=60_000)
        began_s = asyncio.get_running_loop().time()
        await scrubber.one_pass()
        # A step is at least a batch, and these logs are smaller than one step each.
        assert asyncio.get_running_loop().time() - began_s >= 60

    virtual_time.run(scenario)


@pytest.mark.parametrize("data", [b"", b"pass 1", b"\xff\xfe", b"pass a b\nat - -1 -1\n", b"pass 1 2\nat zz 0 0\n"])
def test_a_damaged_place_costs_a_pass_from_the_beginning(data: bytes) -> None:
    assert Pass.decode(data) == Pass()


def test_a_place_is_read_as_it_was_written() -> None:
    for each in (Pass(), Pass(5, 4, (topic_id(3), 7, 1000))):
        assert Pass.decode(each.encode()) == each


def test_a_pass_over_many_small_segments_takes_no_more_than_its_interval() -> None:
    """Each small segment is a step. If every step paused as long as a full-sized one, a pass would never end."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await filled(disk, partitions=10)
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await scrubber_of(logs, disk, interval_ms=20_000).one_pass()
        assert 15 < loop.time() - began_s < 25

    virtual_time.run(scenario)
