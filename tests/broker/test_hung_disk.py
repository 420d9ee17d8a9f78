"""Three nodes over TCP, one of whose disks stops answering: the others serve, and it comes back with its disk."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chronik import testing
from chronik.broker.disk_watch import DiskWatch
from chronik.broker.node import Node
from chronik.broker.settings import Settings
from chronik.client.admin.topics import NewTopic, create
from chronik.client.producer import Producer
from chronik.client.routing import ClusterClient
from chronik.metadata.image import Image
from chronik.runtime.alarms import DISK_HUNG, Alarms
from chronik.runtime.kernel_sync import KernelSync
from chronik.runtime.real import real_runtime
from chronik.runtime.real_file import RealFile
from chronik.sim.disk import SimDisk
from tests.broker.harness import TestClock, start_node
from tests.broker.hostile import World

GIVE_UP_S = 120
SETTINGS = {"min.insync.replicas": "2", "chronik.disk.hang.timeout.ms": "1000"}


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(GIVE_UP_S):
        while not holds():
            await asyncio.sleep(0.02)


def in_sync_counts(image: Image) -> list[int]:
    topic = image.topic_named("t")
    assert topic is not None
    return [len(partition.isr) for partition in topic.partitions]


@pytest.mark.slow
def test_others_take_over_from_a_controller_whose_disk_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its heartbeats need no disk. Without the watch, it would lead the quorum and its partitions forever and
    acknowledge nothing."""
    monkeypatch.setattr(KernelSync, "open", lambda loop: None)
    hung: list[str] = []
    released, sync = threading.Event(), RealFile.sync

    def hang(file: RealFile) -> None:
        if any(file.path.startswith(directory) for directory in hung):
            released.wait()
        sync(file)

    monkeypatch.setattr(RealFile, "sync", hang)
    with testing.Cluster(nodes=3, settings=SETTINGS) as cluster:
        nodes = [cast(Node, runner._node) for runner in cluster._runners]  # type: ignore[union-attr]

        async def test() -> None:
            async with ClusterClient(real_runtime(), cluster.bootstrap, client_id="test") as client:
                await create(client, [NewTopic("t", 3, 3)])
                victim = next(node for node in nodes if node.store.is_controller)
                hung.append(victim.settings.log_dir)
                async with Producer(client, linger_ms=0, delivery_timeout_ms=GIVE_UP_S * 1000) as producer:
                    deliveries = [await producer.send("t", b"v", partition=index) for index in range(3)]
                    for delivery in deliveries:
                        await delivery
                assert victim.alarms.is_active(DISK_HUNG)
                assert any(node.store.is_controller for node in nodes if node is not victim)
                released.set()
                await until(lambda: not victim.alarms.is_active(DISK_HUNG))
                known = next(node for node in nodes if node is not victim).store
                await until(lambda: not known.image.brokers[victim.node_id].fenced)
                await until(lambda: in_sync_counts(known.image) == [3, 3, 3])

        try:
            asyncio.run(test())
        finally:
            released.set()


def test_a_node_without_others_says_so_and_goes_on() -> None:
    """No other node can take over, so nothing is given up: connections stay, and waiting requests are answered in the
    end."""

    async def test() -> None:
        node = await start_node(SimDisk(0), disk_hang_timeout_ms=1000)
        world = World(node, cast(SimDisk, node.runtime.disk))
        await world.create()
        await world.produce(b"first")
        world.disk.delay_s = 1.6
        produced = asyncio.ensure_future(world.produce(b"second"))
        await until(lambda: node.alarms.is_active(DISK_HUNG))
        assert node.alarms.totals[DISK_HUNG] == 1
        world.disk.delay_s = 0.0
        assert (await produced).error_code == 0
        await until(lambda: not node.alarms.is_active(DISK_HUNG))
        await node.stop()

    asyncio.run(test())


def test_a_node_gives_way_also_if_its_disk_hung_before_it_was_open() -> None:
    """The watch begins before the logs are read. Parts that must give up leaderships are created later, and must learn
    of the hang."""
    watch = DiskWatch(SimDisk(0), Settings.default(node_id=1), Alarms(TestClock()))
    hung = SimpleNamespace(is_hung=True, look=lambda: True, lane_name="records", oldest_ms=5000)
    cast(Any, watch)._hung_disk = hung
    heard: list[str] = []
    watch.look()
    watch.tell(lambda: heard.append("hangs"), lambda: heard.append("answers"))
    assert heard == ["hangs"]
    hung.is_hung = False
    watch.look()
    assert heard == ["hangs", "answers"]
    watch.tell(lambda: heard.append("hangs"), lambda: heard.append("answers"))
    assert heard == ["hangs", "answers"], "a disk that answers is not worth a word"
