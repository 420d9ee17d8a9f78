"""CreatePartitions (key 37): adds partitions to topics; the response is sent when they have leaders."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.command_splitting import some_at_a_time
from chronik.broker.permissions import ALTER, TOPIC
from chronik.broker.quotas.mutations import MESSAGE, within_quota
from chronik.broker.topics import refused_by
from chronik.metadata.commands.create_partitions import CreatePartitions, ReplicaList, TopicGrowth
from chronik.metadata.errors import MetadataError
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.metadata.image import Image

VERSION_QUOTA = 3


@api(CreatePartitionsRequest, CreatePartitionsResponse, needs=(ALTER.on(TOPIC),))
async def create_partitions(request: CreatePartitionsRequest, context: Context) -> CreatePartitionsResponse:
    denied = context.denied(ALTER, TOPIC, [topic.name for topic in request.topics])
    results = [
        CreatePartitionsTopicResult(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=None)
        for name in sorted(denied)
    ]
    asked = [topic for topic in request.topics if topic.name not in denied]
    if context.services.quotas.restricts and not request.validate_only:
        image = context.services.store.image
        asked, refused = within_quota(context, asked, partial(_added, image), refuses_since=VERSION_QUOTA)
        error = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        results += [
            CreatePartitionsTopicResult(name=topic.name, error_code=error, error_message=MESSAGE) for topic in refused
        ]
    for some in some_at_a_time(asked, lambda topic: topic.name):
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


def _added(image: Image, topic: CreatePartitionsTopic) -> int:
    found = image.topic_named(topic.name)
    return max(topic.count - len(found.partitions), 0) if found is not None else 0


def _growth(topic: CreatePartitionsTopic) -> TopicGrowth:
    assignments = topic.assignments
    chosen = None if assignments is None else [ReplicaList(broker_ids=each.broker_ids) for each in assignments]
    return TopicGrowth(name=topic.name, partition_count=topic.count, assignments=chosen)
