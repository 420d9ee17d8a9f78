"""A directory says which partition it holds, so that exchanged directories are noticed and left as they are."""

from __future__ import annotations

import pytest

from chronik.sim.disk import SimDisk
from chronik.storage import partition_metadata
from chronik.storage.config import LogConfig
from chronik.storage.errors import ForeignDirectory
from chronik.storage.partition_metadata import PartitionName
from tests.storage.driving import append, batch, durable, open_logs, run, topic_id, values_of

NAME = PartitionName("orders", topic_id(7), 3)


def test_it_begins_as_kafkas_own() -> None:
    assert NAME.encode() == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABw\ntopic: orders\npartition: 3\n"
    assert partition_metadata.decode(NAME.encode()) == NAME


@pytest.mark.parametrize("size_bytes", range(len(NAME.encode())))
def test_a_file_that_is_not_whole_names_nobody(size_bytes: int) -> None:
    """A power cut may leave any part of it."""
    assert partition_metadata.decode(NAME.encode()[:size_bytes]) is None


def exchange(disk: SimDisk, one: str, other: str) -> None:
    disk.rename(one, f"{one}.aside")
    disk.rename(other, one)
    disk.rename(f"{one}.aside", other)


@pytest.mark.parametrize("other", [("a", 1), ("b", 0)], ids=["partitions", "topics"])
def test_exchanged_directories_are_not_served_and_come_back_when_they_are_put_right(other: tuple[str, int]) -> None:
    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        partitions = [("a", topic_id(1), 0), (other[0], topic_id(1 if other[0] == "a" else 2), other[1])]
        for topic, id_, partition in partitions:
            log = logs.create(topic, id_, partition, LogConfig())
            append(log, batch([f"{topic}{partition}".encode()]))
            await durable(log)
        await logs.close()
        places = ("/data/a-0", f"/data/{other[0]}-{other[1]}")
        exchange(disk, *places)
        again = await open_logs(disk)
        for _, id_, partition in partitions:
            log = again.get(id_, partition)
            assert log is not None
            assert isinstance(log.damage, ForeignDirectory)
            assert (log.start_offset, log.end_offset) == (0, 1)
            with pytest.raises(ForeignDirectory, match=r"it holds .*, not "):
                log.read(0, bytes_max=100, offset_limit=1)
        await again.close()
        exchange(disk, *places)
        right = await open_logs(disk)
        for topic, id_, partition in partitions:
            log = right.get(id_, partition)
            assert log is not None
            assert (log.damage, values_of(log)) == (None, [f"{topic}{partition}".encode()])

    run(scenario)


def test_a_first_segment_that_is_gone_is_damage_and_not_a_later_start() -> None:
    async def scenario() -> None:
        disk = SimDisk(1)
        logs = await open_logs(disk)
        log = logs.create("t", topic_id(1), 0, LogConfig(segment_bytes=200))
        for index in range(5):
            append(log, batch([b"%d" % index * 30]))
        await logs.close()
        disk.remove(f"/data/t-0/{0:020}.log")
        found = (await open_logs(disk)).get(topic_id(1), 0)
        assert found is not None
        assert found.lost is not None
        assert found.lost.lost_from == 0
        assert (found.start_offset, found.end_offset) == (0, 5)

    run(scenario)
