"""Requests encoded once and sent many times, and the few response bytes that a load generator inspects.

Versions are fixed to the last ones that are not flexible: their responses have every field at a known position. Every
broker from Kafka 2.1 to 4.3 serves them.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from chronik.bench.errors import BenchError
from chronik.peer.connection import Connection
from chronik.wire.batches import CRC_COVERS_FROM, build
from chronik.wire.checksums import crc32c
from chronik.wire.compression import Codec
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from chronik.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from chronik.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from chronik.wire.notation import Request
from chronik.wire.records import Record
from chronik.wire.stop_and_wait import HEADER_BYTES, frame_of

PRODUCE_VERSION: Final = 7
FETCH_VERSION: Final = 11
METADATA_VERSION: Final = 8
CLIENT_ID: Final = "chronik-bench"
PRODUCE_TIMEOUT_MS: Final = 30_000
_INT64: Final = Struct(">q")
_CRC: Final = Struct(">I")


def require_versions(connection: Connection) -> None:
    """Raises BenchError if the broker does not serve the required versions."""
    wanted = ((ProduceRequest, PRODUCE_VERSION), (FetchRequest, FETCH_VERSION), (MetadataRequest, METADATA_VERSION))
    for request, version in wanted:
        served = connection.apis.get(request.api_key)
        if served is None or version not in served:
            name = request.__name__.removesuffix("Request")
            raise BenchError(f"{connection.address} serves {name} {served or 'not at all'}, the bench needs v{version}")


def frame(request: Request, version: int) -> bytes:
    return frame_of(request, version, CLIENT_ID)


def produce_frame(topic: str, partition: int, batch: bytes, acks: int) -> bytes:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    request = ProduceRequest(acks=acks, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[data])
    return frame(request, PRODUCE_VERSION)


def produce_error_at(topic: str) -> int:
    """Position of the error code in the response to a `produce_frame`, counted from the size."""
    counts_and_index = 4 + 2 + len(topic.encode()) + 4 + 4
    return HEADER_BYTES + counts_and_index


def fetch_frame(topic: str, partition: int, offset: int, *, max_wait_ms: int, max_bytes: int) -> bytes:
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[asked])],
    )
    return frame(request, FETCH_VERSION)


def metadata_frame(topic: str) -> bytes:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    return frame(request, METADATA_VERSION)


def batch_of(values: list[bytes], timestamp: int, codec: Codec) -> bytes:
    return build([Record(index, timestamp, None, value) for index, value in enumerate(values)], codec)


class StampedFrame:
    """A produce request whose one record holds the time it was due, so that its reader can compute its age."""

    __slots__ = ("_batch_at", "_data", "_stamp_at")

    STAMP_BYTES = _INT64.size

    def __init__(self, topic: str, partition: int, value: bytes, timestamp: int, acks: int) -> None:
        batch = batch_of([bytes(self.STAMP_BYTES) + value[self.STAMP_BYTES :]], timestamp, Codec.NONE)
        self._data = bytearray(produce_frame(topic, partition, batch, acks))
        self._batch_at = self._data.index(batch)
        # Only the record's header count, one byte, follows the value.
        self._stamp_at = len(self._data) - 1 - max(len(value), self.STAMP_BYTES)

    def stamped(self, due_ns: int) -> bytes:
        _INT64.pack_into(self._data, self._stamp_at, due_ns)
        covered = memoryview(self._data)[self._batch_at + CRC_COVERS_FROM :]
        _CRC.pack_into(self._data, self._batch_at + 17, crc32c(covered))
        return bytes(self._data)


def stamp_of(value: bytes) -> int:
    return int(_INT64.unpack_from(value)[0])
