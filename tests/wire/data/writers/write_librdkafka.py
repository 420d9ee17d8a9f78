"""Writes librdkafka.hex: what librdkafka puts into its ProduceRequests, caught by a socket that acts as a broker.

    python tests/wire/data/writers/write_librdkafka.py > tests/wire/data/librdkafka.hex

It chooses magic 1 for a broker whose Produce ends at version 2, and magic 0 for one that does not know ApiVersions; for
the latter it refuses lz4.
"""

import socket
import struct
import threading

import confluent_kafka

T = 1_700_000_000_000
MIXED = [
    (T, b"k1", b"v1", [("h1", b"x"), ("h2", None)]),
    (T + 5, None, b"no key", []),
    (T + 2, b"tombstone", None, []),
    (T + 70, b"", b"", []),
    (T + 70_000, b"k1", b"ab" * 150, [("ä", b"")]),
]
TOPIC = b"a-topic-with-a-name-long-enough-for-the-client-to-size-its-buffers-by"
NAME = struct.pack(">h", len(TOPIC)) + TOPIC
LONG = [(T, None, b"0123456789abcdef" * 4400, [])]
# Without FindCoordinator it writes no lz4, without Fetch 10 no zstd, without Produce 0 it does not compress at all.
APIS = [(0, 0, 7), (1, 0, 10), (2, 0, 1), (3, 0, 1), (10, 0, 0), (18, 0, 0), (22, 0, 0)]
APIS_OF_0_10 = [(0, 0, 2), (1, 0, 2), (2, 0, 0), (3, 0, 1), (10, 0, 0), (18, 0, 0)]


class Catcher:
    """One listening socket; answers just enough for a producer to send, and keeps the record sets."""

    def __init__(self, apis: list[tuple[int, int, int]]) -> None:
        self.apis = apis
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.caught: list[bytes] = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        while len(prefix := stream.read(4)) == 4:
            frame = stream.read(int.from_bytes(prefix, "big"))
            key, version, correlation_id, client_id_bytes = struct.unpack_from(">hhih", frame)
            body = frame[10 + max(client_id_bytes, 0) :]
            answer = struct.pack(">i", correlation_id) + self.answer(key, version, body)
            connection.sendall(struct.pack(">i", len(answer)) + answer)

    def answer(self, key: int, version: int, body: bytes) -> bytes:
        if key == 18:
            ranges = b"".join(struct.pack(">hhh", *each) for each in self.apis)
            return struct.pack(">hi", 35 if version else 0, len(self.apis)) + ranges
        if key == 3:
            host = b"\x00\x09127.0.0.1"
            racks, controller = (b"\xff\xff", struct.pack(">i", 1)) if version else (b"", b"")
            brokers = struct.pack(">ii", 1, 1) + host + struct.pack(">i", self.port) + racks
            is_internal = b"\x00" if version else b""
            partition = struct.pack(">ihiiiii", 1, 0, 0, 1, 1, 1, 1) + struct.pack(">i", 1)
            topic = struct.pack(">ih", 1, 0) + NAME + is_internal + partition
            return brokers + controller + topic
        if key == 22:
            return struct.pack(">ihqh", 0, 0, 4000, 3)
        return self.produced(version, body)

    def produced(self, version: int, body: bytes) -> bytes:
        at = 0
        if version >= 3:
            at += 2 + max(struct.unpack_from(">h", body)[0], 0)
        at += 6 + 4 + len(NAME) + 4 + 4  # acks, timeout, one topic, its name, one partition, its index
        (size,) = struct.unpack_from(">i", body, at)
        self.caught.append(body[at + 4 : at + 4 + size])
        partition = struct.pack(">ihq", 0, 0, 0)
        partition += struct.pack(">q", -1) if version >= 2 else b""
        partition += struct.pack(">q", 0) if version >= 5 else b""
        throttle = struct.pack(">i", 0) if version >= 1 else b""
        return struct.pack(">i", 1) + NAME + struct.pack(">i", 1) + partition + throttle


def write(name: str, magic: int, records: list, **settings: object) -> None:
    catcher = Catcher(APIS if magic == 2 else APIS_OF_0_10)
    if magic == 0:
        settings |= {"api.version.request": "false", "broker.version.fallback": "0.9.0"}
    address = f"127.0.0.1:{catcher.port}"
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "linger.ms": 500, "log_level": 2, **settings})
    for timestamp, key, value, headers in records:
        has_headers = {"headers": headers} if magic == 2 else {}
        producer.produce(TOPIC.decode(), value, key, 0, timestamp=timestamp, **has_headers)
    assert producer.flush(20) == 0, name
    assert len(catcher.caught) == 1, name
    assert catcher.caught[0][16] == magic, name
    print(name, catcher.caught[0].hex())


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
