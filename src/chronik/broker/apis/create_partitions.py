"""CreatePartitions (key 37): gives topics more partitions; answered when the new ones have leaders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.topics import refused_by
from chronik.metadata.commands import CreatePartitions, ReplicaList, TopicGrowth
from chronik.metadata.errors import MetadataError
from chronik.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(CreatePartitionsRequest, CreatePartitionsResponse)
async def create_partitions(request: CreatePartitionsRequest, context: Context) -> CreatePartitionsResponse:
    topics = [_growth(topic) for topic in request.topics]
    try:
        reply = await context.node.store.submit(CreatePartitions(topics=topics, validate_only=request.validate_only))
    except MetadataError as fault:
        error, message = refused_by(fault)
        results = [
            CreatePartitionsTopicResult(name=topic.name, error_code=error, error_message=message)
            for topic in request.topics
        ]
    else:
        results = [
            CreatePartitionsTopicResult(name=t.name, error_code=t.error_code, error_message=t.error_message)
            for t in reply.topics
        ]
    return CreatePartitionsResponse(throttle_time_ms=0, results=results)


def _growth(topic: CreatePartitionsTopic) -> TopicGrowth:
    assignments = topic.assignments
    chosen = None if assignments is None else [ReplicaList(broker_ids=each.broker_ids) for each in assignments]
    return TopicGrowth(name=topic.name, partition_count=topic.count, assignments=chosen)
