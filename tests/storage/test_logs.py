"""All logs of a node: restarts, deletions, reused names, the journal's length, and recovery at a start."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from chronik.runtime.errors import DiskInUse
from chronik.runtime.real import real_runtime
from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig, LogsConfig
from chronik.storage.errors import CorruptCheckpoint, LogFull
from chronik.storage.logs import Logs
from chronik.wire.batches import build
from chronik.wire.records import Record
from tests.storage.driving import (
    NOW_MS,
    append,
    batch,
    batches_of,
    durable,
    marker,
    open_logs,
    run,
    runtime_on,
    topic_id,
    values_of,
)


def test_everything_is_there_after_a_clean_end() -> None:
    """Offsets, epochs, producers, aborted transactions, start; and nothing had to be read to know it."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        log = logs.create("orders", topic_id(1), 3, LogConfig(segment_bytes=400))
        for index in range(20):
            append(log, batch([b"%d" % index * 10], producer=(4, 0, index)), epoch=index // 7)
        append(log, batch([b"t"], producer=(5, 0, 0), transactional=True), epoch=3)
        append(log, marker(5, 0, committed=False), epoch=3)
        append(log, batch([b"open"], producer=(6, 0, 0), transactional=True), epoch=3)
        log.advance_start(5)
        await logs.close()
        disk.calls.clear()
        again = await open_logs(disk)
        found = again.get(topic_id(1), 3)
        assert found is not None
        assert (found.topic, found.start_offset, found.end_offset, found.durable_offset) == ("orders", 5, 23, 23)
        assert found.epochs.entries() == log.epochs.entries()
        assert found.producers.encode() == log.producers.encode()
        assert found.aborted_transactions(0, 100) == [(5, 20, 21, 22)]
        assert found.last_stable_offset(23) == 22
        names = ["manifest", "orders-3/partition.metadata"]
        assert disk.calls["read"] - len(names) < 5, "a clean end leaves nothing to scan"
        assert append(found, batch([b"x"], producer=(4, 0, 20)), epoch=3) == 23

    run(scenario)


def test_a_node_killed_without_warning_finds_what_the_page_cache_holds() -> None:
    """kill -9 loses no append, whether or not a client waited for it."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        for partition in range(5):
            log = logs.create("t", topic_id(1), partition, LogConfig(segment_bytes=400))
            for index in range(20):
                append(log, batch([b"%d" % index * 10], producer=(4, 0, index)))
            if partition % 2:
                await durable(log)
        await logs.checkpoint()
        for log in logs.all():
            append(log, batch([b"after"], producer=(4, 0, 20)))
        again = await open_logs(disk.process_killed())
        assert len(list(again.all())) == 5
        for log in again.all():
            assert values_of(log)[-1] == b"after"
            assert log.end_offset == 21
            assert log.producers.producers[4].last_sequence == 20

    run(scenario)


def test_a_deleted_log_is_gone_and_its_name_is_free_at_once() -> None:
    """A topic deleted and made again under the same name is another topic; none of the old bytes may show."""

    async def scenario() -> None:
        for seed in range(40):
            disk = SimDisk(seed)
            logs = await open_logs(disk)
            old = logs.create("t", topic_id(1), 0, LogConfig())
            other = logs.create("other", topic_id(3), 0, LogConfig())
            for _ in range(3):
                append(old, batch([b"old" * 50]))
            append(other, batch([b"other"]))
            await durable(old)
            deleting = asyncio.ensure_future(logs.delete(old))
            if seed % 2:
                await deleting
            await asyncio.sleep(0)
            assert logs.get(topic_id(1), 0) is None
            new = logs.create("t", topic_id(2), 0, LogConfig())
            append(new, batch([b"new" * 50]))
            append(other, batch([b"other"]))
            await asyncio.gather(durable(new), durable(other))
            await deleting
            again = await open_logs(disk.power_cut() if seed % 3 else disk.process_killed())
            assert again.get(topic_id(1), 0) is None
            found = again.get(topic_id(2), 0)
            assert found is not None
            assert values_of(found) == [b"new" * 50]

    run(scenario)


@pytest.mark.parametrize("pause", ["none", "one turn", "until removed", "checkpoint"])
def test_a_log_that_leaves_and_comes_back_begins_anew(pause: str) -> None:
    """A reassignment removes a replica and another one restores it, perhaps before anything else happens here. The same
    partition then has a new log: it must not contain anything of the old one, and its files must not be removed with
    the old ones."""

    async def scenario() -> None:
        for seed in range(30):
            disk = SimDisk(seed)
            logs = await open_logs(disk)
            old = logs.create("t", topic_id(1), 0, LogConfig())
            for _ in range(3):
                append(old, batch([b"old" * 50]))
            await durable(old)
            removal = logs.delete(old)
            assert logs.get(topic_id(1), 0) is None
            removing = asyncio.ensure_future(removal)
            if pause == "one turn":
                await asyncio.sleep(0)
            if pause == "until removed":
                await removing
            new = logs.create("t", topic_id(1), 0, LogConfig())
            assert new is not old
            append(new, batch([b"new" * 50]))
            await durable(new)
            if pause == "checkpoint":
                await logs.checkpoint()
            again = await open_logs(disk.power_cut() if seed % 3 else disk.process_killed())
            found = again.get(topic_id(1), 0)
            assert found is not None
            assert values_of(found) == [b"new" * 50]
            assert not [name for name in again._disk.list(again.directory) if name.endswith(("-delete", ".stray"))]
            removing.cancel()

    run(scenario)


def test_a_deletion_that_a_power_cut_left_half_done_is_finished() -> None:
    """Renamed, and the journal's word of it lost, or the other way round: the log is gone or whole, never damaged."""

    async def scenario() -> None:
        fates = set()
        for seed in range(60):
            disk = SimDisk(seed)
            logs = await open_logs(disk)
            log = logs.create("t", topic_id(1), 0, LogConfig())
            append(log, batch([b"old" * 50]))
            await durable(log)
            removing = asyncio.ensure_future(logs.delete(log))
            again = await open_logs(disk.power_cut())
            found = again.get(topic_id(1), 0)
            assert found is None or (found.damage is None and values_of(found) == [b"old" * 50])
            fates.add(found is None)
            removing.cancel()
        assert fates == {True, False}

    run(scenario)


@pytest.mark.parametrize("end", ["killed", "killed when removed", "killed while the disk is full", "power cut"])
def test_a_deletion_stays_through_any_number_of_restarts(end: str) -> None:
    """What the first start finds may only be in the page cache, or in the name of a directory. The second start must
    find it too; otherwise bytes of the old log precede those of the next log with its name."""

    async def scenario() -> None:
        for seed in range(60):
            disk = SimDisk(seed)
            logs = await open_logs(disk)
            old = logs.create("t", topic_id(1), 0, LogConfig())
            for _ in range(4):  # the same size as later records, so that only the offsets distinguish them
                append(old, batch([b"old" * 50]))
            await durable(old)
            if end == "killed while the disk is full":
                disk.fill(0)
            removing = asyncio.ensure_future(logs.delete(old))
            await asyncio.sleep(0)
            if end == "killed when removed":
                await removing
            disk = disk.power_cut() if end == "power cut" else disk.process_killed()
            disk.fill(None)
            logs = await open_logs(disk)
            found = logs.get(topic_id(1), 0)
            if found is not None:  # neither the name nor the journal says it: the node knows it from the image
                removing = asyncio.ensure_future(logs.delete(found))
            new = logs.create("t", topic_id(2), 0, LogConfig())
            append(new, batch([b"new" * 50]))
            await durable(new)
            disk = disk.power_cut() if seed % 2 else disk.process_killed()
            again = await open_logs(disk)
            assert again.get(topic_id(1), 0) is None
            kept = again.get(topic_id(2), 0)
            assert kept is not None
            assert (kept.damage, values_of(kept)) == (None, [b"new" * 50])
            assert not [name for name in disk.list(again.directory) if name.endswith(("-delete", ".stray"))]
            removing.cancel()

    run(scenario)


def test_a_full_disk_lets_logs_go() -> None:
    """Deleting is how an operator makes room."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, LogConfig())
        append(log, batch([b"old" * 50]))
        await durable(log)
        await logs.checkpoint()
        disk.capacity_bytes = 0
        await logs.delete(log)
        assert logs.failed is None
        disk.capacity_bytes = None
        again = await open_logs(disk.process_killed())
        assert again.get(topic_id(1), 0) is None

    run(scenario)


def test_a_log_whose_first_append_found_no_room_leaves_nothing() -> None:
    """The directory is created before it is known that the journal has space for a note, so it must be removed with the
    log."""

    async def scenario() -> None:
        made = set()
        for size_bytes in range(0, 4500, 20):  # so that the journal ends at many distances from where it must grow
            disk = SimDisk(1)
            logs = await open_logs(disk)
            other = logs.create("other", topic_id(2), 0, LogConfig())
            append(other, batch([bytes(size_bytes)]))
            await durable(other)
            log = logs.create("t", topic_id(1), 0, LogConfig())
            disk.fill(0)
            with pytest.raises(LogFull):
                append(log, batch([b"old" * 50]))
            made.add((disk.exists(log.directory), bool(log.segments)))
            disk.fill(None)
            await logs.delete(log)
            assert not [name for name in disk.list(logs.directory) if name.startswith("t-")]
        assert (True, False) in made

    run(scenario)


@pytest.mark.parametrize("end", ["killed", "power cut"])
def test_a_log_that_comes_back_after_a_deletion_without_room_to_note_it_keeps_what_is_new(end: str) -> None:
    """A partition that moves away from a full disk and back has the same id. Its old directory waits for removal, and
    records that were acknowledged later must not be removed with it, at the first start or a later one."""

    async def scenario() -> None:
        unnoted = 0
        for size_bytes in range(1300, 1700, 20):  # so that the journal ends at many distances from where it must grow
            disk = SimDisk(size_bytes)
            logs = await open_logs(disk)
            other = logs.create("other", topic_id(2), 0, LogConfig())
            append(other, batch([bytes(size_bytes)]))
            await durable(other)
            log = logs.create("t", topic_id(1), 0, LogConfig())
            append(log, batch([b"old" * 50]))
            await durable(log)
            disk.fill(0)
            await logs.delete(log)
            unnoted += any(name.endswith("-delete") for name in disk.list(logs.directory))
            disk.fill(None)
            log = logs.create("t", topic_id(1), 0, LogConfig())
            append(log, batch([b"new" * 50]))
            await durable(log)
            for _ in range(3):
                disk = disk.power_cut() if end == "power cut" else disk.process_killed()
                logs = await open_logs(disk)
                found = logs.get(topic_id(1), 0)
                assert found is not None
                assert (found.damage, values_of(found)) == (None, [b"new" * 50])
            assert not [name for name in disk.list(logs.directory) if name.endswith(("-delete", ".stray"))]
        assert unnoted > 0

    run(scenario)


def test_a_deletion_during_a_round_disturbs_nobody() -> None:
    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        logs_of = [logs.create("t", topic_id(1), partition, LogConfig()) for partition in range(3)]
        for log in logs_of:
            append(log, batch([b"a"]))
        waits = [log.when_durable(1) for log in logs_of]
        await asyncio.sleep(0)
        await logs.delete(logs_of[1])
        await asyncio.gather(*[wait for wait in waits if wait is not None])
        assert [log.durable_offset for log in (logs_of[0], logs_of[2])] == [1, 1]
        assert logs.failed is None

    run(scenario)


def test_the_journal_is_cut_behind_a_checkpoint() -> None:
    """Its length bounds the time of a recovery, and the disk it takes."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk, journal_bytes_max=5000)
        two = [logs.create("t", topic_id(1), partition, LogConfig()) for partition in range(2)]
        for _ in range(100):
            for log in two:
                append(log, batch([b"x" * 100]))
            await asyncio.gather(*[durable(log) for log in two])
            await logs.maintain(NOW_MS)
        names = disk.list("/data/journal")
        assert sum(len(disk.read_file(f"/data/journal/{name}")) for name in names) < 12_000
        again = await open_logs(disk.power_cut())
        assert [log.end_offset for log in again.all()] == [100, 100]

    run(scenario)


def test_one_directory_has_one_owner_until_it_is_closed() -> None:
    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        with pytest.raises(DiskInUse):
            await open_logs(disk)
        await logs.close()
        await (await open_logs(disk)).close()

    run(scenario)


def test_a_damaged_checkpoint_stops_the_start() -> None:
    """Without it, the owner of each directory is unknown, and starting empty would look like a loss of everything."""

    async def scenario() -> None:
        disk = SimDisk(1)
        await (await open_logs(disk)).close()
        disk.flip_bit("/data/checkpoint", 30)
        with pytest.raises(CorruptCheckpoint, match="checkpoint is damaged"):
            await open_logs(disk)

    run(scenario)


def test_a_directory_of_nobody_is_put_aside_not_deleted() -> None:
    async def scenario() -> None:
        disk = SimDisk(1)
        await (await open_logs(disk)).close()
        disk.make_directory("/data/lost-0")
        disk.replace_file("/data/lost-0/00000000000000000000.log", b"something")
        logs = await Logs.open(runtime_on(disk), "/data", LogsConfig(), now_ms=NOW_MS)
        stray = f"/data/lost-0.{NOW_MS}.stray"
        assert disk.read_file(f"{stray}/00000000000000000000.log") == b"something"
        assert [(each.path, each.name, each.since_ms) for each in logs.strays.all()] == [(stray, "lost-0", NOW_MS)]
        week_ms = LogsConfig().stray_retention_ms
        await logs.maintain(NOW_MS + week_ms)
        assert disk.exists(stray), "somebody may want it back for a week"
        await logs.maintain(NOW_MS + week_ms + 1)
        assert not disk.exists(stray)
        assert logs.strays.count == 0

    run(scenario)


def test_the_same_on_a_real_disk(tmp_path: Path) -> None:
    """The simulated disk is the oracle for power cuts; that the code also runs on the machine is shown here."""

    async def scenario() -> None:
        config = LogsConfig(journal_bytes_max=20_000)
        logs = await Logs.open(real_runtime(), str(tmp_path), config)
        for partition in range(20):
            logs.create("t", topic_id(1), partition, LogConfig(segment_bytes=2000))
        for index in range(60):
            for log in logs.all():
                append(log, batch([b"%d" % index * 20], keys=[b"k%d" % (index % 5)]))
            await asyncio.gather(*[durable(log) for log in logs.all()])
            if index % 10 == 9:
                await logs.maintain(NOW_MS)
        for log in logs.all():
            log.high_watermark = log.end_offset
            log.config = LogConfig(cleanup_policy="compact", segment_bytes=2000, min_cleanable_dirty_ratio=0.0)
        await logs.maintain(NOW_MS)
        doomed = logs.get(topic_id(1), 7)
        assert doomed is not None
        await logs.delete(doomed)
        before = {log.partition: [bytes(each.data) for each in batches_of(log)] for log in logs.all()}
        assert len(before[0]) < 60
        await logs.close()
        again = await Logs.open(real_runtime(), str(tmp_path), config)
        assert {log.partition: [bytes(each.data) for each in batches_of(log)] for log in again.all()} == before
        await again.close()

    run(scenario)


def test_a_checkpointed_epoch_that_wrote_nothing_does_not_outlive_the_process() -> None:
    """Its leader may follow another one later and take over batches of an older epoch: these are no torn tail."""

    async def story() -> None:
        disk = SimDisk(0)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, LogConfig())
        append(log, batch([b"a"]), epoch=4)
        log.epochs.assign(5, log.end_offset)  # elected, and nothing was written
        await logs.checkpoint()
        log.truncate_to(log.end_offset)
        assert log.epochs.latest == 4, "a follower has no epoch without records"
        log.append_fetched(memoryview(build([Record(1, NOW_MS, None, b"b", ())], leader_epoch=4)))
        await durable(log)
        found = (await open_logs(disk.power_cut())).get(topic_id(1), 0)
        assert found is not None
        assert found.damage is None
        assert (found.end_offset, found.epochs.entries()) == (2, [(4, 0)])

    run(story)
