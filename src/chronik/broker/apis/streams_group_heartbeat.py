"""StreamsGroupHeartbeat (key 88): a member of a streams group joins, lives, gets its tasks and leaves.

The group coordinator decides. Served once the cluster's streams.version is 1. The member must be allowed to see all
topics of its topology. Internal topics that are missing are created with the member's permissions, before it is
answered; what stands in the way is part of the answer. All members together may take a part of the memory budget
(COORDINATOR_NOT_AVAILABLE).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.authorizer import Notes
from chronik.broker.coordinators import INTERNAL
from chronik.broker.creation import TOPICS_PER_COMMAND
from chronik.broker.permissions import CLUSTER, CREATE, DESCRIBE, GROUP, READ, TOPIC
from chronik.broker.quotas.mutations import MESSAGE, within_quota
from chronik.coordinator.groups.streams.requests import is_served, refused
from chronik.coordinator.groups.streams.topology import InternalTopic, StatusCode
from chronik.metadata.commands.create_topics import ConfigValue, CreateTopics, NewTopic, why_not_a_topic_name
from chronik.metadata.errors import MetadataError
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context
    from chronik.coordinator.groups.coordinator import StreamsAnswer

HARMLESS = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)  # another member was faster
NAMES_MAX = 3  # of topics that could not be created, in a status


@api(
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    needs=(
        READ.on(GROUP),
        DESCRIBE.on(TOPIC),
        CREATE.on(CLUSTER, "internal topics"),
        CREATE.on(TOPIC, "internal topics, instead"),
    ),
)
async def streams_group_heartbeat(
    request: StreamsGroupHeartbeatRequest, context: Context
) -> StreamsGroupHeartbeatResponse:
    if not is_served(context.services.store.image):
        message = "nodes of an older release may be in the cluster: raise streams.version to 1 when all are upgraded"
        return refused(ErrorCode.UNSUPPORTED_VERSION, message)
    if not context.allows(READ, GROUP, request.group_id):
        return refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if request.topology is not None:
        names = _topics_of(request.topology)
        for name in names:
            reason = "it belongs to Kafka" if name in INTERNAL else why_not_a_topic_name(name)
            if reason:
                return refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"topic {name!r} cannot be in a topology: {reason}")
        if context.denied(DESCRIBE, TOPIC, names):
            return refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    found = context.services.groups.streams_group_heartbeat(request, context)
    answer: StreamsAnswer = await found if isinstance(found, asyncio.Future) else found
    if answer.missing:
        _tell(answer.response, await _create(answer.missing, context))
    return answer.response


def _topics_of(topology: Topology) -> list[str]:
    names: dict[str, None] = {}
    for each in topology.subtopologies:
        names.update(dict.fromkeys((*each.source_topics, *each.repartition_sink_topics)))
        names.update(dict.fromkeys(topic.name for topic in each.repartition_source_topics))
        names.update(dict.fromkeys(topic.name for topic in each.state_changelog_topics))
    return list(names)


async def _create(missing: Sequence[InternalTopic], context: Context) -> str:
    """What stood in the way; nothing if all are there now."""
    if not context.allows_on_cluster(CREATE, Notes.ALLOWED):
        denied = context.denied(CREATE, TOPIC, [each.name for each in missing])
        if denied:
            return f"; Unauthorized to CREATE on topics {', '.join(sorted(denied))}."
    failed: list[str] = []
    if context.services.quotas.restricts:
        missing, refused = within_quota(context, missing, lambda topic: topic.partition_count, refuses_since=0)
        failed += [f"{each.name} ({MESSAGE})" for each in refused]
    for start in range(0, len(missing), TOPICS_PER_COMMAND):
        some = missing[start : start + TOPICS_PER_COMMAND]
        try:
            reply = await context.services.store.submit(CreateTopics(topics=[_new_topic(each) for each in some]))
        except MetadataError as fault:
            failed.append(f"{some[0].name} ({fault})")
            break
        failed += [f"{each.name} ({each.error_message})" for each in reply.topics if each.error_code not in HARMLESS]
    if not failed:
        return ""
    more = f" and {len(failed) - NAMES_MAX} more" if len(failed) > NAMES_MAX else ""
    return f"; Creation failed: {', '.join(failed[:NAMES_MAX])}{more}."


def _new_topic(missing: InternalTopic) -> NewTopic:
    return NewTopic(
        name=missing.name,
        partition_count=missing.partition_count,
        replication_factor=missing.replication_factor or -1,
        configs=[ConfigValue(key=key, value=value) for key, value in missing.configs],
    )


def _tell(response: StreamsGroupHeartbeatResponse, trouble: str) -> None:
    for status in response.status or ():
        if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
            status.status_detail += trouble
