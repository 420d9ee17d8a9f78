"""A partition's directory is missing, and a journal has records of it: the journal is kept, and everything else
continues."""

from __future__ import annotations

import pytest

from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig
from chronik.storage.errors import ForeignDirectory
from chronik.storage.log import Log
from chronik.storage.logs import Logs
from tests.storage.driving import NOW_MS, append, batch, durable, open_logs, run, topic_id, values_of


def exchange(disk: SimDisk) -> None:
    for old, new in (("t-0", "aside"), ("t-1", "t-0"), ("aside", "t-1")):
        disk.rename(f"/data/{old}", f"/data/{new}")
    disk.sync_directory("/data")


def journals(disk: SimDisk) -> int:
    return len(disk.list("/data/journal"))


def log_of(logs: Logs, partition: int, topic: int = 1) -> Log:
    log = logs.get(topic_id(topic), partition)
    assert log is not None
    return log


async def exchanged(seed: int) -> SimDisk:
    """Two logs, of which the checkpoint has one record each and the journal another; then their directories change
    places. Of the second record nothing has reached the segments if the power went."""
    disk = SimDisk(seed)
    logs = await open_logs(disk)
    for partition in range(2):
        append(logs.create("t", topic_id(1), partition, LogConfig()), batch([b"checkpointed %d" % partition]))
    await logs.checkpoint()
    for partition in range(2):
        append(log_of(logs, partition), batch([b"journaled %d" % partition]))
        await durable(log_of(logs, partition))
    disk = disk.power_cut()
    exchange(disk)
    return disk


@pytest.mark.parametrize("seed", range(10))
def test_the_journal_does_not_grow_and_the_records_are_put_back_with_the_directory(seed: int) -> None:
    async def scenario() -> None:
        disk = await exchanged(seed)
        found = journals(disk)
        for start in range(3):
            logs = await open_logs(disk)
            for partition in range(2):
                assert isinstance(log_of(logs, partition).damage, ForeignDirectory)
            other = logs.create("u", topic_id(2), 0, LogConfig())
            for index in range(4):
                append(other, batch([b"%d %d" % (start, index)]))
                await durable(other)
                await logs.checkpoint()
                assert journals(disk) <= found + 1, "those that hold the records, and the one that is written to"
            disk = disk.power_cut()
        exchange(disk)
        logs = await open_logs(disk)
        for partition in range(2):
            assert log_of(logs, partition).lost is None
            assert values_of(log_of(logs, partition)) == [b"checkpointed %d" % partition, b"journaled %d" % partition]
        assert values_of(log_of(logs, 0, topic=2))[-1] == b"2 3"
        await logs.checkpoint()
        assert journals(disk) == 1, "now the segments hold them"
        logs = await open_logs(disk.power_cut())
        assert values_of(log_of(logs, 0)) == [b"checkpointed 0", b"journaled 0"]

    run(scenario)


@pytest.mark.parametrize("ends", ["mended", "deleted"])
def test_journals_are_given_up_with_what_they_were_kept_for(ends: str) -> None:
    """Their records about a log that was created again must not be applied to its new segments."""

    async def scenario() -> None:
        disk = await exchanged(1)
        logs = await open_logs(disk)
        await logs.checkpoint()
        assert journals(disk) > 1
        for partition in range(2):
            log = log_of(logs, partition)
            if ends == "deleted":
                await logs.delete(log)
                continue
            logs.cut_lost(log, NOW_MS)
            append(log, batch([b"fetched"]))
            append(log, batch([b"fetched too"]))
            await durable(log)
        again = await open_logs(disk.process_killed())
        if ends == "mended":
            assert values_of(log_of(again, 0)) == [b"fetched", b"fetched too"]
        await again.checkpoint()
        again = await open_logs(again._disk.power_cut())  # type: ignore[attr-defined]
        assert again.get(topic_id(1), 0) is None or values_of(log_of(again, 0)) == [b"fetched", b"fetched too"]
        await again.checkpoint()
        assert journals(again._disk) == 1  # type: ignore[arg-type]

    run(scenario)
