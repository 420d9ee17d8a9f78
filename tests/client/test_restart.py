"""A broker that is killed under load and restarted: the client only notices a pause."""

from __future__ import annotations

import asyncio

import pytest

from chronik import testing
from chronik.client.consumer import Consumer
from chronik.client.producer import Producer
from tests.client.test_against_brokers import client, create, run

RECORD_COUNT = 3_000
KILL_COUNT = 3


@pytest.mark.slow
def test_every_acknowledged_record_is_there_once_after_kills() -> None:
    """Idempotence, retries and a group that commits, against kill -9 of the only broker there is."""

    async def work(broker: testing.Cluster) -> None:
        async with client(broker.bootstrap) as cluster:
            topic = await create(cluster, "killed", 3)
            delivered: list[tuple[int, int]] = []

            async def produce() -> None:
                async with Producer(cluster, linger_ms=1) as producer:
                    for first in range(0, RECORD_COUNT, 100):
                        some = [
                            await producer.send(topic, b"%d" % i, key=b"k%d" % (i % 10))
                            for i in range(first, first + 100)
                        ]
                        for delivery in some:
                            position = await delivery
                            delivered.append((position.partition, position.offset))
                        await asyncio.sleep(0.02)

            producing = asyncio.create_task(produce())
            for kill in range(1, KILL_COUNT + 1):
                while len(delivered) < kill * RECORD_COUNT // (KILL_COUNT + 2) and not producing.done():
                    await asyncio.sleep(0.01)
                broker.kill()
                await asyncio.to_thread(broker.start_again)
            await producing
            assert len(set(delivered)) == RECORD_COUNT
            read: dict[int, list[int]] = {}
            async with Consumer(cluster, group_id="readers") as consumer:
                consumer.subscribe([topic])
                while sum(map(len, read.values())) < RECORD_COUNT:
                    for fetched in await consumer.poll(200):
                        read.setdefault(fetched.at.partition, []).extend(int(r.value or b"") for r in fetched.records)
                assert await consumer.poll(200) == []
            assert sorted(value for values in read.values() for value in values) == list(range(RECORD_COUNT))
            assert all(values == sorted(values) for values in read.values())

    with testing.Cluster(in_process=False) as broker:
        run(work(broker))
