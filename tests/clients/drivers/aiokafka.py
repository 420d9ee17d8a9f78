"""aiokafka, on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.clients.driver import CODECS, Seen, Sent

SECONDS_MAX = 60
T = TypeVar("T")


class AiokafkaDriver:
    codecs: Sequence[str] = CODECS
    has_headers = has_timestamps = is_idempotent = True

    def __init__(self, bootstrap: str, **settings: Any) -> None:
        """`settings` are the client's own: those of a login, for example."""
        self._common: dict[str, Any] = {"bootstrap_servers": bootstrap, **settings}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._members: dict[str, _Member] = {}

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS_MAX)

    def produce(
        self, topic: str, records: Sequence[Sent], *, codec: str = "none", idempotent: bool = False
    ) -> list[tuple[int, int]]:
        return self._run(self._produce(topic, records, codec, idempotent=idempotent))

    async def _produce(
        self, topic: str, records: Sequence[Sent], codec: str, *, idempotent: bool
    ) -> list[tuple[int, int]]:
        producer = AIOKafkaProducer(
            **self._common,
            acks="all",
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            linger_ms=20,
        )
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic,
                    value=_encoded(record.value),
                    key=_encoded(record.key),
                    headers=[(key, value.encode()) for key, value in record.headers],
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            results = [await future for future in futures]
        finally:
            await producer.stop()
        return [(result.partition, result.offset) for result in results]

    def consume(self, topic: str, count: int) -> list[Seen]:
        return self._run(self._consume(topic, count))

    async def _consume(self, topic: str, count: int) -> list[Seen]:
        consumer = AIOKafkaConsumer(topic, **self._common, auto_offset_reset="earliest")
        await consumer.start()
        try:
            found: list[Seen] = []
            while len(found) < count:
                found += _seen(await consumer.getmany(timeout_ms=1000))
            return found
        finally:
            await consumer.stop()

    def join(self, member: str, group: str, topic: str) -> None:
        self._members[member] = self._run(_Member.start(self._common, group, topic))

    def received(self, member: str) -> list[Seen]:
        return list(self._members[member].received)

    def assignment(self, member: str) -> list[int]:
        return sorted(partition.partition for partition in self._members[member].consumer.assignment())

    def commit(self, member: str) -> None:
        self._run(self._members[member].consumer.commit())

    def leave(self, member: str) -> None:
        self._run(self._members.pop(member).stop())

    def close(self) -> None:
        for member in list(self._members):
            self.leave(member)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS_MAX)
        self._loop.close()


class _Member:
    consumer: AIOKafkaConsumer

    def __init__(self) -> None:
        self.received: list[Seen] = []

    @classmethod
    async def start(cls, common: dict[str, Any], group: str, topic: str) -> _Member:
        member = cls()
        member.consumer = AIOKafkaConsumer(
            topic,
            **common,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=6000,
            heartbeat_interval_ms=500,
        )
        starting = asyncio.ensure_future(member._poll())
        member._task = starting
        return member

    async def _poll(self) -> None:
        await self.consumer.start()
        while True:
            self.received += _seen(await self.consumer.getmany(timeout_ms=100))

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        await self.consumer.stop()


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _decoded(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def _seen(polled: dict[TopicPartition, list[Any]]) -> list[Seen]:
    return [
        Seen(
            partition=record.partition,
            offset=record.offset,
            value=_decoded(record.value),
            key=_decoded(record.key),
            headers=tuple((key, value.decode()) for key, value in record.headers),
            timestamp_ms=record.timestamp,
        )
        for records in polled.values()
        for record in records
    ]
