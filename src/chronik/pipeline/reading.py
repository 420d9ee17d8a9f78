"""One partition from one offset to another, as Arrow tables, with a blocking socket. No Spark, no event loop.

    for table in read_range("localhost:9092", "orders", 0, start=0, end=1000): ...

Public and stable: the Spark source runs it in workers, and `chronik sql` and tables run it without Spark. Its output is
a function of its arguments alone: repeating a task yields the same rows.

While one response is decoded the next fetch is in flight. If a leader has moved or a broker is gone, the leader is
looked up again until `timeout_ms` pass without progress; rows are never yielded twice. Offsets in the range without a
visible record (markers, aborted transactions, compacted records) are skipped; deleted offsets raise DATA_LOSS, or are
skipped if `fail_on_data_loss` is off.
"""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING, Final

from chronik.client.addresses import Address, parse_addresses
from chronik.client.errors import ClientError, Refused, Unreachable, refuse
from chronik.client.topology import NO_LEADER, Topology
from chronik.pipeline.columns import COLUMNS
from chronik.pipeline.connections import IdleConnections
from chronik.pipeline.decode import Aborted, Decoder
from chronik.pipeline.denials import READ, naming
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.security import NO_QUERY_SECURITY, QuerySecurity
from chronik.runtime.invariants import check
from chronik.wire.batches import BatchView, split
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import Malformed
from chronik.wire.isolation import READ_COMMITTED
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from chronik.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from chronik.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from chronik.wire.notation import VERSION_MAX, ZERO_UUID
from chronik.wire.offset_specs import EARLIEST, LATEST
from chronik.wire.uuids import uuid_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from chronik.pipeline.connection import BlockingConnection

FETCH_BYTES_MAX: Final = 4 << 20  # one response is about one Arrow table of 100-byte records
FETCH_BYTES_MIN: Final = 2  # any batch suffices; with 1, brokers answer in small portions, and a table should be large
FETCH_WAIT_MS_MAX: Final = 500
TIMEOUT_MS: Final = 120_000
MAGIC_2: Final = 4  # the first version with magic 2 batches from every broker
NAMES: Final = 12  # the last version with topic names; later ones have topic ids
BACKOFF_MS_MIN, BACKOFF_MS_MAX = 50, 1_000
# Errors for a missing topic or partition; while metadata spreads, an existing one may cause them too.
GONE: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID}
)
GONE_AFTER_BACKOFF_MS: Final = 800  # once retry pauses are this long, the error is final
OFFSETS_TIMEOUT_MS: Final = 30_000

log = logging.getLogger(__name__)


def read_range(
    bootstrap: str,
    topic: str,
    partition: int,
    *,
    start: int,
    end: int,
    topic_id: bytes | None = None,
    columns: Sequence[str] = COLUMNS,
    isolation_level: int = READ_COMMITTED,
    fail_on_data_loss: bool = True,
    fetch_bytes_max: int = FETCH_BYTES_MAX,
    timeout_ms: int = TIMEOUT_MS,
    client_id: str = "chronik-pipeline",
    security: QuerySecurity = NO_QUERY_SECURITY,
    connections: IdleConnections | None = None,
) -> Iterator[pa.RecordBatch]:
    """Records with `start` <= offset < `end`. With a `topic_id`, a different topic of that name is TOPIC_ID_CHANGED.

    `connections` are shared with ranges that are read before and after this one; the caller closes them.
    """
    shared = connections if connections is not None else IdleConnections(security, client_id)
    reader = _Reader(
        parse_addresses(bootstrap),
        topic,
        partition,
        topic_id,
        isolation_level=isolation_level,
        fetch_bytes_max=fetch_bytes_max,
        connections=shared,
    )
    decoder = Decoder(topic, partition, columns)
    patience = _Patience(f"{topic}-{partition}", timeout_ms)
    position = start
    try:
        while position < end:
            try:
                told = reader.fetch(position)
                is_out_of_range = told.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
                bounds = reader.log_bounds() if is_out_of_range else (told.log_start_offset, told.high_watermark)
            except ClientError as fault:
                reader.forget()
                with naming(security, READ, topic=topic):
                    patience.wait_after(fault)
                continue
            batches = _split(told, decoder, position)
            # A log that ends before the planned end returns empty responses forever.
            if is_out_of_range or (not batches and patience.is_over):
                position = _skip(topic, partition, position, end, bounds, fails=fail_on_data_loss)
            if not batches:
                continue
            next_position = max(position, batches[-1].next_offset)
            reader.ask_ahead(next_position, end)
            aborted = told.aborted_transactions or () if isolation_level == READ_COMMITTED else ()
            yield from decoder.decode(
                batches, position, end, [Aborted(each.first_offset, each.producer_id) for each in aborted]
            )
            check(
                next_position > position, "19 a reader goes forward", topic=topic, partition=partition, offset=position
            )
            position = next_position
            patience.renew()
        reader.give_back()
    finally:
        reader.forget()
        if connections is None:
            shared.close()


