"""Disks that fail: full, failing to sync, and damaged. Acknowledged data stays, and faults are reported."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

import pytest

from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig
from chronik.storage.errors import CorruptJournal, CorruptSegment, LogFull, StorageFailed
from chronik.storage.log import Log
from chronik.wire.batches import patch
from chronik.wire.error_codes import ErrorCode
from tests.storage.driving import (
    NOW_MS,
    append,
    batch,
    batches_of,
    durable,
    open_logs,
    records_of,
    run,
    topic_id,
    values_of,
)

FIRST = "/data/t-0/00000000000000000000.log"


def test_after_a_failed_sync_nothing_is_acknowledged_any_more() -> None:
    """The kernel may have dropped the bytes while the next sync succeeds: trying again would acknowledge a loss."""

    async def scenario() -> None:
        disk = SimDisk(1)
        heard = []
        logs = await open_logs(disk)
        logs.journal._on_failure = heard.append
        log = logs.create("t", topic_id(1), 0, LogConfig())
        append(log, batch([b"a"]))
        await durable(log)
        append(log, batch([b"b"]))
        disk.fail("sync")
        first = log.when_durable(2)
        await asyncio.sleep(0)
        append(log, batch([b"c"]))
        second = log.when_durable(3)
        assert first is not None
        assert second is not None
        assert first is not second
        for future in (first, second):
            with pytest.raises(StorageFailed) as raised:
                await future
            assert raised.value.kafka_error is ErrorCode.KAFKA_STORAGE_ERROR
        assert log.durable_offset == 1
        assert logs.failed is heard[0]
        with pytest.raises(StorageFailed):
            append(log, batch([b"d"]))  # acks=1 is an acknowledgement too
        third = log.when_durable(2)
        assert third is not None
        with pytest.raises(StorageFailed):
            await third
        assert values_of(log)[:1] == [b"a"], "what was durable can still be read"

    run(scenario)


@pytest.mark.parametrize(
    ("journal_bytes_max", "broken"),
    [(0, "/t-0/"), (1 << 20, "/t-0/"), (1 << 20, ".journal")],
    ids=["by segment", "by journal, the checkpoint fails", "by journal"],
)
@pytest.mark.parametrize("logs_count", [1, 3])
@pytest.mark.parametrize("checkpoints", [False, True])
def test_what_a_failed_sync_left_in_the_page_cache_is_written_again(
    logs_count: int, broken: str, checkpoints: bool, journal_bytes_max: int
) -> None:
    """A process that starts after a failed sync may read bytes that are only in the page cache and count as written:
    its own syncs succeed without writing them. What this process reports as durable must survive the next power cut."""

    async def scenario() -> None:
        disk = SimDisk(1)
        disk.journal_bytes_max = journal_bytes_max
        logs = await open_logs(disk)
        many = [logs.create("t", topic_id(1), number, LogConfig()) for number in range(logs_count)]
        for number, log in enumerate(many):
            append(log, batch([b"first %d" % number]))
        await asyncio.gather(*[durable(log) for log in many])
        for log in many:
            append(log, batch([b"x" * 600]))  # more than a sector
        disk.fail("sync", broken)
        with contextlib.suppress(StorageFailed):
            await asyncio.gather(*[durable(log) for log in many])
            await logs.checkpoint()
        assert logs.failed is not None
        disk = disk.process_killed()
        disk.journal_bytes_max = journal_bytes_max
        logs = await open_logs(disk)
        many = [logs.create("t", topic_id(1), number, LogConfig()) for number in range(logs_count)]
        for log in many:
            append(log, batch([b"y" * 600]))
        await asyncio.gather(*[durable(log) for log in many])
        if checkpoints:
            await logs.checkpoint()
        held = [values_of(log) for log in many]
        marks = [log.durable_offset for log in many]
        logs = await open_logs(disk.power_cut())
        for number, (values, mark) in enumerate(zip(held, marks, strict=True)):
            found = logs.create("t", topic_id(1), number, LogConfig())
            assert found.damage is None
            assert values_of(found)[:mark] == values[:mark]

    run(scenario)


@pytest.mark.parametrize(
    ("operation", "path"),
    [
        ("sync_directory", "/data/journal"),
        ("sync", "/checkpoint.tmp"),
        ("sync", ".cleaned"),
        ("sync_directory", "/data/t-0"),
        ("rename", ".swap"),
        ("sync", ".index"),
    ],
)
def test_maintenance_whose_sync_fails_stops_the_node(operation: str, path: str) -> None:
    """The state on disk is unknown then, and the old files may be gone already, so only a restart that reads everything
    helps. A rename after the commit point counts too, because the log is in neither place."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        config = LogConfig(cleanup_policy="compact", segment_bytes=600, min_cleanable_dirty_ratio=0.0)
        log = logs.create("t", topic_id(1), 0, config)
        for index in range(20):
            append(log, batch([b"%d" % index], keys=[b"k%d" % (index % 3)]))
        await logs.checkpoint()
        log.high_watermark = log.end_offset
        table = {record.key: record.value for record in records_of(log)}
        append(log, batch([b"new"], keys=[b"new"]))
        await durable(log)
        disk.fail(operation, path)
        with pytest.raises(StorageFailed):
            await logs.maintain(NOW_MS)
        assert logs.failed is not None
        again = (await open_logs(disk.process_killed())).get(topic_id(1), 0)
        assert again is not None
        assert {record.key: record.value for record in records_of(again)} == {**table, b"new": b"new"}

    run(scenario)


