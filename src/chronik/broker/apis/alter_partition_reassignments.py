"""AlterPartitionReassignments (key 45): moves replicas to other brokers, or cancels such a move.

The response is sent when the move has begun; ListPartitionReassignments lists it until every added replica is in sync.
Versions: v1 allow_replication_factor_change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import ALTER, CLUSTER
from chronik.broker.topics import refused_by
from chronik.metadata.commands.alter_reassignments import AlterReassignments, ReassignedTopic, Reassignment
from chronik.metadata.errors import MetadataError
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, needs=(ALTER.on(CLUSTER),))
async def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: Context
) -> AlterPartitionReassignmentsResponse:
    if not context.allows_on_cluster(ALTER):
        return _denied(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    topics = [
        ReassignedTopic(
            name=topic.name,
            partitions=[Reassignment(index=each.partition_index, replicas=each.replicas) for each in topic.partitions],
        )
        for topic in request.topics
    ]
    response = AlterPartitionReassignmentsResponse(
        throttle_time_ms=0,
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=0,
        error_message=None if topics else "",  # as in Kafka, the response to an empty request has the default message
        responses=[],
    )
    command = AlterReassignments(topics=topics, allows_other_factor=request.allow_replication_factor_change)
    try:
        reply = await context.services.store.submit(command)
    except MetadataError as fault:
        response.error_code, response.error_message = refused_by(fault)
        return response
    response.responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(
                    partition_index=each.index, error_code=each.error_code, error_message=each.error_message
                )
                for each in topic.partitions
            ],
        )
        for topic in reply.topics
    ]
    return response


def _denied(request: AlterPartitionReassignmentsRequest, error: ErrorCode) -> AlterPartitionReassignmentsResponse:
    topics = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(
                    partition_index=each.partition_index, error_code=error, error_message=error.message
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(
        throttle_time_ms=0,
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=error,
        error_message=error.message,
        responses=topics,
    )
