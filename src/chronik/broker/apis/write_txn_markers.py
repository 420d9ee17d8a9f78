"""WriteTxnMarkers (key 27): ends transactions on the partitions that this node leads.

A coordinator sends it when a transaction commits or aborts. An operator sends it to abort a hanging transaction. The
response is sent when the markers are committed: durable on every in-sync replica. Markers for __consumer_offsets go
through the group coordinator, which then applies or discards the offsets of the transaction.

A delayed request on a connection that the sending node has given up closes that connection (see
`marker_connections.py`).

Order of checks, per partition: replica on this node, leader, in-sync replicas, producer epoch, coordinator epoch.
Versions: v2 transaction version, which determines how strictly the log compares epochs.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from chronik.broker.api import api
from chronik.broker.authorizer import Notes
from chronik.broker.errors import REFUSALS
from chronik.broker.permissions import ALTER, CLUSTER, CLUSTER_ACTION
from chronik.coordinator.open_transactions import Producer, marker_batch
from chronik.coordinator.transactions.markers import MarkerOrder
from chronik.runtime.pieces import ITEMS_PER_PIECE, Work
from chronik.storage.origins import Origin
from chronik.wire.batches import split
from chronik.wire.error_codes import ErrorCode
from chronik.wire.internal_topics import OFFSETS_TOPIC
from chronik.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from chronik.wire.records import ControlType

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.broker.services import Services
    from chronik.coordinator.transactions.transaction import TopicPartition
    from chronik.replication.replica import Replica

    # A partition's error, or a future: a group coordinator's has the error as its result, a log's raises it.
    Written = ErrorCode | asyncio.Future[ErrorCode] | asyncio.Future[None]

Results = dict[int, dict[tuple[str, int], ErrorCode]]  # by producer id: the markers of a producer share one result

PIECES_PER_MARKER: Final = 3
TIMEOUT_MS: Final = 30_000  # after this time, the coordinator gets an error and sends the marker again
# After these errors a transaction coordinator sends the marker again, to the partition's current leader.
_NOT_READY: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)


@api(
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
    needs=(ALTER.on(CLUSTER), CLUSTER_ACTION.on(CLUSTER, "coordinators, instead")),
)
async def write_txn_markers(request: WriteTxnMarkersRequest, context: Context) -> WriteTxnMarkersResponse:
    if context.allows_on_cluster(ALTER, Notes.ALLOWED) or context.allows_on_cluster(CLUSTER_ACTION):
        services = context.services
        nodes = services.store.image.brokers
        services.marker_connections.require_newest(context.client_id, context.session.number, nodes)
        return await write_markers(request, services)
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    written: Results = {}
    for marker in request.markers:
        partitions = [(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]
        written.setdefault(marker.producer_id, {}).update(dict.fromkeys(partitions, denied))
    return await context.services.turns.run(_response(written))


async def write_markers(request: WriteTxnMarkersRequest, services: Services) -> WriteTxnMarkersResponse:
    """All markers are appended first, so that one commit makes them durable together."""
    written: dict[int, dict[tuple[str, int], Written]] = {}
    for marker in request.markers:
        of_producer = written.setdefault(marker.producer_id, {})
        order = _order(marker)
        for topic in marker.topics:
            for index in topic.partition_indexes:
                outcome = of_producer[topic.name, index] = write_marker(order, (topic.name, index), services)
                await services.turns.piece(1 if isinstance(outcome, ErrorCode) else PIECES_PER_MARKER)
    settled: Results = {producer_id: {} for producer_id in written}
    count = 0
    for producer_id, partitions in written.items():
        for partition, awaited in partitions.items():
            settled[producer_id][partition] = await _settled(awaited)
            count += 1
            if count % ITEMS_PER_PIECE == 0:
                await services.turns.piece()
    return await services.turns.run(_response(settled))


def _response(errors: Results) -> Work[WriteTxnMarkersResponse]:
    results = []
    for producer_id, partitions in errors.items():
        topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
        for number, ((name, index), error) in enumerate(partitions.items()):
            result = WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
            topics.setdefault(name, []).append(result)
            if number % ITEMS_PER_PIECE == 0:
                yield 1
        results.append(
            WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[WritableTxnMarkerTopicResult(name=name, partitions=each) for name, each in topics.items()],
            )
        )
    return WriteTxnMarkersResponse(markers=results)


def _order(marker: WritableTxnMarker) -> MarkerOrder:
    return MarkerOrder(
        "",  # the request does not contain the transactional id
        marker.producer_id,
        marker.producer_epoch,
        marker.transaction_result,
        marker.transaction_version,
        marker.coordinator_epoch,
    )


def write_marker(order: MarkerOrder, partition: TopicPartition, services: Services) -> Written:
    """Appends one marker to a partition of this node. Does not wait, and does not raise errors that `outcome_of` can
    return."""
    topic_name, index = partition
    topic = services.store.image.topic_named(topic_name)
    replica = None if topic is None else services.replicas.get(topic, index)
    if replica is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    producer = Producer(order.producer_id, order.producer_epoch)
    outcome = ControlType.COMMIT if order.commits else ControlType.ABORT
    if topic_name == OFFSETS_TOPIC:
        return services.groups.end_transaction(
            index, producer, outcome, order.coordinator_epoch, order.transaction_version
        )
    now_ms = services.runtime.clock.wall_ms()
    batch = marker_batch(producer, outcome, order.coordinator_epoch, now_ms)
    try:
        return _append(replica, batch, order.transaction_version, now_ms) or ErrorCode.NONE
    except REFUSALS as fault:
        return fault.kafka_error


def _append(replica: Replica, batch: bytes, transaction_version: int, now_ms: int) -> asyncio.Future[None] | None:
    replica.require_leader()
    replica.require_in_sync()
    appended = replica.append(
        split(memoryview(batch))[0],
        now_ms=now_ms,
        origin=Origin.COORDINATOR,
        transaction_version=transaction_version,
    )
    return replica.when_committed(appended.last_offset + 1, TIMEOUT_MS)


async def _settled(written: Written) -> ErrorCode:
    """The result of a marker, when it is known."""
    try:
        error = written if isinstance(written, ErrorCode) else await written or ErrorCode.NONE
    except REFUSALS as fault:
        return fault.kafka_error
    return told_to_coordinator(error)


def outcome_of(written: asyncio.Future[ErrorCode] | asyncio.Future[None]) -> ErrorCode:
    """The result of a future that is done."""
    try:
        error = written.result() or ErrorCode.NONE
    except REFUSALS as fault:
        return fault.kafka_error
    return told_to_coordinator(error)


def told_to_coordinator(error: ErrorCode) -> ErrorCode:
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if error in _NOT_READY else error