def test_a_full_disk_refuses_appends_and_heals() -> None:
    """Produces get KAFKA_STORAGE_ERROR while fetches succeed. When there is space, the log accepts appends again."""

    async def scenario() -> None:
        disk = SimDisk(1, capacity_bytes=2000)
        log = (await open_logs(disk)).create("t", topic_id(1), 0, LogConfig())
        append(log, batch([b"kept"]))
        await durable(log)
        with pytest.raises(LogFull) as raised:
            append(log, batch([b"x" * 3000]))
        assert raised.value.kafka_error is ErrorCode.KAFKA_STORAGE_ERROR
        assert (log.end_offset, values_of(log)) == (1, [b"kept"])
        disk.capacity_bytes = 100_000
        append(log, batch([b"x" * 3000]))
        await durable(log)
        assert log.end_offset == 2

    run(scenario)


def test_retention_frees_a_disk_that_is_full_to_the_last_byte() -> None:
    """Deleting takes a note in the journal, which takes space: without a reserve a full disk would stay full."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, LogConfig(segment_bytes=2000, retention_bytes=4000))
        for index in range(40):
            append(log, batch([b"%d" % index * 200]))
        await logs.checkpoint()
        log.high_watermark = 40
        disk.capacity_bytes = 1  # existing files stay, and nothing more fits
        with pytest.raises(LogFull):
            append(log, batch([b"x"]))
        disk.capacity_bytes = used_bytes(disk) + 10
        await logs.maintain(NOW_MS)
        assert log.start_offset > 20
        append(log, batch([b"x"]))
        await durable(log)
        again = await open_logs(disk.power_cut())
        assert [(each.start_offset, each.end_offset) for each in again.all()] == [(log.start_offset, 41)]

    run(scenario)


def test_a_disk_that_producers_keep_full_heals_when_its_records_have_outlived_retention() -> None:
    """Producers use every byte that becomes free. The space that retention needs must stay reserved, for any length of
    time."""

    async def scenario() -> None:
        disk = SimDisk(1, capacity_bytes=12_000_000)
        logs = await open_logs(disk, journal_bytes_max=1_000_000, unsynced_bytes_max=1_000_000)
        await logs.checkpoint()
        log = logs.create("t", topic_id(1), 0, LogConfig(segment_bytes=1_000_000, retention_ms=1_000_000))
        now_ms = NOW_MS

        async def fill() -> int:
            first = log.end_offset
            for size in (40_000, 3000, 10):
                with contextlib.suppress(LogFull):
                    while log.end_offset < first + 10_000:
                        append(log, batch([b"v" * size], timestamps=[now_ms]), now_ms=now_ms)
                        await durable(log)
                        log.high_watermark = log.end_offset
            return log.end_offset - first

        for _ in range(4):
            await fill()
            now_ms += 15_000
            await logs.maintain(now_ms)
        assert log.start_offset == 0
        for _ in range(2):
            now_ms += 10_000_000
            end_offset = log.end_offset
            await logs.maintain(now_ms)
            assert log.start_offset == end_offset
            assert await fill() > 50
        assert disk.exists("/data/reserve")

    run(scenario)


def used_bytes(disk: SimDisk) -> int:
    return (1 << 40) - disk.free_bytes("/data") if disk.capacity_bytes is None else 1 - disk.free_bytes("/data")


def test_a_journal_without_space_leaves_durability_to_the_segments() -> None:
    """The bytes are in the segments already; that the journal has no room must not make the acknowledgement wait."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        two = [logs.create("t", topic_id(1), partition, LogConfig()) for partition in range(2)]
        for log in two:
            append(log, batch([b"a"]))
        await asyncio.gather(*[durable(log) for log in two])
        for log in two:
            append(log, batch([b"b" * 100]))
        disk.capacity_bytes = 0
        await asyncio.gather(*[durable(log) for log in two])
        disk.capacity_bytes = None
        again = await open_logs(disk.power_cut())
        for partition in range(2):
            found = again.get(topic_id(1), partition)
            assert found is not None
            assert values_of(found) == [b"a", b"b" * 100]

    run(scenario)


