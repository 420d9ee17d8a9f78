"""librdkafka through confluent-kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from tests.clients.driver import CODECS, Seen, Sent
from tests.clients.drivers.polling import Members

SECONDS_MAX = 30


class ConfluentDriver:
    codecs: Sequence[str] = CODECS
    has_headers = has_timestamps = is_idempotent = True

    def __init__(
        self, bootstrap: str, settings: Mapping[str, str] | None = None, group_protocol: str = "classic"
    ) -> None:
        """`settings` are librdkafka's: those of a login, for example."""
        self._common: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 2, **(settings or {})}
        self._group: dict[str, Any] = {"group.protocol": "consumer"}  # the coordinator decides about sessions
        if group_protocol == "classic":
            self._group = {"session.timeout.ms": 6000}
        self._members = Members()

    def produce(
        self, topic: str, records: Sequence[Sent], *, codec: str = "none", idempotent: bool = False
    ) -> list[tuple[int, int]]:
        settings = {"acks": "all", "compression.codec": codec, "enable.idempotence": idempotent, "linger.ms": 20}
        producer = Producer({**self._common, **settings})
        results: list[tuple[int, int] | None] = [None] * len(records)
        failures: list[str] = []

        def delivered(index: int, error: Any, message: Message) -> None:
            if error:
                failures.append(str(error))
            else:
                results[index] = (message.partition(), message.offset())

        for index, record in enumerate(records):
            options: dict[str, Any] = {}
            if record.partition is not None:
                options["partition"] = record.partition
            if record.timestamp_ms is not None:
                options["timestamp"] = record.timestamp_ms
            producer.produce(
                topic,
                value=_encoded(record.value),
                key=_encoded(record.key),
                headers=[(key, value.encode()) for key, value in record.headers],
                on_delivery=lambda error, message, index=index: delivered(index, error, message),
                **options,
            )
        left = producer.flush(SECONDS_MAX)
        assert not failures, failures
        assert left == 0, f"{left} records were not delivered"
        return [result for result in results if result is not None]

    def consume(self, topic: str, count: int) -> list[Seen]:
        consumer = Consumer({**self._common, "group.id": "unused", "enable.auto.commit": False})
        partitions = consumer.list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions
        consumer.assign([TopicPartition(topic, index, 0) for index in partitions])
        found: list[Seen] = []
        while len(found) < count:
            found += _seen(consumer.consume(count - len(found), SECONDS_MAX))
        consumer.close()
        return found

    def join(self, member: str, group: str, topic: str) -> None:
        settings = {**self._common, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        self._members.start(member, lambda: _Member({**settings, **self._group}, topic))

    def received(self, member: str) -> list[Seen]:
        return self._members.received(member)

    def assignment(self, member: str) -> list[int]:
        return self._members.assignment(member)

    def commit(self, member: str) -> None:
        self._members.commit(member)

    def leave(self, member: str) -> None:
        self._members.leave(member)

    def close(self) -> None:
        self._members.close()


class _Member:
    def __init__(self, settings: dict[str, Any], topic: str) -> None:
        self._consumer = Consumer(settings)
        self._consumer.subscribe([topic])
        self._got_any = False

    def poll(self) -> list[Seen]:
        found = _seen(self._consumer.consume(500, 0.1))
        self._got_any = self._got_any or bool(found)
        return found

    def assignment(self) -> list[int]:
        return [partition.partition for partition in self._consumer.assignment()]

    def commit(self) -> None:
        if self._got_any:
            self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _decoded(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def _seen(messages: list[Message]) -> list[Seen]:
    found = []
    for message in messages:
        assert message.error() is None, message.error()
        headers = tuple((key, value.decode()) for key, value in message.headers() or ())
        found.append(
            Seen(
                partition=message.partition(),
                offset=message.offset(),
                value=_decoded(message.value()),
                key=_decoded(message.key()),
                headers=headers,
                timestamp_ms=message.timestamp()[1],
            )
        )
    return found
