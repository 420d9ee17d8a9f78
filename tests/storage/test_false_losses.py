"""Logs that are sound, or sound in part, and stay so: nothing of them is called damaged, nothing is removed."""

from __future__ import annotations

import asyncio
import errno

import pytest

from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig
from chronik.storage.errors import ForeignDirectory, LogFull
from chronik.storage.log import Log
from chronik.storage.logs import Logs
from chronik.storage.scrubber import Scrubber
from tests.raft.virtual_time import LoopClock
from tests.storage.driving import NOW_MS, append, batch, durable, open_logs, run, topic_id, values_of

SMALL = LogConfig(segment_bytes=400)


def the_log(logs: Logs) -> Log:
    log = logs.get(topic_id(1), 0)
    assert log is not None
    return log


def segment_names(disk: SimDisk) -> list[str]:
    return [name for name in disk.list("/data/t-0") if name.endswith(".log")]


def test_a_topic_that_begins_to_be_compacted_is_whole_after_a_crash() -> None:
    """Compaction merges segments that the last checkpoint lists one by one, so a new checkpoint must be written
    first."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, SMALL)
        for index in range(20):
            append(log, batch([b"%d" % index * 20], keys=[b"k"]))
        log.high_watermark = log.end_offset
        await logs.checkpoint()
        log.config = LogConfig(cleanup_policy="compact", segment_bytes=4000, min_cleanable_dirty_ratio=0.0)
        count = len(segment_names(disk))
        await logs.maintain(NOW_MS)
        assert len(segment_names(disk)) < count
        again = the_log(await open_logs(disk.process_killed()))
        assert again.lost is None
        assert values_of(again)[-1] == b"19" * 20

    run(scenario)


def test_segments_rolled_since_the_checkpoint_outlive_damage_behind_them() -> None:
    """The last copy stays where it is, however often the node is started: the journals that told of its segments go
    with the next checkpoint."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, SMALL)
        append(log, batch([b"first" * 20]))
        await logs.checkpoint()
        for index in range(12):
            append(log, batch([b"%d" % index * 20]))
            await durable(log)
        names = segment_names(disk)
        assert len(names) > 3
        disk.remove(log.segments[-1].path)
        for _ in logs.look_for_vanished():
            pass
        assert log.damage is not None
        await logs.close()
        assert segment_names(disk) == names[:-1]
        again = the_log(await open_logs(disk))
        assert again.damage is not None
        assert segment_names(disk)[: len(names) - 1] == names[:-1]

    run(scenario)


def test_a_log_made_anew_under_the_same_name_keeps_its_directory() -> None:
    """A topic is deleted and made again while a node is down. When the node sets the old log aside, the new one may
    write at any time: it must find the name free, or not yet."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        append(logs.create("t", topic_id(1), 0, LogConfig()), batch([b"old"]))
        await logs.close()
        logs = await open_logs(disk)
        setting_aside = asyncio.ensure_future(logs.set_aside([the_log(logs)], "is of the past", NOW_MS))
        await asyncio.sleep(0)
        new = logs.create("t", topic_id(2), 0, LogConfig())
        append(new, batch([b"new"]))
        await setting_aside
        await durable(new)
        (stray,) = logs.strays.all()
        assert new.segments[-1].is_in_place
        assert b"old" in disk.read_file(f"{stray.path}/{0:020}.log")

    run(scenario)


def test_the_scrubber_meets_a_segment_that_is_gone() -> None:
    """A removed file costs its log, not the node."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, SMALL)
        for index in range(12):
            append(log, batch([b"%d" % index * 20]))
        await logs.close()
        logs = await open_logs(disk)
        disk.remove(the_log(logs).segments[0].path)
        await Scrubber(logs, disk, LoopClock(), 1).one_pass()
        assert the_log(logs).lost is not None

    run(scenario)


