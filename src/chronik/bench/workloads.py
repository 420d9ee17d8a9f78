"""The workers of each mode: they send records, fetches, records that are awaited one by one, or metadata requests.

A worker has one line and one request in flight. It is bound to a partition, and its line connects to the leader.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, Final, cast

from chronik.bench import frames
from chronik.bench.lines import LargeLine, SmallLine
from chronik.client.errors import ClientError
from chronik.client.topology import TopicPartition
from chronik.wire.batches import split
from chronik.wire.compiler import decoder_of
from chronik.wire.compression import Codec
from chronik.wire.error_codes import ErrorCode
from chronik.wire.framing import SIZE_BYTES
from chronik.wire.messages.fetch import FetchResponse
from chronik.wire.messages.metadata import MetadataResponse
from chronik.wire.records import iterate
from chronik.wire.stop_and_wait import HEADER_BYTES

if TYPE_CHECKING:
    from chronik.bench.load import Load
    from chronik.client.addresses import Address
    from chronik.client.routing import ClusterClient

ALPHABET: Final = b"abcdefghijklmnopqrstuvwxyz0123456789"
FETCH_BYTES: Final = 1 << 20
FETCH_WAIT_MS: Final = 500
DECODE_BYTES_MAX: Final = 4 << 30
NO_ACKS: Final = 0


def values(count: int, size_bytes: int, seed: int) -> list[bytes]:
    """Text of average compressibility, the same in every run."""
    chance = random.Random(seed)  # noqa: S311 - load, not secrets
    return [bytes(chance.choices(ALPHABET, k=size_bytes)) for _ in range(count)]


async def leader_address(cluster: ClusterClient, at: TopicPartition, *, is_fresh: bool) -> Address:
    if is_fresh or at.topic not in cluster.topology.topics:
        await cluster.refresh([at.topic])
    return cluster.topology.brokers[cluster.topology.leader(at)].address


class _OnLine:
    """A worker with a line to the leader of its partition."""

    def __init__(self, load: Load, cluster: ClusterClient, at: TopicPartition) -> None:
        self.load, self.cluster, self.at = load, cluster, at
        self.due_ns = 0
        self.line: Any = None
        self._was_open = False

    async def open(self) -> None:
        self.close()
        address = await leader_address(self.cluster, self.at, is_fresh=self._was_open)
        await self.connect(address)
        self._was_open = True

    async def connect(self, address: Address) -> None:
        line = self.make_line()
        await self.cluster.network.connect(address.host, address.port, lambda: cast(asyncio.Protocol, line))
        self.line = line

    def make_line(self) -> Any:
        return SmallLine(self.answered, self.lost)

    def answered(self, answer: Any) -> None:
        raise NotImplementedError

    def begin(self, due_ns: int) -> None:
        raise NotImplementedError

    def lost(self) -> None:
        self.line = None
        self.load.failed(self, "connection lost")

    def close(self) -> None:
        if self.line is not None:
            self.line.close()
            self.line = None


class ProduceWorker(_OnLine):
    """Sends the same request repeatedly."""

    def __init__(
        self, load: Load, cluster: ClusterClient, at: TopicPartition, payload: list[bytes], *, acks: int, codec: Codec
    ) -> None:
        super().__init__(load, cluster, at)
        self._payload, self._acks, self._codec = payload, acks, codec
        self._payload_bytes = sum(map(len, payload))
        self._message_count = len(payload)
        self._error_at = frames.produce_error_at(at.topic)
        self.refresh()

    def refresh(self) -> None:
        """Updates the records' timestamps; called only sometimes, because it costs a checksum."""
        batch = frames.batch_of(self._payload, self.cluster.clock.wall_ms(), self._codec)
        self._frame = frames.produce_frame(self.at.topic, self.at.partition, batch, self._acks)

    def begin(self, due_ns: int) -> None:
        self.due_ns = due_ns
        self.line.send(self._frame)
        if self._acks == NO_ACKS:
            self.line.when_writable(self._written)

    def _written(self) -> None:
        if self.line is not None and self.due_ns:  # not disconnected meanwhile
            self.load.done(self, self._message_count, self._payload_bytes)

    def answered(self, answer: bytes) -> None:
        at = self._error_at
        if answer[at : at + 2] == b"\x00\x00":
            self.load.done(self, self._message_count, self._payload_bytes)
        else:
            self.load.failed(self, ErrorCode.of(int.from_bytes(answer[at : at + 2], "big", signed=True)).name)


