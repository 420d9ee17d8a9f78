"""Groups with our consumer and librdkafka's: each understands the other's data in the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import confluent_kafka
import pytest

from chronik.client.consumer import Consumer
from tests.client.test_against_brokers import client, create, produce, run

PARTITION_COUNT = 6


class TheirMember:
    """A consumer of librdkafka, polled in a separate thread."""

    def __init__(self, bootstrap: str, group_id: str, topic: str, assignor: str) -> None:
        self.read: list[bytes] = []
        self.partition_count = 0
        self._is_stopped = False
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group_id,
                "partition.assignment.strategy": assignor,
                "auto.offset.reset": "earliest",
                "heartbeat.interval.ms": 100,
                "auto.commit.interval.ms": 100,
                "session.timeout.ms": 10_000,
            }
        )
        self._consumer.subscribe([topic])
        self._polling = asyncio.create_task(asyncio.to_thread(self._poll))

    def _poll(self) -> None:
        while not self._is_stopped:
            message = self._consumer.poll(0.05)
            self.partition_count = len(self._consumer.assignment())
            if message is not None and message.error() is None:
                self.read.append(message.value() or b"")
        self._consumer.close()

    async def stop(self) -> None:
        self._is_stopped = True
        await self._polling


@pytest.mark.parametrize("theirs_first", [True, False], ids=["theirs leads", "ours leads"])
@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_ours_and_librdkafkas_share_a_topic(
    bootstrap: str, unique: Callable[[str], str], assignor: str, theirs_first: bool
) -> None:
    """The first member leads and assigns; the other one must understand it, and no record is lost or read twice."""

    async def work() -> None:
        async with client(bootstrap) as cluster, client(bootstrap) as own:
            topic = await create(cluster, unique("mixed"), PARTITION_COUNT)
            group_id = unique("group")
            read: list[bytes] = []
            own_count = 0
            stop = asyncio.Event()

            async def our_member() -> None:
                nonlocal own_count
                async with Consumer(
                    own, group_id=group_id, assignors=(assignor,), heartbeat_ms=100, session_timeout_ms=10_000
                ) as consumer:
                    consumer.subscribe([topic])
                    while not stop.is_set():
                        for fetched in await consumer.poll(50):
                            read.extend(record.value or b"" for record in fetched.records)
                        own_count = len(consumer.assignment)

            async def until(condition: Callable[[], bool]) -> None:
                while not condition():
                    if ours is not None and ours.done():
                        ours.result()
                    await asyncio.sleep(0.02)

            ours: asyncio.Task[None] | None = None
            if theirs_first:
                theirs = TheirMember(bootstrap, group_id, topic, assignor)
                await until(lambda: theirs.partition_count == PARTITION_COUNT)
                ours = asyncio.create_task(our_member())
            else:
                ours = asyncio.create_task(our_member())
                await until(lambda: own_count == PARTITION_COUNT)
                theirs = TheirMember(bootstrap, group_id, topic, assignor)
            await until(lambda: own_count == theirs.partition_count == PARTITION_COUNT // 2)
            await produce(cluster, topic, range(1_000))
            await until(lambda: len(read) + len(theirs.read) >= 1_000)
            assert read
            assert theirs.read
            await theirs.stop()
            await until(lambda: own_count == PARTITION_COUNT)
            await produce(cluster, topic, range(1_000, 1_500))
            await until(lambda: len(read) + len(theirs.read) >= 1_500)
            stop.set()
            await ours
            assert sorted(map(int, read + theirs.read)) == list(range(1_500))

    run(work())
