"""Few descriptors and many logs: files are closed and reopened, with no effect that clients could notice."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random

import pytest

from chronik.runtime.interfaces import Disk
from chronik.runtime.real_disk import RealDisk
from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig
from chronik.storage.errors import CorruptSegment, StorageFailed
from chronik.storage.log import Log
from chronik.storage.logs import Logs
from chronik.storage.open_files import FILES_PER_SEGMENT
from tests.storage.driving import append, batch, durable, open_logs, run, runtime_on, topic_id, values_of

LOGS = 40


def disk_with(files_max: int, seed: int = 1) -> SimDisk:
    disk = SimDisk(seed)
    disk.files_max = files_max
    return disk


def all_logs(logs: Logs, **config: int) -> list[Log]:
    return [logs.create(f"t{number}", topic_id(number), 0, LogConfig(**config)) for number in range(1, LOGS + 1)]


def open_count(logs: list[Log]) -> int:
    return sum(segment.has_open_files for log in logs for segment in log.segments)


@pytest.mark.parametrize("seed", range(20))
def test_more_logs_than_descriptors_are_written_read_cut_and_recovered(seed: int) -> None:
    """Whatever is closed in between: the records are those of a model that knows of no files."""

    async def scenario() -> None:
        random = Random(seed)
        disk = disk_with(random.choice([2, 8, 20]), seed)
        logs = await open_logs(disk)
        written: dict[bytes, list[bytes | None]] = {topic_id(number): [] for number in range(1, LOGS + 1)}
        for _ in range(6):
            every = all_logs(logs, segment_bytes=random.choice([300, 1 << 20]), index_interval_bytes=1)
            for _ in range(100):
                log = random.choice(every)
                values: list[bytes | None] = [random.randbytes(random.randint(0, 100)) for _ in range(2)]
                append(log, batch(values))
                written[log.topic_id] += values
                if random.random() < 0.1:
                    await durable(log)
                if random.random() < 0.1:
                    cut = random.randrange(0, log.end_offset + 1, 2)
                    log.truncate_to(cut)
                    del written[log.topic_id][cut:]
                if random.random() < 0.2:
                    assert values_of(log) == written[log.topic_id]
            assert open_count(every) <= max(1, disk.files_max // FILES_PER_SEGMENT)
            for log in every:
                await durable(log)
            if random.random() < 0.5:
                await logs.close()
                disk = disk.process_killed()
            else:
                disk = disk.power_cut()
            disk.files_max = random.choice([2, 8, 20])
            logs = await open_logs(disk)
            for log in logs.all():
                assert values_of(log) == written[log.topic_id]

    run(scenario)


def test_no_more_descriptors_are_used_than_allowed(tmp_path: Path) -> None:
    """A partition that is written to once must not cost a descriptor for as long as the node lives."""

    async def scenario() -> None:
        disk = RealDisk()
        disk.files_max = 10
        logs = await Logs.open(runtime_on(disk), str(tmp_path), (await open_logs(SimDisk(1))).config)
        before = len(os.listdir("/proc/self/fd"))
        every = all_logs(logs)
        for _ in range(3):
            for log in every:
                append(log, batch([b"v"]))
            for log in every:
                await durable(log)
        assert len(os.listdir("/proc/self/fd")) <= before + 10
        assert all(values_of(log) == [b"v"] * 3 for log in every)
        await logs.close()

    run(scenario)


def test_a_file_is_synced_before_it_is_closed() -> None:
    """The kernel reports a failed write-back to processes that have the file open. Otherwise a later sync may
    succeed."""

    async def scenario() -> None:
        disk = disk_with(2)
        logs = await open_logs(disk)
        first, second, third = all_logs(logs)[:3]
        append(first, batch([b"v"]))
        synced = disk.calls["sync"]
        append(second, batch([b"v"]))
        assert disk.calls["sync"] > synced
        disk.fail("sync", second.segments[0].path, errno.EIO)
        with pytest.raises(StorageFailed):
            append(third, batch([b"v"]))
        assert logs.failed is not None

    run(scenario)


def test_what_is_synced_is_closed_without_another_sync() -> None:
    async def scenario() -> None:
        disk = disk_with(4)
        logs = await open_logs(disk)
        every = all_logs(logs)[:3]
        for log in every[:2]:
            append(log, batch([b"v"]))
        await logs.checkpoint()
        for log in every[:2]:
            log.segments[0].used = False
        synced = disk.calls["sync"]
        append(every[2], batch([b"v"]))
        assert disk.calls["sync"] == synced

    run(scenario)


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("kind", ["real", "simulated"])
def test_a_file_removed_while_it_was_closed_does_not_come_back_empty(kind: str, count: int, tmp_path: Path) -> None:
    """A new, empty file in its place would take records whose offsets say that others come before them."""

    async def scenario() -> None:
        disk: Disk = RealDisk() if kind == "real" else SimDisk(1)
        logs = await Logs.open(runtime_on(disk), f"{tmp_path}/data", (await open_logs(SimDisk(2))).config)
        log = logs.create("t", topic_id(1), 0, LogConfig())
        for _ in range(count):  # the second knows when the first was written, and reads nothing more
            append(log, batch([b"v"]))
        await durable(log)
        segment = log.segments[0]
        segment.let_go_of_files()
        disk.remove(segment.path)
        with pytest.raises(CorruptSegment):
            append(log, batch([b"w"]))
        assert not disk.exists(segment.path)
        assert log.lost is not None
        assert logs.failed is None, "other logs go on"

    run(scenario)


def test_files_of_deleted_logs_are_not_kept_open() -> None:
    """Their space would stay taken until the node ends."""

    async def scenario() -> None:
        logs = await open_logs(disk_with(100))
        every = all_logs(logs)[:5]
        for log in every:
            append(log, batch([b"v"]))
        assert len(logs.open_files) == 5
        for log in every:
            await logs.delete(log)
        del log, every
        assert len(logs.open_files) == 0

    run(scenario)
