"""kafka-python, as its newest self or pretending to talk to an old broker."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.protocol.schemas.fields.struct import StructField

from tests.clients.driver import CODECS, Seen, Sent
from tests.clients.drivers.polling import Members

SECONDS_MAX = 30

# kafka-python (3.0.12) makes the decoder of a response when a process first gets one. Two consumers that do so at the
# same time may leave one behind that raises TypeError for ever; what reads a connection dies of the first response that
# it is for, and every request of either consumer then waits for its time-out though it was answered.
_decoder_of = StructField.compiled_decode_from
_making_decoders = threading.Lock()


def _decoder_made_alone(self: Any, *args: Any, **kwargs: Any) -> Any:
    with _making_decoders:
        return _decoder_of(self, *args, **kwargs)


StructField.compiled_decode_from = _decoder_made_alone


class KafkaPythonDriver:
    def __init__(self, bootstrap: str, api_version: tuple[int, ...] | None = None, **settings: Any) -> None:
        """`settings` are the client's own: those of a login, for example."""
        self._common: dict[str, Any] = {"bootstrap_servers": bootstrap, **settings}
        is_new = api_version is None
        if not is_new:
            self._common["api_version"] = api_version
        self.codecs: Sequence[str] = CODECS if is_new else tuple(codec for codec in CODECS if codec != "zstd")
        self.has_headers = self.is_idempotent = is_new
        self.has_timestamps = True
        self._members = Members()

    def produce(
        self, topic: str, records: Sequence[Sent], *, codec: str = "none", idempotent: bool = False
    ) -> list[tuple[int, int]]:
        settings = {"acks": "all", "compression_type": None if codec == "none" else codec, "linger_ms": 20}
        if self.is_idempotent:
            settings["enable_idempotence"] = idempotent
        producer = KafkaProducer(**self._common, **settings)
        futures = [
            producer.send(
                topic,
                value=_encoded(record.value),
                key=_encoded(record.key),
                headers=[(key, value.encode()) for key, value in record.headers] or None,
                partition=record.partition,
                timestamp_ms=record.timestamp_ms,
            )
            for record in records
        ]
        results = [future.get(timeout=SECONDS_MAX) for future in futures]
        producer.close()
        return [(result.partition, result.offset) for result in results]

    def consume(self, topic: str, count: int) -> list[Seen]:
        consumer = KafkaConsumer(**self._common, enable_auto_commit=False, auto_offset_reset="earliest")
        partitions = [TopicPartition(topic, index) for index in sorted(consumer.partitions_for_topic(topic))]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        found: list[Seen] = []
        while len(found) < count:
            found += _seen(consumer.poll(timeout_ms=SECONDS_MAX * 1000))
        consumer.close()
        return found

    def join(self, member: str, group: str, topic: str) -> None:
        settings = {**self._common, "group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
        settings |= {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 500, "metadata_max_age_ms": 1000}
        self._members.start(member, lambda: _Member(settings, topic))

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
        """It must know the topic before it joins: as leader it would otherwise assign nothing, and leave it at that."""
        self._consumer = KafkaConsumer(**settings)
        try:
            while not self._consumer.partitions_for_topic(topic):
                pass
            self._consumer.subscribe([topic])
        except BaseException:
            self._consumer.close()  # what it leaves behind would be found in the middle of another test
            raise

    def poll(self) -> list[Seen]:
        return _seen(self._consumer.poll(timeout_ms=100))

    def assignment(self) -> list[int]:
        return [partition.partition for partition in self._consumer.assignment()]

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close()


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _decoded(data: bytes | None) -> str | None:
    return None if data is None else bytes(data).decode()


def _seen(polled: dict[TopicPartition, list[Any]]) -> list[Seen]:
    return [
        Seen(
            partition=record.partition,
            offset=record.offset,
            value=_decoded(record.value),
            key=_decoded(record.key),
            headers=tuple((key, value.decode()) for key, value in record.headers or ()),
            timestamp_ms=record.timestamp,
        )
        for records in polled.values()
        for record in records
    ]
