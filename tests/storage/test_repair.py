"""A data directory that lost files which recovery needs is rebuilt from its segments, and no good record is lost."""

from __future__ import annotations

import pytest

from chronik.runtime.errors import DiskInUse
from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig, LogsConfig
from chronik.storage.errors import CannotRecover
from chronik.storage.log import Log
from chronik.storage.logs import Logs
from chronik.storage.repair import is_whole, repair
from tests.storage.driving import DIRECTORY, append, batch, durable, open_logs, run, runtime_on, topic_id, values_of

PARTITIONS = 3


async def fill(disk: SimDisk, *, is_closed: bool) -> None:
    """Two processes; the second is closed, or killed."""
    for process in range(2):
        logs = await open_logs(disk)
        for partition in range(PARTITIONS):
            log = logs.create("t", topic_id(1), partition, LogConfig(segment_bytes=400))
            for index in range(8):
                number = process * 8 + index
                append(log, batch([b"%d.%d" % (partition, number) * 8], producer=(5, 0, number)), epoch=number // 5)
                await durable(log)
        if process == 0 or is_closed:
            await logs.close()
    if not is_closed:
        disk.unlock(f"{DIRECTORY}/.lock")


def expected(partition: int) -> list[bytes]:
    return [b"%d.%d" % (partition, number) * 8 for number in range(16)]


async def reopened(disk: SimDisk) -> list[Log]:
    logs = await Logs.open(runtime_on(disk), DIRECTORY, LogsConfig(), is_used=True)
    found = [logs.get(topic_id(1), partition) for partition in range(PARTITIONS)]
    return [log for log in found if log is not None]


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("lost", ["journal", "checkpoint", "manifest", "all"])
def test_nothing_is_missing_that_the_segments_hold(lost: str, is_closed: bool) -> None:
    """After a clean end and after kill -9 that is everything, whatever was lost beside it."""

    async def scenario() -> None:
        disk = SimDisk(1)
        await fill(disk, is_closed=is_closed)
        for name in ("journal", "checkpoint", "manifest"):
            if lost not in (name, "all"):
                continue
            if name == "journal":
                disk.remove_tree(f"{DIRECTORY}/journal")
            elif disk.exists(f"{DIRECTORY}/{name}"):
                disk.remove(f"{DIRECTORY}/{name}")
        with pytest.raises(CannotRecover, match="chronik storage repair"):
            await Logs.open(runtime_on(disk), DIRECTORY, LogsConfig(), is_used=True)
        assert not is_whole(disk, DIRECTORY)
        rebuilt = repair(disk, DIRECTORY)
        assert is_whole(disk, DIRECTORY)
        assert [(each.name.partition, each.start_offset, each.end_offset) for each in rebuilt] == [
            (partition, 0, 16) for partition in range(PARTITIONS)
        ]
        logs = await reopened(disk)
        assert [values_of(log) for log in logs] == [expected(partition) for partition in range(PARTITIONS)]
        assert [log.epochs.entries() for log in logs] == [[(0, 0), (1, 5), (2, 10), (3, 15)]] * PARTITIONS
        for log in logs:
            assert log.damage is None
            assert append(log, batch([b"next"], producer=(5, 0, 16)), epoch=3) == 16, "producers go on where they were"

    run(scenario)


def test_bytes_that_only_a_readable_journal_has_are_taken_from_it() -> None:
    """After a power cut, segments may lack records that the journal made durable."""

    async def scenario() -> None:
        disk = SimDisk(3)
        await fill(disk, is_closed=False)
        for partition in range(PARTITIONS):
            place = f"{DIRECTORY}/t-{partition}"
            last = [name for name in disk.list(place) if name.endswith(".log")][-1]
            disk._file(f"{place}/{last}").content[-30:] = b""
        disk.remove(f"{DIRECTORY}/manifest")
        rebuilt = repair(disk, DIRECTORY)
        assert [each.from_journal_bytes for each in rebuilt] == [30] * PARTITIONS
        assert [values_of(log) for log in await reopened(disk)] == [expected(each) for each in range(PARTITIONS)]

    run(scenario)


def test_damage_inside_a_segment_costs_nothing_behind_it() -> None:
    async def scenario() -> None:
        disk = SimDisk(1)
        await fill(disk, is_closed=True)
        path = f"{DIRECTORY}/t-1/{0:020}.log"
        disk._file(path).content[70] ^= 1
        disk.remove_tree(f"{DIRECTORY}/journal")
        rebuilt = repair(disk, DIRECTORY)
        assert [each.damaged_count for each in rebuilt] == [0, 1, 0]
        assert [each.end_offset for each in rebuilt] == [16] * 3
        log = (await reopened(disk))[1]
        found = log.read(10, bytes_max=1 << 20, offset_limit=16)
        assert b"1.10" in bytes(found.buffers[0])

    run(scenario)


def test_a_torn_tail_is_cut_and_kept_beside() -> None:
    async def scenario() -> None:
        disk = SimDisk(1)
        await fill(disk, is_closed=True)
        place = f"{DIRECTORY}/t-0"
        last = [name for name in disk.list(place) if name.endswith(".log")][-1]
        disk._file(f"{place}/{last}").content += b"half a batch"
        disk.remove(f"{DIRECTORY}/checkpoint")
        rebuilt = repair(disk, DIRECTORY)
        assert rebuilt[0].cut_bytes == len(b"half a batch")
        assert disk.read_file(f"{place}/{last}.cut") == b"half a batch"
        assert values_of((await reopened(disk))[0]) == expected(0)

    run(scenario)


def test_it_may_be_run_again_and_not_while_a_node_runs() -> None:
    async def scenario() -> None:
        disk = SimDisk(1)
        await fill(disk, is_closed=True)
        logs = await open_logs(disk)
        with pytest.raises(DiskInUse):
            repair(disk, DIRECTORY)
        await logs.close()
        first = repair(disk, DIRECTORY)
        assert repair(disk, DIRECTORY) == first

    run(scenario)


def test_a_stray_that_is_put_back_is_a_log_again() -> None:
    """As docs/reference/storage.md says: rename the directory, and rebuild."""

    async def scenario() -> None:
        disk = SimDisk(1)
        await fill(disk, is_closed=True)
        logs = await open_logs(disk)
        log = logs.get(topic_id(1), 1)
        assert log is not None
        await logs.set_aside([log], "is unknown", 1_700_000_000_000)
        await logs.close()
        assert [log.partition for log in await reopened(disk)] == [0, 2]
        disk._locked.clear()
        disk.rename(f"{DIRECTORY}/t-1.1700000000000.stray", f"{DIRECTORY}/t-1")
        assert len(repair(disk, DIRECTORY)) == PARTITIONS
        assert values_of((await reopened(disk))[1]) == expected(1)

    run(scenario)
