"""CreatePartitions (key 37): adds partitions to topics; answered when they have leaders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.commands import some_at_a_time
from chronik.broker.permissions import ALTER, TOPIC
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


@api(CreatePartitionsRequest, CreatePartitionsResponse, needs=(ALTER.on(TOPIC),))
async def create_partitions(request: CreatePartitionsRequest, context: Context) -> CreatePartitionsResponse:
    results: list[CreatePartitionsTopicResult] = []
    for some in some_at_a_time(request.topics, lambda topic: topic.name):
        command = CreatePartitions(topics=[_growth(topic) for topic in some], validate_only=request.validate_only)
        try:
            reply = await context.services.store.submit(command)
        except MetadataError as fault:
            error, message = refused_by(fault)
            results += [
                CreatePartitionsTopicResult(name=topic.name, error_code=error, error_message=message) for topic in some
            ]
        else:
            results += [
                CreatePartitionsTopicResult(name=t.name, error_code=t.error_code, error_message=t.error_message)
                for t in reply.topics
            ]
        await context.services.turns.piece(len(some))
    return CreatePartitionsResponse(throttle_time_ms=0, results=results)


def _growth(topic: CreatePartitionsTopic) -> TopicGrowth:
    assignments = topic.assignments
    chosen = None if assignments is None else [ReplicaList(broker_ids=each.broker_ids) for each in assignments]
    return TopicGrowth(name=topic.name, partition_count=topic.count, assignments=chosen)