class _Patience:
    """Limits how long to continue without progress."""

    def __init__(self, what: str, timeout_ms: int) -> None:
        self._what = what
        self._timeout_ms = timeout_ms
        self.renew()

    def renew(self) -> None:
        self._ends_s = time.monotonic() + self._timeout_ms / 1000
        self._backoff_ms = BACKOFF_MS_MIN

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._ends_s

    def wait_after(self, fault: ClientError) -> None:
        """Returns when it is time to retry; raises if retrying cannot help or has taken too long."""
        is_gone = isinstance(fault, Refused) and fault.kafka_error in GONE
        if is_gone and self._backoff_ms >= GONE_AFTER_BACKOFF_MS:
            reason = "it was deleted while it was read, or the query names another cluster"
            raise PipelineError("PARTITION_NOT_FOUND", partitions=self._what, reason=reason) from None
        if self.is_over or not (fault.retriable or is_gone):
            raise fault
        time.sleep(self._backoff_ms * random.uniform(0.8, 1.2) / 1000)  # noqa: S311 - so that tasks do not march
        self._backoff_ms = min(2 * self._backoff_ms, BACKOFF_MS_MAX)


def _split(told: PartitionData, decoder: Decoder, position: int) -> list[BatchView]:
    records = told.records or b""
    data = memoryview(b"".join(records)) if isinstance(records, list) else memoryview(records)
    try:
        return split(data, cut_tail=True)
    except Malformed as fault:
        raise decoder.unreadable(position, fault) from None


def _skip(topic: str, partition: int, position: int, end: int, bounds: tuple[int, int], *, fails: bool) -> int:
    """Records between `position` and `end` are missing: returns where to continue, if that is allowed."""
    log_start, log_end = bounds
    goes_on_at = min(log_start, end) if log_start > position else end
    check(goes_on_at > position, "19 a reader goes forward", topic=topic, partition=partition, offset=position)
    loss = PipelineError(
        "DATA_LOSS",
        topic=topic,
        partition=partition,
        start=position,
        end=goes_on_at - 1,
        log_start=log_start,
        log_end=log_end - 1,
    )
    if fails:
        raise loss
    log.warning("%s", loss)
    return goes_on_at


