"""A peer that does not play by the rules, over a transport that behaves as real ones do.

Data that is sent while the node does not read stays in the "kernel". Data that the peer does not read stays in the
transport and pauses the writer. The connection learns of an abort in the next loop iteration, not within the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

from chronik.broker.connection import ServerConnection
from chronik.broker.node import Node
from chronik.sim.disk import SimDisk
from chronik.wire.batches import build
from chronik.wire.compiler import decode, encode
from chronik.wire.compression import Codec
from chronik.wire.headers import (
    RequestHeader,
    ResponseHeader,
    request_header_version,
    response_header_version,
)
from chronik.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from chronik.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from chronik.wire.notation import Request, Response
from chronik.wire.records import Record
from tests.broker.harness import NOW_MS, Client, MemoryNetwork, TestClock, start_node
from tests.coordinator.virtual import FakeClock, run_virtually

T = TypeVar("T")
R = TypeVar("R", bound=Response)
TOPIC = "orders"


class WorldClock(TestClock):
    """Wall time and monotonic time follow the loop's virtual time."""

    def __init__(self, loop_clock: FakeClock) -> None:
        super().__init__()
        self._loop_clock = loop_clock
        self.jumped_ms = 0  # the wall clock alone

    def wall_ms(self) -> int:
        return NOW_MS + self.jumped_ms + self._loop_clock.now_ns // 1_000_000

    def monotonic_ns(self) -> int:
        return NOW_MS * 1_000_000 + self._loop_clock.now_ns


class World:
    """A node on a simulated disk in virtual time."""

    def __init__(self, node: Node, disk: SimDisk) -> None:
        self.node, self.disk = node, disk
        self.client = Client(node)  # an honest one

    @classmethod
    async def make(cls, disk: SimDisk | None = None, **settings: object) -> World:
        disk = disk or SimDisk(0)
        loop = cast(Any, asyncio.get_running_loop())
        return cls(await start_node(disk, clock=WorldClock(loop.clock), **settings), disk)

    async def create(self, topic: str = TOPIC, partitions: int = 1, **configs: str) -> None:
        own = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
        asked = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, assignments=[], configs=own)
        answer = await self.client.ask(CreateTopicsRequest(topics=[asked]), CreateTopicsResponse, 7)
        assert not answer.topics[0].error_code, answer.topics[0].error_message

    async def produce(
        self, value: bytes = b"v", *, topic: str = TOPIC, partition: int = 0, acks: int = -1
    ) -> PartitionProduceResponse:
        request = produce_request(batch(value), topic=topic, partition=partition, acks=acks)
        answer = await self.client.ask(request, ProduceResponse, 9)
        return answer.responses[0].partition_responses[0]

    async def fetch(self, offset: int = 0, *, topic: str = TOPIC, partition: int = 0) -> PartitionData:
        answer = await self.client.ask(fetch_request(offset, topic=topic, partition=partition), FetchResponse, 11)
        return answer.responses[0].partitions[0]

    async def is_serving(self) -> None:
        """Fails unless a produce and a fetch still work."""
        made = await self.produce(b"still here")
        assert made.error_code == 0
        found = await self.fetch(made.base_offset)
        assert found.error_code == 0
        assert b"still here" in bytes(found.records)


def batch(*values: bytes, key: bytes | None = None, codec: Codec = Codec.NONE) -> bytes:
    return build([Record(n, NOW_MS, key, value, ()) for n, value in enumerate(values)], codec)


def produce_request(records: bytes, *, topic: str = TOPIC, partition: int = 0, acks: int = -1) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])


def fetch_request(
    offset: int = 0,
    *,
    topic: str = TOPIC,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 25,
) -> FetchRequest:
    """`min_bytes` of 2 is for all of it at once, not for a portion."""
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
        forgotten_topics_data=[],
    )


