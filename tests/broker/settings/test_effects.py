"""Keys of server.properties that change what a node does, each with its observed effect."""

from __future__ import annotations

import asyncio

from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat
from chronik.metadata.commands.fence_broker import FenceBroker
from chronik.metadata.decisions.decision import Rules
from chronik.metadata.image import NO_LEADER
from chronik.runtime.alarms import DISK_FULL
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from chronik.wire.messages.produce import ProduceResponse
from tests.broker.hostile import TOPIC, World, batch, produce_request, run
from tests.broker.test_disk_trouble import used_bytes
from tests.metadata.clusters import cluster, create, new_topic

PRODUCE = (ProduceResponse, 9)


def test_fetch_max_bytes_bounds_what_one_fetch_returns() -> None:
    """It limits any request; a single larger batch is returned nevertheless."""

    async def test() -> None:
        sizes = []
        for bytes_max in (5000, 1 << 20):
            world = await World.make(fetch_max_bytes=bytes_max)
            await world.create()
            for _ in range(5):
                await world.produce(b"v" * 2000)
            sizes.append(len((await world.fetch()).records or b""))
            await world.node.stop()
        assert 2000 < sizes[0] <= 5000
        assert sizes[1] > 10_000

    run(test())


def test_max_request_partition_size_limit_is_the_size_of_a_page() -> None:
    async def test() -> None:
        world = await World.make(max_request_partition_size_limit=3)
        await world.create("wide", partitions=5)
        request = DescribeTopicPartitionsRequest(topics=[])
        answer = await world.client.ask(request, DescribeTopicPartitionsResponse, 0)
        assert [len(topic.partitions) for topic in answer.topics] == [3]
        assert answer.next_cursor is not None
        assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("wide", 3)
        await world.node.stop()

    run(test())


def test_retention_runs_at_the_interval_of_its_key() -> None:
    """An operator who lengthens the interval keeps deleted records readable for that long. Compaction does not wait.

    The first check comes soon after a start.
    """

    async def test() -> None:
        world = await World.make(log_retention_check_interval_ms=50_000)
        await world.create(retention_ms="1000")
        await asyncio.sleep(16)
        await world.produce(b"kept until the next check")
        await asyncio.sleep(45)
        assert (await world.fetch()).error_code == ErrorCode.NONE
        await asyncio.sleep(10)
        assert (await world.fetch()).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        await world.node.stop()

    run(test())


def test_retention_does_not_wait_while_the_disk_is_full() -> None:
    """Retention is what makes space."""

    async def test() -> None:
        world = await World.make(log_retention_check_interval_ms=3_600_000)
        await world.create(retention_ms="1000")
        await asyncio.sleep(16)
        await world.produce(b"old")
        await asyncio.sleep(20)
        assert (await world.fetch()).error_code == ErrorCode.NONE
        world.disk.capacity_bytes = used_bytes(world.disk)
        assert (await world.produce(bytes(900_000))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await asyncio.sleep(20)
        assert world.node.alarms.is_active(DISK_FULL, world.node.settings.log_dir)
        assert (await world.fetch()).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        await world.node.stop()

    run(test())


def test_log_cleaner_enable_decides_whether_anything_is_compacted() -> None:
    """An operator who disables it wants to keep every record of a compacted topic until it is enabled again."""

    async def test() -> None:
        left = []
        for is_on in (False, True):
            world = await World.make(log_cleaner_enable=is_on, log_cleaner_min_cleanable_ratio=0)
            await world.create(cleanup_policy="compact", segment_bytes="1048576")
            for _ in range(3):
                await world.client.ask(produce_request(batch(b"v" * 100, key=b"k")), *PRODUCE)
            [log] = [log for log in world.node.logs.all() if log.topic == TOPIC]
            log.roll()
            await world.client.ask(produce_request(batch(b"last", key=b"k")), *PRODUCE)
            await world.node.logs.maintain(world.node.runtime.clock.wall_ms())
            left.append(log.segments[0].size_bytes)
            await world.node.stop()
        assert left[0] > left[1]

    run(test())


def test_unclean_leader_election_enable_holds_for_topics_that_do_not_say() -> None:
    leaders = []
    for value in ("false", "true"):
        on = cluster(2, rules=Rules(static_configs={"unclean.leader.election.enable": value}))
        create(on, new_topic("t", 1, 2))
        first, second = on.partition("t").replicas
        for broker_id in (second, first):
            on.ask(FenceBroker(broker_id=broker_id, broker_epoch=on.epoch(broker_id)))
        on.ask(BrokerHeartbeat(broker_id=second, broker_epoch=on.epoch(second)))
        leaders.append(on.partition("t").leader)
    assert leaders == [NO_LEADER, second]