class _Reader:
    """Fetches from the partition's leader, with at most one request in flight."""

    def __init__(
        self,
        bootstrap: tuple[Address, ...],
        topic: str,
        partition: int,
        topic_id: bytes | None,
        *,
        isolation_level: int = READ_COMMITTED,
        fetch_bytes_max: int = FETCH_BYTES_MAX,
        connections: IdleConnections,
    ) -> None:
        self.topic, self.partition = topic, partition
        self._bootstrap = bootstrap
        self._topic_id = topic_id
        self._isolation_level = isolation_level
        self._fetch_bytes_max = fetch_bytes_max
        self._connections = connections
        self._leader: BlockingConnection | None = None
        self._leader_epoch = -1
        self.known_id = ZERO_UUID  # as reported by the cluster; ZERO_UUID if brokers have no ids
        self._asked: int | None = None  # the offset of the request in flight

    def fetch(self, position: int) -> PartitionData:
        """The response for `position`, from the prefetch if it was for this offset."""
        if self._leader is not None and self._leader.is_retired and self._asked is None:
            self.forget()
        leader = self._leader or self.find_leader()
        if self._asked != position:
            if self._asked is not None:
                leader.receive()
            self._send(leader, position)
        self._asked = None
        response = leader.receive()
        assert isinstance(response, FetchResponse)
        what = f"cannot fetch from {leader.address}"
        refuse(response.error_code, what)
        told = next((each for topic in response.responses for each in topic.partitions), None)
        if told is None:
            raise Unreachable(f"{what}: no answer for {self.topic}-{self.partition}")
        if told.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            refuse(told.error_code, f"cannot read {self.topic}-{self.partition} at offset {position}")
        return told

    def ask_ahead(self, position: int, end: int) -> None:
        if position < end and self._leader is not None and not self._leader.is_retired:
            self._send(self._leader, position)

    def log_bounds(self) -> tuple[int, int]:
        """Current start and end of the log, which an OFFSET_OUT_OF_RANGE response does not contain."""
        leader = self._leader or self.find_leader()
        found = []
        for timestamp in (EARLIEST, LATEST):
            asked = ListOffsetsPartition(partition_index=self.partition, timestamp=timestamp)
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=self._isolation_level,
                topics=[ListOffsetsTopic(name=self.topic, partitions=[asked])],
                timeout_ms=OFFSETS_TIMEOUT_MS,
            )
            response = leader.ask(request, ListOffsetsResponse, version_min=1)
            [told] = response.topics[0].partitions
            refuse(told.error_code, f"cannot look up an offset of {self.topic}-{self.partition}")
            found.append(told.offset)
        return found[0], found[1]

    def forget(self) -> None:
        if self._leader is not None:
            self._leader.close()
        self._leader, self._asked = None, None

    def give_back(self) -> None:
        """The range is read: the next one may use the connection."""
        if self._leader is not None and self._asked is None:
            self._connections.give_back(self._leader)
            self._leader = None

    def _send(self, leader: BlockingConnection, position: int) -> None:
        partition = FetchPartition(
            partition=self.partition,
            current_leader_epoch=self._leader_epoch,
            fetch_offset=position,
            partition_max_bytes=self._fetch_bytes_max,
        )
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS_MAX,
            min_bytes=FETCH_BYTES_MIN,
            max_bytes=self._fetch_bytes_max,
            isolation_level=self._isolation_level,
            topics=[FetchTopic(topic=self.topic, topic_id=self.known_id, partitions=[partition])],
        )
        version_max = NAMES if self.known_id == ZERO_UUID else VERSION_MAX
        leader.send(request, FetchResponse, version_min=MAGIC_2, version_max=version_max)
        self._asked = position

    def find_leader(self) -> BlockingConnection:
        connection = self._any_broker()
        try:
            address = self._leader_address(connection)
        except BaseException:
            connection.close()
            raise
        if address == connection.address:
            self._leader = connection
        else:
            self._connections.give_back(connection)
            self._leader = self._connections.take(address)
        return self._leader

    def _leader_address(self, connection: BlockingConnection) -> Address:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=self.topic)], allow_auto_topic_creation=False)
        response = connection.ask(request, MetadataResponse, version_min=4)
        refuse(response.error_code, "cannot fetch the cluster's metadata")
        topology = Topology().merged(response, is_everything=False)
        topic = topology.topic(self.topic)
        require_same_topic(self.topic, self._topic_id, topic.topic_id)
        partition = topic.partitions.get(self.partition)
        if partition is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {self.topic}-{self.partition}")
        broker = topology.brokers.get(partition.leader_id)
        if partition.leader_id == NO_LEADER or broker is None:
            raise Refused(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {self.topic}-{self.partition}")
        self.known_id, self._leader_epoch = topic.topic_id, partition.leader_epoch
        return broker.address

    def _any_broker(self) -> BlockingConnection:
        faults: list[Unreachable] = []
        for address in self._bootstrap:
            try:
                return self._connections.take(address)
            except Unreachable as fault:
                faults.append(fault)
        raise Unreachable("; ".join(map(str, faults)))


def topic_id_of(
    bootstrap: str,
    topic: str,
    *,
    client_id: str = "chronik-pipeline",
    security: QuerySecurity = NO_QUERY_SECURITY,
) -> bytes:
    """The id of the topic that has this name now; raises Refused if there is none."""
    connections = IdleConnections(security, client_id)
    reader = _Reader(parse_addresses(bootstrap), topic, 0, None, connections=connections)
    try:
        reader.find_leader()
        return reader.known_id
    finally:
        reader.forget()
        connections.close()


def require_same_topic(topic: str, before: bytes | None, after: bytes) -> None:
    """Raises TOPIC_ID_CHANGED if both ids are known and differ."""
    if before is not None and ZERO_UUID not in (before, after) and before != after:
        raise PipelineError("TOPIC_ID_CHANGED", topic=topic, before=uuid_text(before), after=uuid_text(after))
