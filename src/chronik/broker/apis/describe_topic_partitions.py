"""DescribeTopicPartitions (key 75): pages of topics' partitions, with their eligible leader replicas (KIP-966)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.authorizer import Notes
from chronik.broker.linearizable_reads import reads_metadata
from chronik.broker.permissions import DESCRIBE, TOPIC, TOPIC_OPERATIONS
from chronik.broker.topics import INTERNAL_TOPICS
from chronik.metadata.commands.create_topics import why_not_a_topic_name
from chronik.runtime.pieces import Work, each
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from chronik.wire.notation import ZERO_UUID

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.metadata.image import Image, Topic


@api(DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, needs=(DESCRIBE.on(TOPIC),))
@reads_metadata
def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, context: Context
) -> Work[DescribeTopicPartitionsResponse]:
    """Topics by name, from the cursor on; the next cursor points to the first partition that does not fit."""
    image = context.services.store.image
    everything = not request.topics
    names = sorted(image.topics_by_name) if everything else sorted({topic.name for topic in request.topics})
    first_index, cursor = 0, request.cursor
    if cursor is not None and (cursor.partition_index < 0 or not (everything or cursor.topic_name in names)):
        refused = [_unknown(topic.name, ErrorCode.INVALID_REQUEST) for topic in request.topics]
        return DescribeTopicPartitionsResponse(throttle_time_ms=0, topics=refused)
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
        first_index = cursor.partition_index if names and names[0] == cursor.topic_name else 0
    denied = context.denied(DESCRIBE, TOPIC, names, Notes.ALL if request.topics else Notes.NONE)
    room = min(max(request.response_partition_limit, 1), context.services.settings.max_request_partition_size_limit)
    response = DescribeTopicPartitionsResponse(throttle_time_ms=0, topics=[])
    for name in names:
        yield 1
        if name in denied:
            continue
        topic = image.topic_named(name)
        if room <= 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        if topic is None:
            is_bad = why_not_a_topic_name(name) is not None
            error = ErrorCode.INVALID_TOPIC_EXCEPTION if is_bad else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            unknown = _unknown(name, error)
            unknown.topic_authorized_operations = context.permitted(TOPIC_OPERATIONS, TOPIC, name)
            response.topics.append(unknown)
            continue
        first_index = min(first_index, len(topic.partitions))
        end = min(len(topic.partitions), first_index + room)
        describe = partial(_describe_partition, topic, image)
        partitions = yield from each(describe, range(first_index, end))
        response.topics.append(_describe(topic, partitions, context.permitted(TOPIC_OPERATIONS, TOPIC, name)))
        if end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
        room -= end - first_index
        first_index = 0
    if not everything:  # otherwise the topic is not listed
        response.topics += [_denied(name) for name in names if name in denied]
    return response


def _denied(name: str) -> DescribeTopicPartitionsResponseTopic:
    """Does not reveal whether the topic exists or is internal."""
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=False,
        partitions=[],
    )


def _unknown(name: str, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=name,
        topic_id=ZERO_UUID,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
    )


def _describe(
    topic: Topic, partitions: list[DescribeTopicPartitionsResponsePartition], operations: int
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=operations,
    )


def _describe_partition(topic: Topic, image: Image, index: int) -> DescribeTopicPartitionsResponsePartition:
    state = topic.partitions[index]
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if state.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=list(state.elr),
        last_known_elr=list(state.last_known_elr),
        offline_replicas=[replica for replica in state.replicas if not image.is_live(replica)],
    )
