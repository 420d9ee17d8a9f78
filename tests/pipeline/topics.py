"""Topics for the tests of the pipeline, made, filled and dumped by librdkafka: nothing of ours on either side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

Row = tuple[Any, ...]
TIMEOUT_S = 120
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def create(bootstrap: str, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = admin.create_topics([NewTopic(topic, partitions, 1, config={"retention.ms": "-1", **(config or {})})])
    made[topic].result(TIMEOUT_S)
    return topic


def delete(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)


def delete_before(bootstrap: str, topic: str, partition: int, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    [done] = admin.delete_records([TopicPartition(topic, partition, offset)]).values()
    done.result(TIMEOUT_S)


def fill(
    bootstrap: str,
    topic: str,
    count: int,
    *,
    partition: int = 0,
    first: int = 0,
    value_bytes: int = 0,
    headers: Sequence[tuple[str, bytes | None]] = (),
    **settings: Any,
) -> None:
    """`count` records; every seventh has no key, every eleventh no value."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, **settings})
    for i in range(first, first + count):
        producer.produce(
            topic,
            partition=partition,
            key=None if i % 7 == 0 else b"k%d" % (i % 100),
            value=None if i % 11 == 0 else (b"v%d" % i).ljust(value_bytes, b"."),
            headers=list(headers) if i % 3 == 0 else [],
            timestamp=1_700_000_000_000 + i,
        )
        if i % 1000 == 0:
            producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


def dump(bootstrap: str, topic: str, partition: int = 0, *, start: int = 0, count: int) -> list[Row]:
    """`count` records as rows with all columns of the source, as librdkafka reads them."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "dump", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, start)])
    rows: list[Row] = []
    while len(rows) < count:
        messages = consumer.consume(count - len(rows), TIMEOUT_S)
        assert messages, f"{len(rows)} of {count} records came"
        for message in messages:
            kind, time_ms = message.timestamp()
            headers = [{"key": key, "value": value} for key, value in message.headers() or ()]
            rows.append(
                (
                    message.key(),
                    message.value(),
                    message.topic(),
                    message.partition(),
                    message.offset(),
                    EPOCH + timedelta(milliseconds=time_ms),
                    kind - 1,  # librdkafka counts from 1
                    headers or None,
                )
            )
    consumer.close()
    return rows
