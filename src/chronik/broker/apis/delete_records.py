"""DeleteRecords (key 21): advances the log start offset; records before it are hidden from consumers at once.

The response is sent when the start offset is durable here and every in-sync replica has advanced its own, so that no
election restores the records; or with REQUEST_TIMED_OUT. Offset -1 means the high watermark; a higher one gets
OFFSET_OUT_OF_RANGE. A file is removed when its whole segment is before the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.errors import REFUSALS
from chronik.broker.permissions import DELETE, TOPIC
from chronik.broker.topics import INTERNAL_TOPICS, find_replica, find_topic
from chronik.storage.errors import StorageError
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from chronik.wire.notation import ZERO_UUID

if TYPE_CHECKING:
    import asyncio

    from chronik.broker.context import Context
    from chronik.metadata.image import Topic
    from chronik.replication.replica import Replica

    Waits = list[tuple[Replica, DeleteRecordsPartitionResult, asyncio.Future[None]]]

HIGH_WATERMARK = -1


@api(DeleteRecordsRequest, DeleteRecordsResponse, needs=(DELETE.on(TOPIC),))
async def delete_records(request: DeleteRecordsRequest, context: Context) -> DeleteRecordsResponse:
    topics = []
    waits: Waits = []
    for asked in request.topics:
        topic: Topic | ErrorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if context.allows(DELETE, TOPIC, asked.name):
            topic = find_topic(context.services, asked.name, ZERO_UUID)
        results = []
        for partition in asked.partitions:
            results.append(_delete_before(topic, partition, request.timeout_ms, context, waits))
            await context.services.turns.piece()
        topics.append(DeleteRecordsTopicResult(name=asked.name, partitions=results))
    try:
        await context.services.logs.journal.flush_notes()
    except StorageError as fault:  # the node is about to stop
        for result in (each for topic_result in topics for each in topic_result.partitions if not each.error_code):
            _refuse(result, fault.kafka_error)
    for replica, result, waiting in waits:
        try:
            await waiting
        except REFUSALS as fault:
            _refuse(result, fault.kafka_error)
            result.low_watermark = replica.low_watermark if fault.kafka_error == ErrorCode.REQUEST_TIMED_OUT else -1
    return DeleteRecordsResponse(throttle_time_ms=0, topics=topics)


def _delete_before(
    topic: Topic | ErrorCode, asked: DeleteRecordsPartition, timeout_ms: int, context: Context, waits: Waits
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1, error_code=0)
    replica = topic if isinstance(topic, ErrorCode) else find_replica(context.services, topic, asked.partition_index)
    if isinstance(replica, ErrorCode):
        return _refuse(result, replica)
    if replica.log.topic in INTERNAL_TOPICS:
        return _refuse(result, ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not replica.log.config.deletes:
        return _refuse(result, ErrorCode.POLICY_VIOLATION)
    try:
        replica.require_leader()
        offset = replica.high_watermark if asked.offset == HIGH_WATERMARK else asked.offset
        if not 0 <= offset <= replica.high_watermark:
            return _refuse(result, ErrorCode.OFFSET_OUT_OF_RANGE)
        waiting = replica.delete_before(offset, timeout_ms)
    except REFUSALS as fault:
        return _refuse(result, fault.kafka_error)
    if waiting is not None:
        waits.append((replica, result, waiting))
    result.low_watermark = replica.log.start_offset
    return result


def _refuse(result: DeleteRecordsPartitionResult, error: ErrorCode) -> DeleteRecordsPartitionResult:
    result.low_watermark, result.error_code = -1, error
    return result
