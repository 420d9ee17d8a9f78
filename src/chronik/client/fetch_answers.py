"""One Fetch request to one node, and decoding its response into records.

A `Chunk` is the response for one partition: whole batches, checked when records are taken, batch by batch. It skips
records before the requested offset (a batch is sent whole), control records, and, for a reader of committed records,
records of aborted transactions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from chronik.client.errors import BadAnswer, ClientError, OffsetOutOfRange, Refused, refuse
from chronik.client.leaders import by_topic
from chronik.client.topology import TopicPartition
from chronik.wire import records as record_codec
from chronik.wire.batches import BatchView, crc_holds, split
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import Malformed
from chronik.wire.isolation import READ_COMMITTED, READ_UNCOMMITTED
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from chronik.wire.notation import VERSION_MAX, ZERO_UUID
from chronik.wire.records import ControlType, Record

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

MAGIC_2: Final = 4  # the first version with magic 2 batches from every broker
NAMES: Final = 12  # the last version with topic names; later ones have topic ids
# A batch of 1 MiB that decompresses to this is a bomb. A client trusts its broker, but its memory is limited.
DECOMPRESSED_BYTES_MAX: Final = 1 << 30
ANSWER_TIMEOUT_MS: Final = 30_000  # in addition to the time that the broker may wait


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """How long brokers wait for records, how much they return, and which records are visible."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 << 20
    partition_max_bytes: int = 1 << 20
    isolation_level: int = READ_UNCOMMITTED


class Fetched(NamedTuple):
    """Records of one partition, in order. May be empty, for example if it held only aborted records."""

    at: TopicPartition
    records: list[Record]
    next_offset: int
    high_watermark: int


async def fetch(
    cluster: ClusterClient,
    node_id: int,
    offsets: Mapping[TopicPartition, int],
    options: FetchOptions,
    *,
    max_wait_ms: int | None = None,
    purpose: str = "fetch",
) -> dict[TopicPartition, Chunk | ClientError]:
    """Fetches records at these offsets from the leader of these partitions."""
    told = await fetch_data(cluster, node_id, offsets, options, max_wait_ms=max_wait_ms, purpose=purpose)
    return {at: _answer(at, data, offsets[at], options.isolation_level) for at, data in told.partitions.items()}


class ToldData(NamedTuple):
    """The partitions of a response, not decoded."""

    partitions: dict[TopicPartition, PartitionData]
    throttle_ms: int  # above 0, a partition may be empty because of a quota


async def fetch_data(
    cluster: ClusterClient,
    node_id: int,
    offsets: Mapping[TopicPartition, int],
    options: FetchOptions,
    *,
    max_wait_ms: int | None = None,
    purpose: str = "fetch",
) -> ToldData:
    """Fetches batches at these offsets, not decoded."""
    connection = await cluster.to_node(node_id, purpose)
    wait_ms = options.max_wait_ms if max_wait_ms is None else max_wait_ms
    topology = cluster.topology
    grouped = by_topic(offsets)
    ids = {name: topology.topic(name).topic_id for name in grouped}
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=options.min_bytes,
        max_bytes=options.max_bytes,
        isolation_level=options.isolation_level,
        topics=[
            FetchTopic(
                topic=name,
                topic_id=ids[name],
                partitions=[
                    FetchPartition(
                        partition=at.partition,
                        current_leader_epoch=topology.partition(at).leader_epoch,
                        fetch_offset=offsets[at],
                        partition_max_bytes=options.partition_max_bytes,
                    )
                    for at in them
                ],
            )
            for name, them in grouped.items()
        ],
    )
    response = await connection.ask(
        request,
        FetchResponse,
        version_min=MAGIC_2,
        version_max=NAMES if ZERO_UUID in ids.values() else VERSION_MAX,
        timeout_ms=wait_ms + ANSWER_TIMEOUT_MS,
    )
    refuse(response.error_code, f"cannot fetch from broker {node_id}")
    names = {topic_id: name for name, topic_id in ids.items()}
    answers: dict[TopicPartition, PartitionData] = {}
    for topic in response.responses:
        for told in topic.partitions:
            at = TopicPartition(topic.topic or names.get(topic.topic_id, ""), told.partition_index)
            if at not in offsets:
                raise BadAnswer(f"broker {node_id} answered for {at}, which was not requested")
            answers[at] = told
    return ToldData(answers, response.throttle_time_ms)


