"""Directories that no journal knows: those without a record are removed at once, others are kept and reported."""

from __future__ import annotations

import logging

import pytest

from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig
from tests.storage.driving import append, batch, open_logs, run, topic_id

SEGMENT = f"{0:020}.log"


@pytest.mark.parametrize("left", [b"", bytes(300)])
def test_a_first_append_that_the_power_cut_leaves_nothing_of_raises_no_alarm(left: bytes) -> None:
    """The directory and the file's length may reach the disk before the journal does. The record was never
    acknowledged."""

    async def scenario() -> None:
        disk = SimDisk(1)
        await (await open_logs(disk)).close()
        disk.make_directory("/data/t-0")
        disk.open(f"/data/t-0/{SEGMENT}", create=True).append([left])
        disk.open("/data/t-0/partition.metadata", create=True)
        disk.open(f"/data/t-0/{0:020}.index", create=True)
        logs = await open_logs(disk)
        assert logs.strays.count == 0
        assert not disk.exists("/data/t-0")

    run(scenario)


@pytest.mark.parametrize("holds", ["a batch", "a torn batch", "another file", "a large file"])
def test_whatever_may_be_a_record_is_kept_and_the_message_says_what_it_is(
    holds: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        disk = SimDisk(1)
        await (await open_logs(disk)).close()
        elsewhere = SimDisk(2)
        append((await open_logs(elsewhere)).create("t", topic_id(1), 0, LogConfig()), batch([b"record"]))
        data = elsewhere.read_file(f"/data/t-0/{SEGMENT}")
        name, data = {
            "a batch": (SEGMENT, data),
            "a torn batch": (SEGMENT, data[:30]),
            "another file": ("notes.txt", b""),
            "a large file": (SEGMENT, bytes((1 << 20) + 1)),
        }[holds]
        disk.make_directory("/data/t-0")
        disk.open(f"/data/t-0/{name}", create=True).append([data])
        with caplog.at_level(logging.WARNING):
            logs = await open_logs(disk)
        (stray,) = logs.strays.all()
        assert disk.read_file(f"{stray.path}/{name}") == data
        assert "/data/t-0 is in no journal, so this node has acknowledged nothing of it" in caplog.text

    run(scenario)
