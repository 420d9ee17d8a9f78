"""Files of a log are missing: readable records are served, because this may be the last copy, and no good file is
removed."""

from __future__ import annotations

import pytest

from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig
from chronik.storage.errors import CorruptSegment
from chronik.storage.log import Log
from chronik.storage.logs import Logs
from tests.storage.driving import append, batch, durable, open_logs, run, topic_id

BATCHES = 12
SMALL = LogConfig(segment_bytes=400)


async def written(disk: SimDisk) -> tuple[Logs, Log]:
    logs = await open_logs(disk)
    log = logs.create("t", topic_id(1), 0, SMALL)
    for index in range(BATCHES):
        append(log, batch([b"%d" % index * 20]))
    await durable(log)
    return logs, log


async def reopened(disk: SimDisk) -> tuple[Logs, Log]:
    logs = await open_logs(disk)
    log = logs.get(topic_id(1), 0)
    assert log is not None
    return logs, log


def readable(log: Log) -> list[int]:
    """Offsets that a reader is given; each of the others is refused with the file that is damaged."""
    found = []
    for offset in range(log.start_offset, log.end_offset):
        try:
            read = log.read(offset, bytes_max=1, offset_limit=log.end_offset)
        except CorruptSegment:
            continue
        (data,) = read.buffers
        assert b"%d" % offset * 20 in bytes(data)
        found.append(offset)
    return found


def segment_names(disk: SimDisk) -> list[str]:
    return [name for name in disk.list("/data/t-0") if name.endswith(".log")]


def without(log: Log, which: int) -> list[int]:
    bases = [segment.base_offset for segment in log.segments] + [BATCHES]
    return [offset for offset in range(BATCHES) if not bases[which] <= offset < bases[which + 1]]


@pytest.mark.parametrize("which", range(3))
def test_a_segment_that_is_gone_at_the_start_costs_its_own_records(which: int) -> None:
    async def scenario() -> None:
        disk = SimDisk(1)
        logs, log = await written(disk)
        expected, doomed = without(log, which), log.segments[which].path
        await logs.close()
        disk.remove(doomed)
        left = segment_names(disk)
        for _ in range(3):  # each start leaves it as it is
            logs, log = await reopened(disk)
            assert log.lost is not None
            assert log.lost.lost_from == 0, "another replica would send all of it"
            assert log.end_offset == BATCHES
            assert log.durable_offset == BATCHES
            assert readable(log) == expected
            await logs.close()
            assert segment_names(disk) == left

    run(scenario)


def test_a_log_that_lacks_a_sealed_segment_takes_appends() -> None:
    """Only reads of the damaged part fail. The next start finds both the new records and the loss."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs, log = await written(disk)
        expected, doomed = without(log, 1), log.segments[1].path
        await logs.close()
        disk.remove(doomed)
        logs, log = await reopened(disk)
        append(log, batch([b"12" * 20]))
        await durable(log)
        await logs.close()
        logs, log = await reopened(disk)
        assert log.rot is not None
        assert readable(log) == [*expected, BATCHES]

    run(scenario)


def test_a_segment_that_vanishes_under_a_running_node_costs_its_own_records() -> None:
    async def scenario() -> None:
        disk = SimDisk(1)
        logs, log = await written(disk)
        expected = without(log, 2)
        disk.remove(log.segments[2].path)
        for _ in logs.look_for_vanished():
            pass
        assert log.damage is not None
        assert log.lost is log.damage
        assert log.lost.lost_from == 0
        assert readable(log) == expected
        left = segment_names(disk)
        await logs.close()
        assert segment_names(disk) == left
        _, log = await reopened(disk)
        assert readable(log) == expected

    run(scenario)


@pytest.mark.parametrize("is_open", [False, True])
def test_checkpoints_go_on_when_a_segment_is_gone_that_was_not_synced(is_open: bool) -> None:
    """The journal would grow forever. The missing segment is damage of its log, which another replica can repair."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs, log = await written(disk)
        lost = []
        logs.on_lost = lost.append
        other = logs.create("u", topic_id(2), 0, SMALL)
        append(other, batch([b"other"]))
        assert log.segments[0].synced_bytes == 0, "durable by the journal alone"
        if not is_open:
            log.segments[0].let_go_of_files()
        disk.remove(log.segments[0].path)
        number = logs.journal.number
        for _ in range(2):
            await logs.checkpoint()
        assert lost[0] is log
        assert log.rot is not None
        assert log.damage is None
        assert logs.journal.number == number + 2
        assert len(disk.list("/data/journal")) == 1
        _, again = await reopened(disk.power_cut())
        assert readable(again) == without(log, 0)

    run(scenario)
