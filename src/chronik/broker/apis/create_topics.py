"""CreateTopics (key 19): creates topics; the response is sent when every partition has a leader.

Versions: v1 validate_only and messages; v4 -1 stands for the cluster's defaults; v5 returns the topic's configuration;
v7 topic ids.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.apis.describe_configs import topic_entries
from chronik.broker.authorizer import Notes
from chronik.broker.command_splitting import some_at_a_time
from chronik.broker.permissions import CLUSTER, CREATE, DESCRIBE_CONFIGS, TOPIC
from chronik.broker.quotas.mutations import MESSAGE, within_quota
from chronik.broker.topics import refused_by
from chronik.metadata.commands.create_topics import ConfigValue, CreateTopics, NewTopic, PartitionReplicas
from chronik.metadata.errors import MetadataError
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from chronik.wire.notation import Shared

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.broker.settings import Settings


VERSION_CONFIGS = 5
VERSION_QUOTA = 6
TOPICS_AT_ONCE = 8  # most clients create fewer; more are processed in slices


@api(
    CreateTopicsRequest,
    CreateTopicsResponse,
    needs=(CREATE.on(CLUSTER), CREATE.on(TOPIC, "instead"), DESCRIBE_CONFIGS.on(TOPIC, "configs in the answer")),
)
async def create_topics(request: CreateTopicsRequest, context: Context) -> CreateTopicsResponse:
    results: list[CreatableTopicResult] = []
    if context.services.authorizer.restricts and (denied := _denied(request, context)):
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        results += [
            CreatableTopicResult(name=name, error_code=error, error_message="Authorization failed.", configs=[])
            for name in sorted(denied)
        ]
        request.topics = [topic for topic in request.topics if topic.name not in denied]
    if context.services.quotas.restricts and not request.validate_only:
        request.topics, refused = within_quota(context, request.topics, _partitions_of, refuses_since=VERSION_QUOTA)
        error = ErrorCode.THROTTLING_QUOTA_EXCEEDED
        results += [
            CreatableTopicResult(name=topic.name, error_code=error, error_message=MESSAGE, configs=[])
            for topic in refused
        ]
    if len(request.topics) <= TOPICS_AT_ONCE:
        return CreateTopicsResponse(topics=results + await _create(request.topics, request, context))
    for some in some_at_a_time(request.topics, lambda topic: topic.name):
        results += await _create(some, request, context)
        await context.services.turns.piece(len(some))
    return CreateTopicsResponse(topics=results)


def _denied(request: CreateTopicsRequest, context: Context) -> frozenset[str]:
    """Duplicate names are not checked here: the controller rejects them before it checks permissions, as in Kafka."""
    if context.allows_on_cluster(CREATE, Notes.ALLOWED):
        return frozenset()
    times = Counter(topic.name for topic in request.topics)
    return context.denied(CREATE, TOPIC, [name for name, count in times.items() if count == 1])


def _partitions_of(topic: CreatableTopic) -> int:
    return len(topic.assignments) or max(topic.num_partitions, 1)


async def _create(
    topics: list[CreatableTopic], request: CreateTopicsRequest, context: Context
) -> list[CreatableTopicResult]:
    command = CreateTopics(topics=[_asked(topic) for topic in topics], validate_only=request.validate_only)
    try:
        reply = await context.services.store.submit(command)
    except MetadataError as fault:
        error, message = refused_by(fault)
        return [
            CreatableTopicResult(name=topic.name, error_code=error, error_message=message, configs=[])
            for topic in topics
        ]
    own_configs = {topic.name: {each.name: each.value for each in topic.configs} for topic in topics}
    results = []
    for created in reply.topics:
        result = CreatableTopicResult(
            name=created.name,
            topic_id=created.topic_id,
            error_code=created.error_code,
            error_message=created.error_message,
            num_partitions=created.partition_count,
            replication_factor=created.replication_factor,
            configs=[],
        )
        if not created.error_code and context.version >= VERSION_CONFIGS:
            if context.services.authorizer.restricts and not context.allows(
                DESCRIBE_CONFIGS, TOPIC, created.name, Notes.NONE
            ):
                results.append(_without_configs(result))
                continue
            own = own_configs[created.name]
            live = context.services.live_settings
            result.configs = _configs(live.now, own) if own else live.derived(_inherited_configs)
        results.append(result)
    return results


def _without_configs(result: CreatableTopicResult) -> CreatableTopicResult:
    """For callers who may create the topic, but not see its configuration."""
    result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    result.num_partitions = result.replication_factor = -1
    return result


def _configs(settings: Settings, own: dict[str, str | None]) -> Shared:
    return Shared(
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.config_source,
            is_sensitive=entry.is_sensitive,
        )
        for entry in topic_entries(settings, own)
    )


def _inherited_configs(settings: Settings) -> Shared:
    """The configs of topics without own configs: shared by all of them until the broker's settings change."""
    return _configs(settings, {})


def _asked(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[PartitionReplicas(index=a.partition_index, broker_ids=a.broker_ids) for a in topic.assignments],
        configs=[ConfigValue(key=config.name, value=config.value) for config in topic.configs],
    )
