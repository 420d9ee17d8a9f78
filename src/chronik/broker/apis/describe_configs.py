"""DescribeConfigs (key 32): the configuration of topics, brokers, loggers, metric subscriptions and groups.

Versions: v1 synonyms and sources; v3 types and Chronik's documentation. As in Kafka, v0's is_default is always false. A
broker describes itself or, with an empty name, the configs of all brokers; a request for another broker is refused. An
unknown resource type fails the whole request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from chronik.broker import config_entries
from chronik.broker.api import api
from chronik.broker.config_changes import require_allowed
from chronik.broker.config_entries import ConfigEntry, require_name, require_this_broker
from chronik.broker.linearizable_reads import reads_metadata
from chronik.broker.permissions import CLUSTER, DESCRIBE_CONFIGS, GROUP, TOPIC
from chronik.metadata.commands.create_topics import why_not_a_topic_name
from chronik.metadata.errors import MetadataRefused, refuse
from chronik.metadata.image import ResourceType
from chronik.runtime.pieces import Work
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.broker.services import Services
    from chronik.broker.settings import Settings

KINDS = frozenset(ResourceType)
ENTRIES_PER_PIECE = 4


@api(
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    needs=(DESCRIBE_CONFIGS.on(TOPIC), DESCRIBE_CONFIGS.on(CLUSTER, "brokers"), DESCRIBE_CONFIGS.on(GROUP)),
)
@reads_metadata
def describe_configs(request: DescribeConfigsRequest, context: Context) -> Work[DescribeConfigsResponse]:
    strange = [asked.resource_type for asked in request.resources if asked.resource_type not in KINDS]
    results = []
    for asked in request.resources:
        result = DescribeConfigsResult(
            error_code=ErrorCode.NONE,
            error_message="",
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=[],
        )
        try:
            if strange:
                refuse(ErrorCode.INVALID_REQUEST, f"there is no resource type {strange[0]}")
            require_allowed(context, DESCRIBE_CONFIGS, asked.resource_type, asked.resource_name)
            entries = _entries(context.services, asked)
            wanted = asked.configuration_keys and set(asked.configuration_keys)
            result.configs = [_shown(entry, request) for entry in entries if not wanted or entry.name in wanted]
        except MetadataRefused as fault:
            result.error_code, result.error_message = fault.error_code, fault.message
        results.append(result)
        yield 1 + len(result.configs) // ENTRIES_PER_PIECE
    return DescribeConfigsResponse(throttle_time_ms=0, results=results)


def topic_entries(settings: Settings, own: Mapping[str, str | None]) -> list[ConfigEntry]:
    """The configuration of a topic with the configs `own`, as CreateTopics returns it."""
    return config_entries.topic_entries(settings, {key: text for key, text in own.items() if text is not None})


def _entries(services: Services, asked: DescribeConfigsResource) -> list[ConfigEntry]:
    name = asked.resource_name
    own = services.store.image.config(asked.resource_type, name)
    match asked.resource_type:
        case ResourceType.TOPIC:
            if reason := why_not_a_topic_name(name):
                refuse(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
            if services.store.image.topic_named(name) is None:
                refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
            return config_entries.topic_entries(services.settings, own)
        case ResourceType.BROKER if not name:
            return config_entries.cluster_entries(services.settings)
        case ResourceType.BROKER:
            require_this_broker(services.node_id, name)
            return config_entries.broker_entries(services.settings)
        case ResourceType.BROKER_LOGGER:
            require_this_broker(services.node_id, name)
            return config_entries.logger_entries()
        case ResourceType.CLIENT_METRICS:
            require_name(name)
            return config_entries.client_metrics_entries(own)
        case _:
            require_name(name)
            return config_entries.group_entries(services.settings, own)


def _shown(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.config_source,
        is_sensitive=entry.is_sensitive,
        synonyms=[DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source) for each in synonyms],
        config_type=entry.config_type,
        documentation=entry.documentation if request.include_documentation else None,
    )
