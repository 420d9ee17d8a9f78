"""No room for a file, or no descriptor to open it with: the call is refused before anything has changed, and heals."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from functools import partial

import pytest

from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig
from chronik.storage.errors import CorruptSegment, LogFull, StorageFailed
from chronik.storage.journal_format import RecordKind
from chronik.wire.error_codes import ErrorCode
from tests.storage.driving import append, batch, durable, open_logs, run, topic_id, values_of

FIRST = "/data/t-0/00000000000000000000.log"
NO_ROOM = [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE]


@pytest.mark.parametrize("code", NO_ROOM)
@pytest.mark.parametrize(("operation", "path"), [("make_directory", "/t-0"), ("open", "/t-0/")])
def test_a_new_log_without_room_for_its_files_is_refused_and_heals(operation: str, path: str, code: int) -> None:
    """Inodes, blocks of a directory and descriptors run out as bytes do: no reason to stop the node."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, LogConfig())
        disk.fail(operation, path, code)
        with pytest.raises(LogFull) as raised:
            append(log, batch([b"a"]))
        assert raised.value.kafka_error is ErrorCode.KAFKA_STORAGE_ERROR
        assert (log.end_offset, logs.failed) == (0, None)
        append(log, batch([b"a"]))
        await durable(log)
        again = (await open_logs(disk.power_cut())).get(topic_id(1), 0)
        assert again is not None
        assert values_of(again) == [b"a"]

    run(scenario)