async def _three_durable_batches(disk: SimDisk) -> None:
    logs = await open_logs(disk)
    log = logs.create("t", topic_id(1), 0, LogConfig())
    for value in (b"a", b"b", b"c"):
        append(log, batch([value * 50]))
    await logs.close()


def test_behind_the_durable_mark_no_gap_between_offsets_is_believed() -> None:
    """No checksum covers a batch's offset: a sector that the power cut spoilt would move the log's end anywhere."""

    async def scenario() -> None:
        disk = SimDisk(1)
        log = (await open_logs(disk)).create("t", topic_id(1), 0, LogConfig())
        append(log, batch([b"a"]))
        await durable(log)
        spoilt_at = len(disk.read_file(FIRST))
        append(log, batch([b"b"]))
        disk = disk.process_killed()
        disk.flip_bit(FIRST, spoilt_at + 3)
        again = (await open_logs(disk)).get(topic_id(1), 0)
        assert again is not None
        assert (again.end_offset, values_of(again), again.damage) == (1, [b"a"], None)

    run(scenario)


def fetched(*records: tuple[int, bytes]) -> memoryview:
    """Batches of one record each at these offsets, as a leader whose log was compacted sends them."""
    made = b""
    for offset, value in records:
        data = bytearray(batch([value]).data)
        patch(data, 0, offset, 0)
        made += data
    return memoryview(made)


@pytest.mark.parametrize("journal_bytes_max", [0, 300, 1 << 20])
@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_what_a_follower_of_a_compacted_log_holds_is_there_again(journal_bytes_max: int, durability: str) -> None:
    """The gaps are the leader's. A power cut may remove the mark of a synced segment, but not the synced data."""

    async def scenario(seed: int) -> None:
        disk = SimDisk(seed)
        disk.journal_bytes_max = journal_bytes_max
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, LogConfig(durability=durability, segment_bytes=1500))
        held = [(0, b"a")]
        log.append_fetched(fetched(*held))
        await logs.checkpoint()
        for offset in range(7, 60, 9):
            some = [(offset, b"b" * 200), (offset + 1, b"c" * 600), (offset + 4, b"d")]
            log.append_fetched(fetched(*some))
            held += some
            if durability == "fsync":
                await durable(log)
        disk = disk.power_cut() if durability == "fsync" else disk.process_killed()
        again = (await open_logs(disk)).get(topic_id(1), 0)
        assert again is not None
        assert [(record.offset, record.value) for record in records_of(again)] == held

    for seed in range(20):
        run(partial(scenario, seed))


