"""Writes librdkafka.hex: what librdkafka puts into its ProduceRequests, caught by a socket that acts as a broker.

    python -m tests.wire.data.writers.write_librdkafka > tests/wire/data/librdkafka.hex

It chooses magic 1 for a broker whose Produce ends at version 2, and magic 0 for one that does not know ApiVersions; for
the latter it refuses lz4.
"""

import confluent_kafka

from tests.wire.pretend_broker import APIS, APIS_OF_0_10, TOPIC, PretendBroker

T = 1_700_000_000_000
MIXED = [
    (T, b"k1", b"v1", [("h1", b"x"), ("h2", None)]),
    (T + 5, None, b"no key", []),
    (T + 2, b"tombstone", None, []),
    (T + 70, b"", b"", []),
    (T + 70_000, b"k1", b"ab" * 150, [("ä", b"")]),
]
LONG = [(T, None, b"0123456789abcdef" * 4400, [])]


def write(name: str, magic: int, records: list, **settings: object) -> None:
    if magic == 0:
        settings |= {"api.version.request": "false", "broker.version.fallback": "0.9.0"}
    with PretendBroker(APIS if magic == 2 else APIS_OF_0_10) as broker:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": broker.address, "linger.ms": 500, "log_level": 2, **settings}
        )
        for timestamp, key, value, headers in records:
            has_headers = {"headers": headers} if magic == 2 else {}
            producer.produce(TOPIC, value, key, 0, timestamp=timestamp, **has_headers)
        assert producer.flush(20) == 0, name
        (caught,) = broker.caught
    assert caught[16] == magic, name
    print(name, caught.hex())


if __name__ == "__main__":
    version = confluent_kafka.libversion()[0]
    print(
        f"# written by librdkafka {version}, through confluent-kafka {confluent_kafka.version()}: write_librdkafka.py"
    )
    for magic in (0, 1, 2):
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            if (magic < 2 and codec == "zstd") or (magic == 0 and codec == "lz4"):
                continue
            write(f"magic{magic}.{codec}.from0", magic, MIXED, **{"compression.type": codec})
            if codec != "none":
                write(f"magic{magic}.{codec}.long", magic, LONG, **{"compression.type": codec})
    write("magic2.idempotent", 2, MIXED, **{"enable.idempotence": "true"})
