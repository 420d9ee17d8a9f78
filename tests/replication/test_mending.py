"""Many damaged logs are truncated one per loop iteration, so the event loop is never blocked for more than one."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from chronik.metadata.commands.create_topics import PartitionReplicas
from chronik.metadata.commands.report_lost_replicas import PartitionId, ReportLostReplicas
from chronik.replication.assignment import Replicas
from chronik.replication.mending import Mending
from chronik.replication.progress import Key
from chronik.replication.topic_settings import TopicSettings
from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig, LogsConfig
from chronik.storage.errors import CorruptSegment
from chronik.storage.logs import Logs
from tests.metadata.clusters import cluster, create, new_topic, topic_id
from tests.raft.virtual_time import machine
from tests.replication.small import NobodyFull
from tests.replication.test_beginning import Followed
from tests.storage.driving import append, batch

PARTITIONS = 50
SETTINGS = TopicSettings(LogConfig(), 1, "producer", None)


def keys(count: int) -> list[Key]:
    return [(bytes([1]) * 16, index) for index in range(count)]


def test_one_log_is_cut_in_each_turn_of_the_loop() -> None:
    async def test() -> None:
        cut: list[Key] = []
        mending = Mending(cut.append)
        for key in keys(1000):
            mending.add(key)
        mending.add(keys(1)[0])
        assert cut == []
        for turn in range(1000):
            assert len(cut) <= turn
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert cut == keys(1000)

    asyncio.run(test())


def test_what_is_forgotten_is_not_cut_and_an_error_keeps_no_other_from_its_turn() -> None:
    async def test() -> None:
        cut: list[Key] = []

        def refuse(key: Key) -> None:
            cut.append(key)
            raise RuntimeError("no")

        heard: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context["exception"]))
        mending = Mending(refuse)
        for key in keys(4):
            mending.add(key)
        mending.forget(keys(4)[1])
        for _ in range(6):
            await asyncio.sleep(0)
        assert cut == [keys(4)[0], keys(4)[2], keys(4)[3]]
        assert len(heard) == 3
        mending.add(keys(1)[0])
        mending.end()
        await asyncio.sleep(0)
        assert len(cut) == 3

    asyncio.run(test())


def test_a_node_with_many_damaged_logs_syncs_for_one_cut_in_a_turn() -> None:
    """All of them leave the in-sync replicas by one record of the metadata, which the node takes in one turn."""

    async def test() -> None:
        disk, followed, reported = SimDisk(1), Followed(), set[Key]()
        runtime = machine(disk, 0)
        logs = await Logs.open(runtime, "/data", LogsConfig())
        on = cluster(3)
        create(
            on,
            new_topic(
                "t", -1, -1, assignments=[PartitionReplicas(index=n, broker_ids=[1, 2, 3]) for n in range(PARTITIONS)]
            ),
        )
        losses = SimpleNamespace(report=reported.add, forget=reported.discard)
        replicas = cast(Any, Replicas)(
            3, logs, lambda image, topic: SETTINGS, clock=runtime.clock, randomness=None, keeper=None,
            fetchers=followed, losses=losses, full=NobodyFull(),
        )  # fmt: skip
        for index in range(PARTITIONS):
            log = logs.create("t", topic_id("t"), index, LogConfig())
            append(log, batch([b"v"]))
            log.met_damage(CorruptSegment(log.segments[0].path, 0, 0, "a test says so", 0))
        await logs.checkpoint()
        replicas.begin(on.image)
        assert len(reported) == PARTITIONS
        assert len(replicas._mending) == 0
        lost = [PartitionId(topic_id=topic_id("t"), index=index) for index in range(PARTITIONS)]
        epoch = on.image.brokers[3].epoch
        on.ask(ReportLostReplicas(broker_id=3, broker_epoch=epoch, partitions=lost))
        followed.topics.clear()
        before, most = disk.calls["sync"], 0
        replicas.follow(on.image, on.image.all_topics(), ())
        assert disk.calls["sync"] == before, "nothing is cut in the turn that takes the image"
        for _ in range(PARTITIONS + 1):
            before = disk.calls["sync"]
            await asyncio.sleep(0)
            most = max(most, disk.calls["sync"] - before)
        assert all(log.lost is None for log in logs.all())
        assert len(followed.topics) == PARTITIONS, "each is followed once it is cut"
        assert not reported
        assert 0 < most <= 4, "the journal, the segment and its index"

    asyncio.run(test())
