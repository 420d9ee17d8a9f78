"""The share consumer against running brokers, ours and Kafka's: each record once, again when released, shared."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from chronik.client.admin import configs
from chronik.client.errors import Refused
from chronik.client.routing import ClusterClient
from chronik.client.share_consumer import ShareConsumer
from chronik.client.share_session import Acknowledge, ShareFetchOptions, ShareRecord
from tests.client.test_against_brokers import client, create, produce, run

Unique = Callable[[str], str]


async def begins_at_the_start(cluster: ClusterClient, group: str) -> str:
    resource = configs.ConfigResource(configs.ResourceKind.GROUP, group)
    await configs.alter(cluster, resource, set_to={"share.auto.offset.reset": "earliest"})
    return group


async def polled(consumer: ShareConsumer, count: int) -> list[ShareRecord]:
    """At least so many records, as often as it has to be asked."""
    found: list[ShareRecord] = []
    while len(found) < count:
        found += await consumer.poll()
    return found


def test_records_are_delivered_once_and_released_ones_again(bootstrap: str, unique: Unique) -> None:
    async def work() -> None:
        async with client(bootstrap) as cluster:
            topic, group = await create(cluster, unique("t"), 1), await begins_at_the_start(cluster, unique("g"))
            await produce(cluster, topic, range(10))
            async with ShareConsumer(cluster, group_id=group) as consumer:
                consumer.subscribe([topic])
                first = await polled(consumer, 10)
                assert [(each.record.value, each.delivery_count) for each in first] == [
                    (b"%d" % number, 1) for number in range(10)
                ]
                consumer.acknowledge(first[3], Acknowledge.RELEASE)
                consumer.acknowledge(first[5], Acknowledge.REJECT)
                with pytest.raises(ValueError, match="not held"):
                    consumer.acknowledge(first[3])
                [again] = await polled(consumer, 1)
                assert (again.record.offset, again.delivery_count) == (3, 2)
                await consumer.commit()
                assert await consumer.poll() == []

    run(work())


def test_what_a_consumer_leaves_behind_is_for_the_next(bootstrap: str, unique: Unique) -> None:
    """Closing accepts nothing that the caller has not decided about, if the caller wants to decide."""

    async def work() -> None:
        async with client(bootstrap) as cluster:
            topic, group = await create(cluster, unique("t"), 1), await begins_at_the_start(cluster, unique("g"))
            await produce(cluster, topic, range(4))
            async with ShareConsumer(cluster, group_id=group, accepts=False) as consumer:
                consumer.subscribe([topic])
                for each in (await polled(consumer, 4))[:2]:
                    consumer.acknowledge(each)
            async with ShareConsumer(cluster, group_id=group) as consumer:
                consumer.subscribe([topic])
                rest = await polled(consumer, 2)
                assert [(each.record.offset, each.delivery_count) for each in rest] == [(2, 2), (3, 2)]

    run(work())


def test_two_consumers_share_one_partition(bootstrap: str, unique: Unique) -> None:
    async def work() -> None:
        async with client(bootstrap) as cluster:
            topic, group = await create(cluster, unique("t"), 1), await begins_at_the_start(cluster, unique("g"))
            small = ShareFetchOptions(max_records=1)
            seen: Counter[int] = Counter()
            readers: Counter[int] = Counter()

            async def read(number: int) -> None:
                async with ShareConsumer(cluster, group_id=group, options=small) as consumer:
                    consumer.subscribe([topic])
                    async for each in consumer:
                        seen[each.record.offset] += 1
                        readers[number] += 1
                        await consumer.commit()
                        if len(seen) == 60:
                            return

            tasks = [asyncio.create_task(read(number)) for number in range(2)]
            for part in range(60):
                await produce(cluster, topic, range(part, part + 1))
                await asyncio.sleep(0.02)
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            assert seen == Counter(range(60))
            assert set(readers) == {0, 1}

    run(work())


def test_a_lost_session_is_told_and_its_records_come_again(bootstrap: str, unique: Unique) -> None:
    """A broken connection ends the session on the broker, so what was about to be acknowledged is for others."""

    async def work() -> None:
        async with client(bootstrap) as cluster:
            topic, group = await create(cluster, unique("t"), 1), await begins_at_the_start(cluster, unique("g"))
            await produce(cluster, topic, range(2))
            async with ShareConsumer(cluster, group_id=group) as consumer:
                consumer.subscribe([topic])
                assert len(await polled(consumer, 2)) == 2
                node_id = cluster.topology.leader(consumer.assignment[0])
                connection = await cluster.to_node(node_id, f"share {consumer.member_id}")
                connection.close()
                with pytest.raises(Refused, match="SHARE_SESSION_NOT_FOUND"):
                    await consumer.commit()
                again = await polled(consumer, 2)
                assert {each.delivery_count for each in again} == {2}

    run(work())