@pytest.mark.parametrize("code", [*NO_ROOM, None], ids=[*map(str, NO_ROOM), "no room for its note"])
@pytest.mark.parametrize("ends", ["by power cut", "by kill", "by checkpoint"])
def test_a_roll_without_room_leaves_the_log_as_it_was(ends: str, code: int | None) -> None:
    """A smaller batch may still fit into the old segment. So neither a file nor a note of the new one may stay:
    recovery would treat its base offset as the end of the old one."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, LogConfig(segment_bytes=1000))
        append(log, batch([b"a" * 500]))
        await durable(log)
        if code is None:
            while disk.capacity_bytes is None:  # until the journal needs another step of zeros
                if logs.journal.size_bytes % 2048 > 2048 - 16:
                    disk.capacity_bytes = 1
                else:
                    logs.journal.note(log, RecordKind.MARK)
        else:
            disk.fail("open", "1.log", code)
        with pytest.raises(LogFull):
            append(log, batch([b"b" * 600]))
        assert (log.end_offset, len(log.segments), logs.failed) == (1, 1, None)
        assert "00000000000000000001.log" not in disk.list("/data/t-0")
        disk.capacity_bytes = None
        append(log, batch([b"small"]))
        append(log, batch([b"b" * 600]))
        await durable(log)
        if ends == "by checkpoint":
            await logs.checkpoint()
        again = (await open_logs(disk.process_killed() if ends == "by kill" else disk.power_cut())).get(topic_id(1), 0)
        assert again is not None
        assert (again.damage, [segment.base_offset for segment in again.segments]) == (None, [0, 2])
        assert values_of(again) == [b"a" * 500, b"small", b"b" * 600]

    run(scenario)


@pytest.mark.parametrize("ends_at_once", [False, True])
@pytest.mark.parametrize("offset", [1, 7])
def test_a_log_that_restarts_without_room_for_a_file_is_empty_and_heals(offset: int, ends_at_once: bool) -> None:
    """The dropped records are gone by then, so the log must not continue as if they existed."""

    async def scenario(seed: int) -> None:
        disk = SimDisk(seed)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, LogConfig())
        for value in (b"a", b"b", b"c"):
            append(log, batch([value]))
        await logs.checkpoint()
        disk.fail("open", "/t-0/", errno.EMFILE)
        with pytest.raises(LogFull):
            log.restart_at(offset)
        assert (log.start_offset, log.end_offset, log.segments, logs.failed) == (offset, offset, [], None)
        if not ends_at_once:
            append(log, batch([b"d"]))
            await durable(log)
        again = (await open_logs(disk.power_cut())).get(topic_id(1), 0)
        assert again is not None
        assert (again.start_offset, values_of(again)) == (offset, [] if ends_at_once else [b"d"])
        append(again, batch([b"e"]))
        assert values_of(again)[-1] == b"e"

    for seed in range(10):
        run(partial(scenario, seed))


def test_a_read_without_a_file_descriptor_is_refused_and_no_damage() -> None:
    """The operator would be told to restore a file that is whole."""

    async def scenario() -> None:
        disk = SimDisk(1)
        await three_durable_batches(disk)
        log = (await open_logs(disk)).get(topic_id(1), 0)
        assert log is not None
        disk.fail("open", "/t-0/", errno.EMFILE)
        with pytest.raises(LogFull):
            log.read(0, bytes_max=1000, offset_limit=3)
        assert len(values_of(log)) == 3

    run(scenario)


@pytest.mark.parametrize("journal_bytes_max", [0, 1 << 20], ids=["by segment", "by journal"])
def test_a_round_that_cannot_open_a_segment_is_told_to_those_who_wait(journal_bytes_max: int) -> None:
    """After a start no segment is open yet. If the round simply ended, the waiters would wait forever."""

    async def scenario() -> None:
        disk = SimDisk(1)
        append((await open_logs(disk)).create("t", topic_id(1), 0, LogConfig()), batch([b"a"]))
        disk = disk.process_killed()
        disk.journal_bytes_max = journal_bytes_max
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, LogConfig())
        append(log, batch([b"b"]))
        log.segments[0].used = False
        log.segments[0].rest()
        disk.fail("open", "/t-0/", errno.EMFILE)
        with pytest.raises(StorageFailed):
            await asyncio.wait_for(durable(log), 1)

    run(scenario)


def test_what_an_append_must_know_of_its_segment_is_read_before_it_writes() -> None:
    """After a start the segment's latest time is not known yet. If it cannot be read, nothing may have been written."""

    async def scenario() -> None:
        disk = SimDisk(1)
        await three_durable_batches(disk)
        size = len(disk.read_file(FIRST)) // 3
        disk.flip_bit(FIRST, size + 16)  # the format's version, in the header of the second batch
        log = (await open_logs(disk)).get(topic_id(1), 0)
        assert log is not None
        with pytest.raises(CorruptSegment):
            append(log, batch([b"d"], producer=(7, 0, 0)))
        assert (log.end_offset, len(disk.read_file(FIRST))) == (3, size * 3)

    run(scenario)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO])
@pytest.mark.parametrize(("operation", "path"), [("open", ".log"), ("open", ".index"), ("truncate", ".index")])
def test_a_truncation_is_refused_before_it_begins_or_done(operation: str, path: str, code: int) -> None:
    """Its note counts: a truncation that is only half done would leave a log that does not continue where its file
    ends."""

    async def scenario() -> None:
        disk = SimDisk(1)
        config = LogConfig(index_interval_bytes=1)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, config)
        for number in range(10):
            append(log, batch([b"%d" % number]))
        await logs.close()
        disk = disk.process_killed()
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, config)
        disk.fail(operation, path, code)
        with contextlib.suppress(LogFull, CorruptSegment):
            log.truncate_to(5)
        assert not disk._failing
        assert logs.failed is None
        expected = [b"%d" % number for number in range(log.end_offset)]
        assert log.end_offset == (10 if path == ".log" else 5)
        append(log, batch([b"last"]))
        await durable(log)
        again = (await open_logs(disk.power_cut())).get(topic_id(1), 0)
        assert again is not None
        assert values_of(again) == [*expected, b"last"]

    run(scenario)


async def three_durable_batches(disk: SimDisk) -> None:
    logs = await open_logs(disk)
    log = logs.create("t", topic_id(1), 0, LogConfig())
    for value in (b"a", b"b", b"c"):
        append(log, batch([value * 50]))
    await logs.close()
