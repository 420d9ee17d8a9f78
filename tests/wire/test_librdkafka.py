"""librdkafka reads what we write: every magic and codec, checksums verified."""

from __future__ import annotations

import confluent_kafka
import pytest

from chronik.wire import batches, legacy_batches
from chronik.wire.compression import Codec
from chronik.wire.records import Record
from tests.wire.pretend_broker import TOPIC, PretendBroker
from tests.wire.record_fixtures import LONG, MIXED, T

NOISE = [Record(i, T + i, b"%d" % i, bytes(b * 7 * i % 251 for b in range(1000))) for i in range(80)]


def sets() -> dict[str, tuple[bytes, list[Record]]]:
    made = {}
    for name, records in (("mixed", MIXED), ("long", LONG), ("noise", NOISE)):
        for codec in Codec:
            made[f"2 {codec.name} {name}"] = (batches.build(records, codec), records)
            if codec is not Codec.ZSTD:
                for magic in (0, 1):
                    # It has no way to say that a record has no time, other than by not saying a time.
                    plain = [r._replace(headers=(), timestamp=r.timestamp if magic else -1) for r in records]
                    made[f"{magic} {codec.name} {name}"] = (legacy_batches.build(plain, magic, codec), plain)
    return made


def as_record(message: confluent_kafka.Message) -> Record:
    kind, timestamp = message.timestamp()
    headers = tuple(message.headers() or ())
    known = kind != confluent_kafka.TIMESTAMP_NOT_AVAILABLE
    return Record(message.offset(), timestamp if known else -1, message.key(), message.value(), headers)


@pytest.mark.timeout(60)
def test_librdkafka_reads_every_set_that_we_write():
    """It shares neither code nor compressors with us, and half of all clients are built on it."""
    made = sets()
    with PretendBroker(stored=[data for data, _ in made.values()]) as broker:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": broker.address,
                "group.id": "none",
                "enable.auto.commit": False,
                "check.crcs": True,
                "log_level": 2,
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, index, 0) for index in range(len(made))])
        found: dict[int, list[Record]] = {index: [] for index in range(len(made))}
        missing = sum(len(records) for _, records in made.values())
        while missing:
            for message in consumer.consume(missing, timeout=1):
                assert message.error() is None, message.error()
                found[message.partition()].append(as_record(message))
                missing -= 1
        consumer.close()
    for index, (name, (_, records)) in enumerate(made.items()):
        assert (name, found[index]) == (name, records)
