"""A socket that acts as a Kafka broker for librdkafka, just enough to record what it produces and to send it record
sets.

One topic; its partitions hold the record sets given. It knows nothing of the code under test.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Self

TOPIC = "a-topic-with-a-name-long-enough-for-the-client-to-size-its-buffers-by"
NAME = struct.pack(">h", len(TOPIC)) + TOPIC.encode()
# Key, first and last version. Without FindCoordinator librdkafka writes no lz4, without Fetch 10 no zstd, and without
# Produce 0 it does not compress at all.
APIS = [(0, 0, 7), (1, 0, 10), (2, 0, 1), (3, 0, 1), (10, 0, 0), (18, 0, 0), (22, 0, 0)]
APIS_OF_0_10 = [(0, 0, 2), (1, 0, 2), (2, 0, 0), (3, 0, 1), (10, 0, 0), (18, 0, 0)]
PRODUCE, FETCH, METADATA, FIND_COORDINATOR, API_VERSIONS, INIT_PRODUCER_ID = 0, 1, 3, 10, 18, 22
COORDINATOR_NOT_AVAILABLE, UNSUPPORTED_VERSION = 15, 35


class PretendBroker:
    """Listens from its making until the `with` block ends."""

    def __init__(self, apis: Sequence[tuple[int, int, int]] = APIS, stored: Sequence[bytes] = (b"",)) -> None:
        self.apis = apis
        self.stored = stored
        self.caught: list[bytes] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.closed = threading.Event()
        self.connections: list[socket.socket] = []
        self.threads: list[threading.Thread] = []
        self._start(self._accept)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.closed.set()
        # A shutdown wakes the thread that waits on a socket, and each thread closes its own. The accepting thread comes
        # first, so that no new connection is accepted meanwhile.
        self._wake(self.listener)
        self.threads[0].join()
        for connection in self.connections:
            self._wake(connection)
        for thread in self.threads:
            thread.join()

    @staticmethod
    def _wake(endpoint: socket.socket) -> None:
        with contextlib.suppress(OSError):
            endpoint.shutdown(socket.SHUT_RDWR)

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self.threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError), self.listener:
            while True:
                connection, _ = self.listener.accept()
                self.connections.append(connection)
                self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            while len(prefix := stream.read(4)) == 4:
                frame = stream.read(int.from_bytes(prefix, "big"))
                key, version, correlation_id, client_id_bytes = struct.unpack_from(">hhih", frame)
                body = frame[10 + max(client_id_bytes, 0) :]
                answer = struct.pack(">i", correlation_id) + self._answer(key, version, body)
                connection.sendall(struct.pack(">i", len(answer)) + answer)

    def _answer(self, key: int, version: int, body: bytes) -> bytes:
        if key == API_VERSIONS:
            ranges = b"".join(struct.pack(">hhh", *each) for each in self.apis)
            return struct.pack(">hi", UNSUPPORTED_VERSION if version else 0, len(self.apis)) + ranges
        if key == METADATA:
            return self._metadata(version)
        if key == INIT_PRODUCER_ID:
            return struct.pack(">ihqh", 0, 0, 4000, 3)
        if key == FIND_COORDINATOR:  # a consumer asks even if it uses no group, and must not be left without an answer
            return struct.pack(">hih", COORDINATOR_NOT_AVAILABLE, -1, 0) + struct.pack(">i", -1)
        if key == PRODUCE:
            return self._produced(version, body)
        if key == FETCH:
            return self._fetched(version, body)
        raise ValueError(f"librdkafka was not expected to send API key {key}")

    def _metadata(self, version: int) -> bytes:
        host = b"\x00\x09127.0.0.1" + struct.pack(">i", self.port)
        rack, controller, is_internal = (b"\xff\xff", struct.pack(">i", 1), b"\x00") if version else (b"", b"", b"")
        partitions = b"".join(struct.pack(">hiiiiii", 0, index, 1, 1, 1, 1, 1) for index in range(len(self.stored)))
        topic = struct.pack(">h", 0) + NAME + is_internal + struct.pack(">i", len(self.stored)) + partitions
        return struct.pack(">ii", 1, 1) + host + rack + controller + struct.pack(">i", 1) + topic

    def _produced(self, version: int, body: bytes) -> bytes:
        at = 2 + max(struct.unpack_from(">h", body)[0], 0) if version >= 3 else 0
        at += 6 + 4 + len(NAME) + 4 + 4  # acks, timeout, one topic, its name, one partition, its index
        (size,) = struct.unpack_from(">i", body, at)
        self.caught.append(body[at + 4 : at + 4 + size])
        partition = struct.pack(">ihq", 0, 0, 0)
        partition += struct.pack(">q", -1) if version >= 2 else b""
        partition += struct.pack(">q", 0) if version >= 5 else b""
        throttle = struct.pack(">i", 0) if version >= 1 else b""
        return struct.pack(">i", 1) + NAME + struct.pack(">i", 1) + partition + throttle

    def _fetched(self, version: int, body: bytes) -> bytes:
        """Each set is returned once, to a fetch from offset 0 on; after that there are no more records."""
        at = 4 + 4 + 4 + (4 if version >= 3 else 0) + (1 if version >= 4 else 0) + (8 if version >= 7 else 0)
        (topic_count,) = struct.unpack_from(">i", body, at)
        at += 4
        answers = []
        for _ in range(topic_count):
            at += len(NAME)
            (partition_count,) = struct.unpack_from(">i", body, at)
            at += 4
            for _ in range(partition_count):
                (index,) = struct.unpack_from(">i", body, at)
                at += 8 if version >= 9 else 4
                (offset,) = struct.unpack_from(">q", body, at)
                at += 8 + (8 if version >= 5 else 0) + 4
                answers.append((index, b"" if offset else self.stored[index]))
        if not any(records for _, records in answers):
            self.closed.wait(0.1)  # as a broker does that has nothing to say
        partitions = b"".join(
            struct.pack(">ihq", index, 0, 1 << 40)
            + (struct.pack(">q", 1 << 40) if version >= 4 else b"")
            + (struct.pack(">q", 0) if version >= 5 else b"")
            + (struct.pack(">i", 0) if version >= 4 else b"")
            + struct.pack(">i", len(records))
            + records
            for index, records in answers
        )
        head = struct.pack(">i", 0) if version >= 1 else b""
        head += struct.pack(">hi", 0, 0) if version >= 7 else b""
        topics = NAME + struct.pack(">i", len(answers)) + partitions if topic_count else b""
        return head + struct.pack(">i", 1 if topic_count else 0) + topics
