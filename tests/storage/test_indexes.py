"""Indexes are hints: whatever happens to their files, no append fails and no answer changes."""

from __future__ import annotations

import errno
from functools import partial

import pytest

from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig
from chronik.storage.indexes import CHUNK_ENTRIES
from tests.storage.driving import (
    NOW_MS,
    append,
    batch,
    batches_of,
    durable,
    offset_for_timestamp,
    open_logs,
    run,
    topic_id,
    values_of,
)

FIRST = "/data/t-0/00000000000000000000.log"


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("operation", ["open", "truncate", "append"])
def test_an_append_does_not_depend_on_its_index_file(operation: str, code: int) -> None:
    """The index is written after the records. If an error left the rest of the append undone, a duplicate batch would
    be written twice, and a follower would continue at an offset that it already has."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        config = LogConfig(index_interval_bytes=1)
        leader = logs.create("t", topic_id(1), 0, config)
        for number in range(CHUNK_ENTRIES - 1):
            append(leader, batch([b"%d" % number], producer=(7, 0, number)))
        disk.fail(operation, ".index", code)
        repeated = batch([b"once"], producer=(7, 0, CHUNK_ENTRIES - 1))
        first = append(leader, repeated)
        assert not disk._failing, "the index was to be written"
        assert leader.append(repeated, leader_epoch=0, now_ms=NOW_MS) == (first, first, NOW_MS, True)

        follower = logs.create("f", topic_id(2), 0, config)
        copied = b"".join(bytes(each.data) for each in batches_of(leader))
        disk.fail(operation, "f-0/00000000000000000000.index", code)
        follower.append_fetched(memoryview(copied))
        assert not disk._failing
        assert follower.end_offset == leader.end_offset
        for log in (leader, follower):
            for number in range(CHUNK_ENTRIES):  # the next chunk is written where the first should have been
                append(log, batch([b"later"], timestamps=[NOW_MS + 1 + number]))
        await durable(leader)
        await durable(follower)
        held = values_of(leader)
        logs = await open_logs(disk.process_killed())
        for log in logs.all():
            assert (log.damage, values_of(log)) == (None, held)
            for number in range(CHUNK_ENTRIES):
                expected = (CHUNK_ENTRIES + number, NOW_MS + 1 + number, 0)
                assert offset_for_timestamp(log, NOW_MS + 1 + number, log.end_offset) == expected

    run(scenario)


@pytest.mark.parametrize("checkpoints", [False, True])
@pytest.mark.parametrize("ends", ["by kill", "by power cut"])
def test_entries_of_what_was_cut_do_not_come_back(ends: str, checkpoints: bool) -> None:
    """A later batch that starts at the same position and offset matches the stale entries. They would be trusted, and a
    lookup by time would begin after the wanted record."""

    async def scenario(seed: int) -> None:
        disk = SimDisk(seed)
        config = LogConfig(index_interval_bytes=1)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, config)
        for number in range(40):
            append(log, batch([b"v"], timestamps=[NOW_MS + number // 10]))
        await durable(log)
        await logs.close()
        disk = disk.process_killed()  # the index is loaded again: its file is not open
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, config)
        log.truncate_to(10)
        if checkpoints:
            await logs.checkpoint()
            disk = disk.process_killed()
            logs = await open_logs(disk)
            log = logs.create("t", topic_id(1), 0, config)
        for number in range(30):
            append(log, batch([b"v"], timestamps=[NOW_MS + 1000 + number]), epoch=1)
        await durable(log)
        await logs.checkpoint()
        found = (await open_logs(disk.process_killed() if ends == "by kill" else disk.power_cut())).get(topic_id(1), 0)
        assert found is not None
        assert found.segments[0].max_timestamp_ms == NOW_MS + 1029
        for number in range(30):
            expected = (10 + number, NOW_MS + 1000 + number, 1)
            assert offset_for_timestamp(found, NOW_MS + 1000 + number, 40) == expected

    for seed in range(10):
        run(partial(scenario, seed))


@pytest.mark.parametrize("checkpoints", [False, True])
def test_entries_of_a_torn_tail_do_not_come_back(checkpoints: bool) -> None:
    """Entries after the checkpoint are not loaded, and no entries are loaded for a segment that it does not list."""

    async def scenario() -> None:
        disk = SimDisk(1)
        config = LogConfig(index_interval_bytes=1)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, config)
        for number in range(2 * CHUNK_ENTRIES):
            append(log, batch([b"v"], timestamps=[NOW_MS + number // 10]))
            if number == 9:
                await durable(log)
                if checkpoints:
                    await logs.checkpoint()
        size = log.segments[0].size_bytes
        disk = disk.process_killed()
        disk.open(FIRST).truncate(size // (2 * CHUNK_ENTRIES) * 10)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, config)
        assert log.end_offset == 10
        for number in range(30):
            append(log, batch([b"v"], timestamps=[NOW_MS + 1000 + number]))
        await logs.checkpoint()
        found = (await open_logs(disk.process_killed())).get(topic_id(1), 0)
        assert found is not None
        for number in range(30):
            expected = (10 + number, NOW_MS + 1000 + number, 0)
            assert offset_for_timestamp(found, NOW_MS + 1000 + number, 40) == expected

    run(scenario)


def test_an_index_that_is_missing_or_wrong_changes_no_answer() -> None:
    """An index may be lost, rot, or be of another release."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, LogConfig(segment_bytes=100_000, index_interval_bytes=100))
        for index in range(1500):
            append(log, batch([b"%04d" % index], timestamps=[index]))
        await logs.close()
        name = "/data/t-0/00000000000000000000.index"
        good = disk.read_file(name)
        head, entries = good[:24], [good[at : at + 24] for at in range(24, len(good), 24)]
        no_offsets = head + entries[0] + b"".join(bytes(4) + entry[4:] for entry in entries[1:])
        off_by_one = head + entries[0]
        for entry in entries[1:-1]:  # the last is for the end of the segment
            off_by_one += (int.from_bytes(entry[:4], "big") + 1).to_bytes(4, "big") + entry[4:]
        wrong_digests = head + b"".join(entry[:16] + bytes(4) + entry[20:] for entry in entries)
        older_release = b"".join(entry[:16] for entry in entries)
        halves = (b"", good[:-7], good[:30], good[: len(good) // 2])
        for content in (*halves, no_offsets, off_by_one, wrong_digests, older_release, b"\xff" * 160):
            disk.replace_file(name, content)
            logs = await open_logs(disk)
            log = logs.get(topic_id(1), 0)
            assert log is not None
            for offset in (0, 1, 700, 803, 1200, 1499):
                read = log.read(offset, bytes_max=3000, offset_limit=1500)
                assert int.from_bytes(read.buffers[0][:8], "big") == offset
                assert offset_for_timestamp(log, offset, 1500) == (offset, offset, 0)
            await logs.close()

    run(scenario)
