"""Names as long as topics may have: every file and directory that is named after one fits the file system."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chronik.runtime.real import real_runtime
from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig, LogsConfig
from chronik.storage.errors import LogFull
from chronik.storage.logs import Logs
from tests.storage.driving import append, batch, durable, open_logs, run, topic_id, values_of

LONG = "t" * 249  # the longest that Kafka allows


async def opened(directory: Path) -> Logs:
    return await Logs.open(real_runtime(), str(directory), LogsConfig())


@pytest.mark.parametrize("length", [205, 206, 248, 249])
def test_a_topic_with_a_long_name_is_deleted(tmp_path: Path, length: int) -> None:
    """A name that does not fit is no failed disk: one DeleteTopics must not stop every replica's node."""

    async def scenario() -> None:
        logs = await opened(tmp_path)
        log = logs.create("t" * length, topic_id(1), 12345, LogConfig())
        append(log, batch([b"v"]))
        await durable(log)
        await logs.delete(log)
        assert logs.failed is None
        again = logs.create("t" * length, topic_id(2), 12345, LogConfig())
        append(again, batch([b"w"]))
        await logs.close()
        logs = await opened(tmp_path)
        found = logs.get(topic_id(2), 12345)
        assert found is not None
        assert values_of(found) == [b"w"]
        assert logs.get(topic_id(1), 12345) is None
        await logs.close()

    run(scenario)


def test_a_directory_that_belongs_to_no_topic_is_kept_under_a_name_that_fits(tmp_path: Path) -> None:
    """Otherwise every start would fail while the directory exists."""

    async def scenario() -> None:
        for name in (f"{LONG}-12345", f"{LONG}-12346", "short-0"):
            (tmp_path / name).mkdir(parents=True)
            (tmp_path / name / f"kept of {name[-5:]}").touch()
        await (await opened(tmp_path)).close()
        names = {name for name in os.listdir(tmp_path) if name.endswith(".stray")}
        kept = {file for name in names for file in os.listdir(tmp_path / name)}
        assert kept == {"kept of 12345", "kept of 12346", "kept of ort-0"}

    run(scenario)


def test_a_partition_whose_directory_cannot_be_named_refuses_writes_and_stops_nobody(tmp_path: Path) -> None:
    """From partition 100,000 on the longest topic names leave no room for the number."""

    async def scenario() -> None:
        logs = await opened(tmp_path)
        log = logs.create(LONG, topic_id(1), 100_000, LogConfig())
        with pytest.raises(LogFull, match="too long"):
            append(log, batch([b"v"]))
        assert logs.failed is None
        other = logs.create(LONG, topic_id(1), 99_999, LogConfig())
        append(other, batch([b"v"]))
        await logs.delete(log)
        await logs.close()

    run(scenario)


def test_deletions_begun_under_the_longer_names_of_before_are_finished() -> None:
    """A data directory may come from a version that put the topic's name in front."""

    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        log = logs.create("orders", topic_id(1), 0, LogConfig())
        append(log, batch([b"v"]))
        await logs.checkpoint()
        place = f"{logs.journal.number}_{logs.journal.size_bytes}"
        disk.rename("/data/orders-0", f"/data/orders-0.{topic_id(1).hex()}_0_{place}-delete")
        disk = disk.process_killed()  # before the journal had the word of it
        logs = await open_logs(disk)
        assert logs.get(topic_id(1), 0) is None
        assert [name for name in disk.list("/data") if "orders" in name] == []
        await logs.close()

    run(scenario)