def test_a_round_that_found_no_space_for_its_declarations_makes_them_later() -> None:
    """A record of a log that the journal never declared would keep the node from starting."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        two = [logs.create("t", topic_id(1), partition, LogConfig()) for partition in range(2)]
        for value in (b"a", b"b" * 5000, b"c"):
            for log in two:
                append(log, batch([value]))
            if len(value) > 1:
                await logs.checkpoint()  # a new file: nothing is declared in it
                for log in two:
                    append(log, batch([value]))
                disk.capacity_bytes = used_bytes(disk) + 200
            await asyncio.gather(*[durable(log) for log in two])
            disk.capacity_bytes = None
        again = await open_logs(disk.process_killed())
        assert [values_of(log) for log in again.all()] == [[b"a", b"b" * 5000, b"b" * 5000, b"c"]] * 2

    run(scenario)


def test_a_log_deleted_while_its_segment_is_synced_is_no_failure_of_the_disk() -> None:
    """Much is written to a new topic, and it is deleted at once: the round then finds its directory gone."""

    async def scenario() -> None:
        disk = SimDisk(1)
        disk.journal_bytes_max, disk.delay_s = 0, 0.02
        logs = await open_logs(disk)
        doomed, kept = (logs.create(name, topic_id(index), 0, LogConfig()) for index, name in enumerate("ab"))
        for log in (doomed, kept):
            append(log, batch([b"x"]))
        waiting = kept.when_durable(1)
        doomed.when_durable(1)
        await asyncio.sleep(0.01)
        await asyncio.gather(logs.delete(doomed), durable(kept))
        assert waiting is not None
        await waiting
        assert logs.failed is None

    run(scenario)


def test_a_journal_is_rotated_once_although_the_first_who_asked_gave_up() -> None:
    """A node that stops cancels its maintenance and closes: two files of one number would overwrite each other."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, LogConfig())
        number = logs.journal.number
        disk.delay_s = 0.05
        first = asyncio.ensure_future(logs.journal.rotate())
        await asyncio.sleep(0.01)
        append(log, batch([b"a"]))
        running = log.when_durable(1)
        while logs.journal._next_file is None:
            await asyncio.sleep(0.001)
        first.cancel()  # it waits for the round that is under way
        await logs.journal.rotate()
        assert running is not None
        await running
        assert logs.journal.number == number + 1
        append(log, batch([b"b"]))
        await durable(log)
        again = (await open_logs(disk.power_cut())).get(topic_id(1), 0)
        assert again is not None
        assert values_of(again) == [b"a", b"b"]

    run(scenario)


def test_damage_below_the_durable_mark_is_reported_and_not_cut() -> None:
    """Truncating it as a torn tail would silently lose acknowledged records."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, LogConfig())
        append(log, batch([b"a" * 50]))
        await durable(log)
        await logs.checkpoint()
        append(log, batch([b"b" * 50]))
        await durable(log)
        size = len(disk.read_file(FIRST)) // 2
        append(log, batch([b"c" * disk.journal_bytes_max]))
        await durable(log)  # by its segment, of which the journal gets a mark only
        whole_size = len(disk.read_file(FIRST))
        disk = disk.process_killed()
        disk.flip_bit(FIRST, size * 2 + 80)
        for life in range(3):
            logs = await open_logs(disk)
            log_again = logs.get(topic_id(1), 0)
            assert log_again is not None
            damage = log_again.damage
            assert damage is not None
            assert (damage.path, damage.position, damage.offset) == (FIRST, size * 2, 2)
            assert log_again.end_offset == 3, "the offsets were given away"
            assert values_of_prefix(log_again) == [b"a" * 50]
            with pytest.raises(CorruptSegment):
                log_again.read(2, bytes_max=1000, offset_limit=3)
            with pytest.raises(CorruptSegment):
                append(log_again, batch([b"d"]))
            assert len(disk.read_file(FIRST)) == whole_size
            if life == 1:
                await logs.checkpoint()  # the journals that knew of the mark go; the mark must not
            disk = disk.process_killed()

    run(scenario)


def test_damage_to_journaled_bytes_is_reported_and_not_taken_for_a_torn_tail() -> None:
    """A later frame proves that the damaged one had been synced, and so perhaps acknowledged."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        two = [logs.create("t", topic_id(1), partition, LogConfig()) for partition in range(2)]
        for value in (b"a", b"b"):
            for log in two:
                append(log, batch([value * 50]))
            await asyncio.gather(*[durable(log) for log in two])
        disk = disk.process_killed()
        journal = "/data/journal/" + disk.list("/data/journal")[0]
        content = disk.read_file(journal)
        disk.flip_bit(journal, content.find(b"a" * 50))
        with pytest.raises(CorruptJournal, match="journal is damaged at byte") as raised:
            await open_logs(disk)
        assert raised.value.path == journal
        disk = disk.process_killed()
        disk.flip_bit(journal, content.find(b"a" * 50))  # as before
        disk.flip_bit(journal, content.rfind(b"b" * 50))  # the last frame may also be a torn one
        again = await open_logs(disk)
        assert [log.durable_offset for log in again.all()] == [1, 1]
        assert [log.end_offset for log in again.all()] == [2, 2], "the segments still have it"

    run(scenario)