def batches_of(at: TopicPartition, told: PartitionData, offset: int) -> list[BatchView]:
    """The complete batches. Raises Refused, or BadAnswer."""
    if told.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        raise OffsetOutOfRange(at, offset)
    if told.error_code:
        raise Refused(ErrorCode.of(told.error_code), f"cannot read {at} at offset {offset}")
    data = told.records or b""
    view = memoryview(b"".join(data)) if isinstance(data, list) else memoryview(data)
    try:
        return split(view, cut_tail=True)
    except Malformed as fault:
        raise BadAnswer(f"{at} at offset {offset}: {fault}") from fault


def _answer(at: TopicPartition, told: PartitionData, offset: int, isolation_level: int) -> Chunk | ClientError:
    try:
        found = batches_of(at, told, offset)
    except ClientError as fault:
        return fault
    visibility = Visibility(told, isolation_level)
    return Chunk(at, offset, told.high_watermark, deque(found), visibility)


class Visibility:
    """Which batches of one response a reader may see: no control batches, and for a reader of committed records no
    aborted transactions. Ask about batches in their order."""

    __slots__ = ("_aborted", "_aborting")

    def __init__(self, told: PartitionData, isolation_level: int) -> None:
        aborted = told.aborted_transactions or [] if isolation_level == READ_COMMITTED else []
        # (first offset, producer id) of aborted transactions, by offset
        self._aborted = deque(sorted((a.first_offset, a.producer_id) for a in aborted))
        self._aborting: set[int] = set()  # producers with an aborted transaction at this point of the log

    def shows(self, batch: BatchView) -> bool:
        """Raises Malformed."""
        while self._aborted and self._aborted[0][0] <= batch.last_offset:
            self._aborting.add(self._aborted.popleft()[1])
        if batch.is_control:
            marker = next(record_codec.iterate(batch, DECOMPRESSED_BYTES_MAX), None)
            if marker is not None and record_codec.control_type(marker) is ControlType.ABORT:
                self._aborting.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._aborting)


def damage_of(at: TopicPartition, batch: BatchView) -> BadAnswer:
    """The error for a batch whose checksum fails."""
    return BadAnswer(
        f"{at}: the batch at offset {batch.base_offset} fails its checksum: "
        "it was damaged in transit or on the broker's disk"
    )


class Chunk:
    """The part of one partition's fetched data that has not been taken yet."""

    __slots__ = ("_batches", "_visibility", "at", "high_watermark", "next_offset")

    def __init__(
        self,
        at: TopicPartition,
        offset: int,
        high_watermark: int,
        batches: deque[BatchView],
        visibility: Visibility,
    ) -> None:
        self.at = at
        self.next_offset = offset
        self.high_watermark = high_watermark
        self._batches = batches
        self._visibility = visibility

    @property
    def is_empty(self) -> bool:
        return not self._batches

    def take(self, records_max: int) -> Fetched:
        """Whole batches until there are `records_max` records; raises BadAnswer for damaged data."""
        taken: list[Record] = []
        while self._batches and len(taken) < records_max:
            batch = self._batches.popleft()
            if not crc_holds(batch):
                raise damage_of(self.at, batch)
            try:
                if self._visibility.shows(batch):
                    start = self.next_offset
                    taken += [each for each in self._records(batch) if each.offset >= start]
            except Malformed as fault:
                raise BadAnswer(
                    f"{self.at}: the batch at offset {batch.base_offset} cannot be read: {fault}"
                ) from fault
            self.next_offset = max(self.next_offset, batch.next_offset)
        return Fetched(self.at, taken, self.next_offset, self.high_watermark)

    def _records(self, batch: BatchView) -> list[Record]:
        return list(record_codec.iterate(batch, DECOMPRESSED_BYTES_MAX))