@pytest.mark.parametrize("seed", range(20))
def test_a_log_that_begins_again_in_a_new_directory_is_not_taken_for_another(seed: int) -> None:
    """The checkpoint of before says that the directory names its partition. The power may go before the next one."""

    async def scenario() -> None:
        disk = SimDisk(seed)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, LogConfig())
        append(log, batch([b"old"]))
        await logs.checkpoint()
        disk.remove_tree("/data/t-0")
        disk.sync_directory("/data")
        for _ in logs.look_for_vanished():
            pass
        assert log.damage is not None
        logs.cut_lost(log, NOW_MS)
        append(log, batch([b"new"]))
        await durable(log)
        again = the_log(await open_logs(disk.power_cut()))
        assert again.lost is None
        assert values_of(again) == [b"new"]

    run(scenario)


def test_a_foreign_directory_is_set_aside_once_also_when_the_disk_is_full() -> None:
    """What could not be written down the first time is tried again, and finds the directory moved already."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        for partition in range(2):
            append(logs.create("t", topic_id(1), partition, LogConfig()), batch([b"%d" % partition]))
        await logs.close()
        disk.rename("/data/t-0", "/data/kept")
        disk.rename("/data/t-1", "/data/t-0")
        disk.rename("/data/kept", "/data/t-1")
        logs = await open_logs(disk)
        log = the_log(logs)
        assert isinstance(log.damage, ForeignDirectory)
        disk.fill(0)
        disk.fail("truncate", "t-0", errno.ENOSPC)
        with pytest.raises(LogFull):
            logs.cut_lost(log, NOW_MS)
        disk.heal()
        logs.cut_lost(log, NOW_MS)
        assert log.lost is None

    run(scenario)


def test_directories_without_a_name_open_on_a_full_disk() -> None:
    """As an older release left them. The files are written when there is room."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        for partition in range(20):
            log = logs.create("t", topic_id(1), partition, LogConfig())
            append(log, batch([b"value"]))
            await durable(log)
        disk = disk.process_killed()
        for partition in range(20):
            disk.remove(f"/data/t-{partition}/partition.metadata")
        disk.fill(200)  # enough for the manifest
        logs = await open_logs(disk)
        assert [values_of(log) for log in logs.all()] == [[b"value"]] * 20
        disk.fill(None)
        await logs.close()
        assert all(disk.exists(f"/data/t-{partition}/partition.metadata") for partition in range(20))

    run(scenario)


def test_a_damaged_log_deleted_during_a_checkpoint_stays_deleted() -> None:
    """A note of the checkpoint about the log after its deletion would restore it."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, SMALL)
        for index in range(12):
            append(log, batch([b"%d" % index * 20]))
        await durable(log)
        disk.remove(log.segments[-1].path)
        for _ in logs.look_for_vanished():
            pass
        checkpointing = asyncio.ensure_future(logs.checkpoint())
        while not (logs.journal.number and logs._lane._waiting):  # its segments are being synced
            await asyncio.sleep(0)
        await asyncio.gather(logs.delete(log), checkpointing)
        again = await open_logs(disk.process_killed())
        assert list(again.all()) == []

    run(scenario)


def test_nothing_is_compacted_while_a_foreign_directory_keeps_checkpoints_from_being_made() -> None:
    """The last checkpoint lists segments one by one, which compaction would join."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, SMALL)
        for index in range(20):
            append(log, batch([b"%d" % index * 20], keys=[b"k"]))
        for partition in (1, 2):
            append(logs.create("u", topic_id(2), partition, SMALL), batch([b"x"]))
        await logs.close()
        for old, new in (("u-1", "kept"), ("u-2", "u-1"), ("kept", "u-2")):
            disk.rename(f"/data/{old}", f"/data/{new}")
        logs = await open_logs(disk)
        log = the_log(logs)
        log.high_watermark = log.end_offset
        log.config = LogConfig(cleanup_policy="compact", segment_bytes=4000, min_cleanable_dirty_ratio=0.0)
        await logs.maintain(NOW_MS)
        again = the_log(await open_logs(disk.process_killed()))
        assert again.lost is None

    run(scenario)
