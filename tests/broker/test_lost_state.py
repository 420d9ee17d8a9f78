"""A complete node that lost a part of its state, or has another node's: it refuses to start, or serves no wrong
record."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from chronik.broker.errors import CannotStart
from chronik.sim.disk import SimDisk
from chronik.storage.errors import StorageFailed
from chronik.wire.error_codes import ErrorCode
from tests.broker.harness import start_node
from tests.broker.hostile import TOPIC, World, run, turns

ELSEWHERE = {"metadata_log_dir": "/meta"}


async def written(disk: SimDisk, *, topics: tuple[str, ...] = (TOPIC,), **settings: object) -> None:
    """One record in each topic, and a clean end."""
    world = await World.make(disk, **settings)
    for topic in topics:
        await world.create(topic)
        made = await world.produce(topic.encode(), topic=topic)
        assert made.error_code == 0
    await world.node.stop()
    await turns()


async def refused(disk: SimDisk, words: str, **settings: object) -> None:
    """It does not start, and changes nothing for the next start."""
    with pytest.raises(CannotStart, match=words):
        await start_node(disk, **settings)
    await turns()


def scenario(work: Callable[[SimDisk], Awaitable[None]]) -> None:
    async def test() -> None:
        await work(SimDisk(1))

    run(test())


def test_a_node_without_its_metadata_does_not_begin_an_empty_cluster() -> None:
    """All records would be deleted as those of unknown topics."""

    async def work(disk: SimDisk) -> None:
        await written(disk)
        disk.rename("/data/raft", "/data/raft.away")
        await refused(disk, r"/data/raft holds no metadata.*mount or restore metadata\.log\.dir")
        assert not disk.exists("/data/raft")
        disk.rename("/data/raft.away", "/data/raft")
        again = await World.make(disk)
        assert TOPIC.encode() in bytes((await again.fetch()).records)
        await again.node.stop()

    scenario(work)


def test_a_metadata_disk_that_is_not_mounted_stops_the_node() -> None:
    async def work(disk: SimDisk) -> None:
        await written(disk, **ELSEWHERE)
        disk.rename("/meta", "/meta.away")
        await refused(disk, "/meta/raft holds no metadata", **ELSEWHERE)
        disk.remove_tree("/meta")
        disk.rename("/meta.away", "/meta")
        again = await World.make(disk, **ELSEWHERE)
        assert TOPIC.encode() in bytes((await again.fetch()).records)
        await again.node.stop()

    scenario(work)


def test_a_data_disk_that_is_not_mounted_stops_the_node_that_has_the_only_copy() -> None:
    """It would serve empty partitions, and number new records from 0."""

    async def work(disk: SimDisk) -> None:
        await written(disk, **ELSEWHERE)
        disk.rename("/data", "/data.away")
        await refused(disk, r"held the only copy of .*-0.*chronik\.lost\.disk\.accept=true", **ELSEWHERE)
        await refused(disk, "held the only copy", **ELSEWHERE)
        given_up = await World.make(disk, **ELSEWHERE, lost_disk_accept=True)
        assert (await given_up.fetch()).high_watermark == 0
        await given_up.is_serving()
        await given_up.node.stop()

    scenario(work)


@pytest.mark.parametrize("name", ["journal", "checkpoint", "manifest"])
def test_a_node_that_lost_what_recovery_needs_does_not_start(name: str) -> None:
    async def work(disk: SimDisk) -> None:
        await written(disk)
        before = disk.list("/data")
        disk.rename(f"/data/{name}", f"/data/{name}.away")
        await refused(disk, f"/data/{name}.*`chronik storage repair /data`")
        assert not disk.exists(f"/data/{name}")
        disk.rename(f"/data/{name}.away", f"/data/{name}")
        assert set(before) <= set(disk.list("/data"))
        again = await World.make(disk)
        assert TOPIC.encode() in bytes((await again.fetch()).records)
        await again.node.stop()

    scenario(work)


def test_exchanged_directories_are_not_served_as_each_other() -> None:
    async def work(disk: SimDisk) -> None:
        await written(disk, topics=("a", "b"))
        for old, new in (("a-0", "x"), ("b-0", "a-0"), ("x", "b-0")):
            disk.rename(f"/data/{old}", f"/data/{new}")
        world = await World.make(disk)
        for topic in ("a", "b"):
            found = await world.fetch(topic=topic)
            assert found.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            refused = await world.produce(b"more", topic=topic)
            assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await world.create("c")
        assert (await world.produce(topic="c")).error_code == 0, "the others are served"
        await world.node.stop()

    scenario(work)


@pytest.mark.parametrize("path", ["/data/journal", "/data/raft"])
def test_a_node_whose_journal_is_removed_under_it_acknowledges_nothing_more(path: str) -> None:
    """It writes to files that can no longer be found, and no write fails."""

    async def work(disk: SimDisk) -> None:
        world = await World.make(disk)
        await world.create()
        await world.produce(b"before")
        disk.remove_tree(path)
        await asyncio.sleep(5)
        with pytest.raises(StorageFailed, match="was removed, replaced or cut"):
            await world.node.wait_stopped()
        await world.node.stop()

    scenario(work)


def test_a_partition_whose_files_are_removed_under_it_takes_nothing_more() -> None:
    async def work(disk: SimDisk) -> None:
        world = await World.make(disk)
        await world.create()
        await world.create("other")
        await world.produce(b"before")
        await world.produce(b"before", topic="other")
        disk.remove_tree(f"/data/{TOPIC}-0")
        await asyncio.sleep(5)
        assert (await world.produce(b"after")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await world.produce(b"after", topic="other")).error_code == 0
        await world.node.stop()

    scenario(work)


def test_logs_that_the_metadata_does_not_know_are_kept_for_a_week() -> None:
    """An old copy of the metadata looks just like deleted topics."""

    async def work(disk: SimDisk) -> None:
        first = await World.make(disk)
        await first.node.stop()
        await turns()
        old = {name: disk.read_file(f"/data/raft/{name}") for name in disk.list("/data/raft")}
        await written(disk)
        for name in disk.list("/data/raft"):
            disk.remove(f"/data/raft/{name}")
        for name, content in old.items():
            disk.replace_file(f"/data/raft/{name}", content)
        with pytest.raises(CannotStart, match="it is an old copy"):
            await World.make(disk)
        await turns()
        disk.remove("/data/metadata-mark")  # as the message advises
        again = await World.make(disk)
        strays = [stray.name for stray in again.node.logs.strays.all()]
        assert strays == [f"{TOPIC}-0"]
        await again.node.stop()

    scenario(work)


def test_an_old_copy_of_the_metadata_is_refused_after_a_kill_too() -> None:
    """A killed node writes no last mark. The marks that it wrote while running must be enough."""

    async def work(disk: SimDisk) -> None:
        world = await World.make(disk)
        await asyncio.sleep(5)
        old = {name: disk.read_file(f"/data/raft/{name}") for name in disk.list("/data/raft")}
        await world.create()
        await world.produce(b"acknowledged")
        await asyncio.sleep(5)
        mark = disk.read_file("/data/metadata-mark")
        await world.node.stop()
        await turns()
        for name in disk.list("/data/raft"):
            disk.remove(f"/data/raft/{name}")
        for name, content in old.items():
            disk.replace_file(f"/data/raft/{name}", content)
        disk.replace_file("/data/metadata-mark", mark)  # as a kill leaves it
        for _ in range(4):
            await refused(disk, "it is an old copy")

    scenario(work)


def test_retention_goes_on_after_a_restart_in_a_topic_that_nobody_touches() -> None:
    """Otherwise the disk fills up with expired records."""

    async def work(disk: SimDisk) -> None:
        first = await World.make(disk)
        await first.create(retention_ms="60000")
        for n in range(3):
            await first.produce(b"%d" % n)
        await first.node.stop()
        await turns()
        again = await World.make(disk)
        await asyncio.sleep(3600)
        (log,) = again.node.logs.all()
        assert log.start_offset == 3
        await again.node.stop()

    scenario(work)


def test_a_new_directory_before_the_used_one_in_log_dirs_is_refused() -> None:
    """Only the first is used: the node would begin an empty cluster, and its clients would find no topic."""

    async def work(disk: SimDisk) -> None:
        await written(disk)
        await refused(disk, "/new is new, and /data holds the data of a node.*name /data first", log_dirs="/new,/data")
        assert not disk.exists("/new")
        again = await World.make(disk, log_dirs="/data,/new")
        assert TOPIC.encode() in bytes((await again.fetch()).records)
        await again.node.stop()

    scenario(work)