def frame(request: Request, version: int, correlation_id: int = 1) -> bytes:
    header = RequestHeader(
        request_api_key=request.api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id="hostile",
    )
    body = encode(header, request_header_version(type(request), version)) + encode(request, version)
    return len(body).to_bytes(4, "big") + body


def run(work: Coroutine[Any, Any, T]) -> T:
    """In virtual time; what would only reach the loop's exception handler fails the test."""
    return run_virtually(work, FakeClock())


async def turns(count: int = 20) -> None:
    """Lets the loop run so often, without letting time pass."""
    for _ in range(count):
        await asyncio.sleep(0)


class Peer(asyncio.Transport):
    """One end of a connection; the node has the other. `reads` off: replies pile up in the node's transport.

    `subject` is that of the certificate which the peer presented.
    """

    def __init__(self, node: Node, host: str = "10.0.0.1", *, subject: str | None = None) -> None:
        super().__init__({"peername": (host, 50_000), "tls_subject": subject})
        factory = cast(MemoryNetwork, node.runtime.network).factories[0]
        self.connection = cast(ServerConnection, factory())
        self.reads = True
        self.received = bytearray()
        self.is_closed = False  # by the node, or by us
        self.lost = asyncio.get_running_loop().create_future()
        self.unread_bytes = 0  # in the node's transport
        self.unread_bytes_most = 0
        self._in_kernel = b""
        self._node_reads = True
        self._high = 64 * 1024
        self._is_paused = False
        self.connection.connection_made(self)

    # The peer's side.

    def send(self, data: bytes) -> None:
        self._in_kernel += data
        self._deliver()

    def frames(self) -> list[bytes]:
        """The replies that came, without their sizes."""
        found, at = [], 0
        while at + 4 <= len(self.received):
            size = int.from_bytes(self.received[at : at + 4], "big")
            if at + 4 + size > len(self.received):
                break
            found.append(bytes(self.received[at + 4 : at + 4 + size]))
            at += 4 + size
        return found

    def correlation_ids(self) -> list[int]:
        return [int.from_bytes(reply[:4], "big") for reply in self.frames()]

    def answer(self, index: int, response: type[R], version: int) -> R:
        data = memoryview(self.frames()[index])
        header_bytes = len(encode(ResponseHeader(correlation_id=0), response_header_version(response, version)))
        return decode(response, version, data[header_bytes:])

    def read_everything(self) -> None:
        self.reads = True
        self.unread_bytes = 0
        if self._is_paused:
            self._is_paused = False
            self.connection.resume_writing()

    def hang_up(self) -> None:
        self.abort()

    @property
    def unsent_bytes(self) -> int:
        """Data that the node has not read yet."""
        return len(self._in_kernel)

    @property
    def node_reads(self) -> bool:
        return self._node_reads

    # The node's side.

    def is_closing(self) -> bool:
        return self.is_closed

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_closed:
            return
        self.received += data
        if not self.reads:
            self.unread_bytes += len(data)
            self.unread_bytes_most = max(self.unread_bytes_most, self.unread_bytes)
            if self.unread_bytes > self._high and not self._is_paused:
                self._is_paused = True
                self.connection.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high if high is not None else self._high

    def pause_reading(self) -> None:
        assert self._node_reads, "paused twice"
        self._node_reads = False

    def resume_reading(self) -> None:
        assert not self._node_reads, "resumed without a pause"
        self._node_reads = True
        asyncio.get_running_loop().call_soon(self._deliver)

    def abort(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self._lose)

    close = abort

    def _lose(self) -> None:
        self.connection.connection_lost(None)
        self.lost.set_result(None)

    def _deliver(self) -> None:
        while self._in_kernel and self._node_reads and not self.is_closed:
            room = self.connection.get_buffer(-1)
            count = min(len(room), len(self._in_kernel))
            room[:count] = self._in_kernel[:count]
            self._in_kernel = self._in_kernel[count:]
            self.connection.buffer_updated(count)