def test_journaled_bytes_repair_a_segment_that_lost_them() -> None:
    """This is the journal's purpose. Other bytes of the segment stay."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        two = [logs.create("t", topic_id(1), partition, LogConfig()) for partition in range(2)]
        for value in (b"a", b"b"):
            for log in two:
                append(log, batch([value * 50]))
            await asyncio.gather(*[durable(log) for log in two])
        disk.journal_bytes_max = 0
        append(two[0], batch([b"c" * 50]))
        await durable(two[0])  # by its segment
        disk = disk.process_killed()
        disk.flip_bit(FIRST, 90)
        disk.open(FIRST.replace("t-0", "t-1")).truncate(0)
        again = await open_logs(disk)
        assert [log.damage for log in again.all()] == [None, None]
        found = [values_of(log) for log in again.all()]
        assert found == [[b"a" * 50, b"b" * 50, b"c" * 50], [b"a" * 50, b"b" * 50]]

    run(scenario)


def values_of_prefix(log: Log) -> list[bytes]:
    return [bytes(buffer[-51:-1]) for buffer in log.read(0, bytes_max=1, offset_limit=3).buffers]


def test_a_damaged_batch_from_before_a_clean_end_is_never_served() -> None:
    """Nothing is scanned after a clean end; the first read finds it."""

    async def scenario() -> None:
        disk = SimDisk(1)
        await _three_durable_batches(disk)
        size = len(disk.read_file(FIRST)) // 3
        disk.flip_bit(FIRST, size + 80)
        log = (await open_logs(disk)).get(topic_id(1), 0)
        assert log is not None
        assert log.damage is None
        with pytest.raises(CorruptSegment) as raised:
            batches_of(log)
        assert (raised.value.path, raised.value.position, raised.value.offset) == (FIRST, size, 1)
        assert raised.value.kafka_error is ErrorCode.KAFKA_STORAGE_ERROR
        assert len(log.read(0, bytes_max=1, offset_limit=3).buffers) == 1, "what lies before is served"

    run(scenario)


def test_a_torn_tail_behind_the_durable_mark_is_cut() -> None:
    """It was never acknowledged. If it stayed, records appended after it would be unreadable."""

    async def scenario() -> None:
        disk = SimDisk(1)
        await _three_durable_batches(disk)
        logs = await open_logs(disk)
        log = logs.get(topic_id(1), 0)
        assert log is not None
        append(log, batch([b"torn"]))
        size = log.segments[-1].size_bytes
        disk = disk.process_killed()
        disk.open(FIRST).truncate(size - 1)
        log = (await open_logs(disk)).get(topic_id(1), 0)
        assert log is not None
        assert (log.damage, log.end_offset) == (None, 3)
        append(log, batch([b"d"]))
        await durable(log)
        assert values_of(log)[3:] == [b"d"]

    run(scenario)
