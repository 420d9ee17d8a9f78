"""OffsetForLeaderEpoch (key 23): returns where a leader epoch ends in this log, so that a client can find where its
data diverged.

Returns the largest epoch that is not above the requested one, and the start offset of the next one (or the log end).
Versions: v1 leader_epoch in the response; v2 current_leader_epoch is checked; v3 replica_id.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.authorizer import Notes
from chronik.broker.errors import REFUSALS
from chronik.broker.permissions import CLUSTER, CLUSTER_ACTION, DESCRIBE, TOPIC
from chronik.broker.topics import find_replica, find_topic
from chronik.runtime.pieces import Work, each
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from chronik.wire.notation import ZERO_UUID

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.metadata.image import Topic


@api(
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    needs=(DESCRIBE.on(TOPIC), CLUSTER_ACTION.on(CLUSTER, "followers, instead")),
)
def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, context: Context
) -> Work[OffsetForLeaderEpochResponse]:
    topics = []
    is_denied = not context.allows_on_cluster(CLUSTER_ACTION, Notes.ALLOWED)
    for asked in request.topics:
        topic: Topic | ErrorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if not is_denied or context.allows(DESCRIBE, TOPIC, asked.topic):
            topic = find_topic(context.services, asked.topic, ZERO_UUID)
        results = yield from each(partial(_end_of, topic, context), asked.partitions)
        topics.append(OffsetForLeaderTopicResult(topic=asked.topic, partitions=results))
    return OffsetForLeaderEpochResponse(topics=topics)


def _end_of(topic: Topic | ErrorCode, context: Context, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    replica = topic if isinstance(topic, ErrorCode) else find_replica(context.services, topic, asked.partition)
    if isinstance(replica, ErrorCode):
        return EpochEndOffset(error_code=replica, partition=asked.partition)
    try:
        replica.require_leader(asked.current_leader_epoch)
    except REFUSALS as fault:
        return EpochEndOffset(error_code=fault.kafka_error, partition=asked.partition)
    if replica.awaits_proof:
        return EpochEndOffset(error_code=ErrorCode.OFFSET_NOT_AVAILABLE, partition=asked.partition)
    end = replica.log.epochs.end_of(asked.leader_epoch, replica.log.end_offset)
    return EpochEndOffset(error_code=0, partition=asked.partition, leader_epoch=end.epoch, end_offset=end.end_offset)