class FetchWorker(_OnLine):
    """Reads a partition from its start to its end, repeatedly."""

    def __init__(self, load: Load, cluster: ClusterClient, at: TopicPartition, start_offset: int) -> None:
        super().__init__(load, cluster, at)
        self._start_offset = self._offset = start_offset
        self._decode = decoder_of(FetchResponse, frames.FETCH_VERSION)

    def make_line(self) -> Any:
        return LargeLine(self.answered, self.lost, self.cluster.scratch)

    def begin(self, due_ns: int) -> None:
        self.due_ns = due_ns
        self.line.send(
            frames.fetch_frame(
                self.at.topic, self.at.partition, self._offset, max_wait_ms=FETCH_WAIT_MS, max_bytes=FETCH_BYTES
            )
        )

    def answered(self, answer: memoryview) -> None:
        response, _ = self._decode(answer, HEADER_BYTES - SIZE_BYTES, DECODE_BYTES_MAX)
        told = response.responses[0].partitions[0]
        if told.error_code or response.error_code:
            self.load.failed(self, ErrorCode.of(told.error_code or response.error_code).name)
            return
        data = cast(memoryview, told.records or memoryview(b""))
        batches = split(data, cut_tail=True)
        self._offset = batches[-1].next_offset if batches else self._start_offset
        if self._offset >= told.high_watermark:
            self._offset = self._start_offset
        self.load.done(self, sum(batch.record_count for batch in batches), len(data))


class MetadataWorker(_OnLine):
    """Requests one topic's metadata from one broker. Skips decoding if the response is as long as the last good one."""

    def __init__(self, load: Load, cluster: ClusterClient, at: TopicPartition, address: Address) -> None:
        super().__init__(load, cluster, at)
        self._address = address
        self._frame = frames.metadata_frame(at.topic)
        self._good_bytes = 0

    async def open(self) -> None:
        self.close()
        await self.connect(self._address)

    def begin(self, due_ns: int) -> None:
        self.due_ns = due_ns
        self.line.send(self._frame)

    def answered(self, answer: bytes) -> None:
        if len(answer) != self._good_bytes:
            view = memoryview(answer)
            response, _ = decoder_of(MetadataResponse, frames.METADATA_VERSION)(view, HEADER_BYTES, DECODE_BYTES_MAX)
            code = next((topic.error_code for topic in response.topics), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if code:
                self.load.failed(self, ErrorCode.of(code).name)
                return
            self._good_bytes = len(answer)
        self.load.done(self, 1, len(answer))


class RoundTripWorker(_OnLine):
    """Sends records that hold their due time. `Reader` measures when they arrive."""

    def __init__(self, load: Load, cluster: ClusterClient, at: TopicPartition, value: bytes, *, acks: int) -> None:
        super().__init__(load, cluster, at)
        self._frame = frames.StampedFrame(at.topic, at.partition, value, cluster.clock.wall_ms(), acks)
        self._error_at = frames.produce_error_at(at.topic)

    def begin(self, due_ns: int) -> None:
        self.due_ns = due_ns
        self.line.send(self._frame.stamped(due_ns))

    def answered(self, answer: bytes) -> None:
        at = self._error_at
        if answer[at : at + 2] == b"\x00\x00":
            self.load.free(self)
        else:
            self.load.failed(self, ErrorCode.of(int.from_bytes(answer[at : at + 2], "big", signed=True)).name)


class Reader(_OnLine):
    """Waits at the end of a partition for the records of RoundTripWorkers. Not a worker of the load."""

    def __init__(self, load: Load, cluster: ClusterClient, at: TopicPartition, offset: int) -> None:
        super().__init__(load, cluster, at)
        self._offset = offset
        self._decode = decoder_of(FetchResponse, frames.FETCH_VERSION)
        self._reopening: asyncio.Task[None] | None = None

    def make_line(self) -> Any:
        return LargeLine(self.answered, self.lost, self.cluster.scratch)

    def begin(self, due_ns: int = 0) -> None:
        self.line.send(
            frames.fetch_frame(
                self.at.topic, self.at.partition, self._offset, max_wait_ms=FETCH_WAIT_MS, max_bytes=FETCH_BYTES
            )
        )

    def answered(self, answer: memoryview) -> None:
        response, _ = self._decode(answer, HEADER_BYTES - SIZE_BYTES, DECODE_BYTES_MAX)
        told = response.responses[0].partitions[0]
        if told.error_code:
            self.lost()
            return
        for batch in split(cast(memoryview, told.records or memoryview(b"")), cut_tail=True):
            for record in iterate(batch, DECODE_BYTES_MAX):
                if record.offset >= self._offset and record.value is not None:
                    self.load.measured(frames.stamp_of(record.value), len(record.value))
            self._offset = batch.next_offset
        self.begin()

    def lost(self) -> None:
        self.line = None
        if not self.load.is_over:
            self.load.errors["reader lost its connection"] += 1
            self._reopening = asyncio.get_running_loop().create_task(self._reopen())

    async def _reopen(self) -> None:
        while not self.load.is_over:
            await asyncio.sleep(0.1)
            try:
                await self.open()
            except (OSError, ClientError):
                continue
            self.begin()
            return
