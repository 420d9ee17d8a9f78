"""Writes the steps of a restore to one partition, each at its offset and exactly once.

An idempotent producer sends the batches, so a repeated request writes nothing twice. Markers have no such protection:
if it is unknown whether they were written, Uncertain is raised, and the topic must be restored from its beginning.
After every batch, the offset assigned by the broker must be the expected one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from chronik.backup.cutting import HIDDEN_RECORDS_MAX, Hide, Put, Skip, Step, filler, stamped
from chronik.client.batching import Acknowledged, Identity
from chronik.client.errors import BadAnswer, ClientError, Refused, refuse
from chronik.client.sending import produce
from chronik.client.topology import TopicPartition
from chronik.wire.batches import BatchView
from chronik.wire.compression import Codec
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from chronik.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

PATIENCE_MS: Final = 120_000
MARKERS_PER_REQUEST: Final = 1_000
MARKERS_TIMEOUT_MS: Final = 60_000
# Clusters assign producer ids from 0 upwards, so no producer ever gets this one.
MARKER_PRODUCER_ID: Final = 2**63 - 1
SEQUENCE_MAX: Final = 2**31 - 1
ALL_REPLICAS: Final = -1


class Uncertain(Exception):
    """The partition may hold more or fewer records than it should."""


class _Stamped(NamedTuple):
    """A batch in the form that `sending.produce` expects."""

    data: bytes

    def encoded(self, codec: Codec, level: int | None, *, is_transactional: bool = False) -> bytes:
        return self.data


async def new_producer(cluster: ClusterClient) -> Identity:
    """Raises ClientError."""

    async def attempt() -> Identity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        response = await (await cluster.to_any()).ask(request, InitProducerIdResponse)
        refuse(response.error_code, "cannot get a producer id")
        return Identity(response.producer_id, response.producer_epoch)

    return await cluster.retrying(attempt)


class PartitionRestore:
    """Restores an empty partition."""

    def __init__(
        self, cluster: ClusterClient, at: TopicPartition, producer: Identity, note: Callable[[int], None]
    ) -> None:
        """`note` is called with the number of offsets written."""
        self._cluster = cluster
        self._at = at
        self._producer = producer
        self._note = note
        self._sequence = 0
        self._position = 0

    async def write(self, steps: Iterable[Step]) -> int:
        """Returns the offset after the last step. Raises Uncertain, or ClientError."""
        for step in steps:
            match step:
                case Put(batch):
                    await self._put(batch, batch.base_offset)
                case Hide(offset, count):
                    await self._hide(offset, count)
                case Skip(offset, count):
                    await self._skip(offset, count)
        return self._position

    async def _hide(self, offset: int, count: int) -> None:
        end = offset + count
        while offset < end:
            size = min(HIDDEN_RECORDS_MAX, end - offset)
            await self._put(filler(size), offset)
            offset += size

    async def _put(self, batch: BatchView, offset: int) -> None:
        self._expect(offset)
        ready = _Stamped(stamped(batch, *self._producer, self._sequence))

        async def attempt() -> Acknowledged:
            try:
                await self._cluster.topic(self._at.topic)
                leader = self._cluster.topology.leader(self._at)
                told = await produce(
                    self._cluster, leader, {self._at: ready}, acks=ALL_REPLICAS, codec=batch.compression, level=None
                )
                result = told[self._at]
                if isinstance(result, ClientError):
                    raise result
            except ClientError as fault:
                if fault.retriable:
                    self._cluster.forget(self._at.topic)
                raise
            return result

        acknowledged = await self._cluster.retrying(attempt, timeout_ms=PATIENCE_MS)
        if acknowledged.base_offset not in (-1, offset):  # -1: a repeated batch whose offset the broker has forgotten
            raise Uncertain(f"{self._at}: a batch for offset {offset} was written at {acknowledged.base_offset}")
        self._sequence = (self._sequence + batch.record_count) & SEQUENCE_MAX
        self._advance(batch.record_count)

    async def _skip(self, offset: int, count: int) -> None:
        self._expect(offset)
        while count:
            size = min(MARKERS_PER_REQUEST, count)
            await self._write_markers(size)
            count -= size
            self._advance(size)

    async def _write_markers(self, count: int) -> None:
        what = f"cannot write markers to {self._at}"
        topic = WritableTxnMarkerTopic(name=self._at.topic, partition_indexes=[self._at.partition])
        marker = WritableTxnMarker(
            producer_id=MARKER_PRODUCER_ID,
            producer_epoch=0,
            transaction_result=True,
            topics=[topic],
            coordinator_epoch=0,
        )
        try:
            await self._cluster.topic(self._at.topic)
            connection = await self._cluster.to_node(self._cluster.topology.leader(self._at))
            response = await connection.ask(
                WriteTxnMarkersRequest(markers=[marker] * count),
                WriteTxnMarkersResponse,
                timeout_ms=MARKERS_TIMEOUT_MS,
            )
            codes = [told.error_code for result in response.markers for of in result.topics for told in of.partitions]
            if not codes:
                raise BadAnswer(f"{what}: the response does not contain it")
            for code in codes:
                refuse(code, what)
        except ClientError as fault:
            self._cluster.forget(self._at.topic)
            if isinstance(fault, Refused) and fault.kafka_error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                raise
            raise Uncertain(str(fault)) from fault

    def _expect(self, offset: int) -> None:
        if offset != self._position:
            raise Uncertain(f"{self._at} ends at offset {self._position}, and the next step is for offset {offset}")

    def _advance(self, count: int) -> None:
        self._position += count
        self._note(count)
