"""DeleteRecords (key 21): moves the log start forward; records before it are gone for readers at once.

Offset -1 means the high watermark; beyond it is OFFSET_OUT_OF_RANGE. Files are removed when whole segments fall behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.topics import INTERNAL_TOPICS, find_replica, find_topic
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
    from chronik.broker.context import Context
    from chronik.metadata.image import Topic

HIGH_WATERMARK = -1


@api(DeleteRecordsRequest, DeleteRecordsResponse)
def delete_records(request: DeleteRecordsRequest, context: Context) -> DeleteRecordsResponse:
    topics = []
    for asked in request.topics:
        topic = find_topic(context.node, asked.name, ZERO_UUID)
        results = [_delete_before(topic, partition, context) for partition in asked.partitions]
        topics.append(DeleteRecordsTopicResult(name=asked.name, partitions=results))
    return DeleteRecordsResponse(throttle_time_ms=0, topics=topics)


def _delete_before(
    topic: Topic | ErrorCode, asked: DeleteRecordsPartition, context: Context
) -> DeleteRecordsPartitionResult:
    replica = topic if isinstance(topic, ErrorCode) else find_replica(context.node, topic, asked.partition_index)
    if isinstance(replica, ErrorCode):
        return _refused(asked, replica)
    if replica.log.topic in INTERNAL_TOPICS:
        return _refused(asked, ErrorCode.INVALID_TOPIC_EXCEPTION)
    if not replica.log.config.deletes:
        return _refused(asked, ErrorCode.POLICY_VIOLATION)
    try:
        replica.require_leader()
    except context.node.refusals as fault:
        return _refused(asked, fault.kafka_error)
    offset = replica.high_watermark if asked.offset == HIGH_WATERMARK else asked.offset
    if not 0 <= offset <= replica.high_watermark:
        return _refused(asked, ErrorCode.OFFSET_OUT_OF_RANGE)
    replica.log.advance_start(offset)
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index, low_watermark=replica.log.start_offset, error_code=0
    )


def _refused(asked: DeleteRecordsPartition, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1, error_code=error)
