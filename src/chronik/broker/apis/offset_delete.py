"""OffsetDelete (key 47): removes committed offsets of topics that the group does not consume.

Unknown topics and partitions are refused separately; the rest is passed to the group coordinator.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from chronik.broker.api import Later, api
from chronik.broker.permissions import DELETE, GROUP, READ, TOPIC
from chronik.broker.topics import find_topic
from chronik.coordinator.groups.shard import offset_delete_refused
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from chronik.wire.notation import ZERO_UUID

if TYPE_CHECKING:
    from chronik.broker.context import Context

Unknown = dict[str, tuple[list[OffsetDeleteRequestPartition], ErrorCode]]  # by topic


@api(OffsetDeleteRequest, OffsetDeleteResponse, needs=(DELETE.on(GROUP), READ.on(TOPIC)))
def offset_delete(request: OffsetDeleteRequest, context: Context) -> OffsetDeleteResponse | Later:
    if not context.allows(DELETE, GROUP, request.group_id):
        return offset_delete_refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    unknown = Unknown()
    request.topics = [known for topic in request.topics if (known := _known(topic, context, unknown)).partitions]
    answer = context.services.groups.offset_delete(request, context)
    if isinstance(answer, asyncio.Future):
        return Later(answer, lambda done: _with_refusals(done.result(), unknown))
    return _with_refusals(answer, unknown)


def _known(topic: OffsetDeleteRequestTopic, context: Context, unknown: Unknown) -> OffsetDeleteRequestTopic:
    """The existing part of a topic, if the caller may read it. The rest is added to `unknown`."""
    if not context.allows(READ, TOPIC, topic.name):
        unknown[topic.name] = topic.partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return OffsetDeleteRequestTopic(name=topic.name, partitions=[])
    found = find_topic(context.services, topic.name, ZERO_UUID)
    count = 0 if isinstance(found, ErrorCode) else len(found.partitions)
    kept = [partition for partition in topic.partitions if 0 <= partition.partition_index < count]
    if len(kept) < len(topic.partitions):
        rest = [each for each in topic.partitions if not 0 <= each.partition_index < count]
        unknown[topic.name] = rest, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return OffsetDeleteRequestTopic(name=topic.name, partitions=kept)


def _with_refusals(answer: OffsetDeleteResponse, unknown: Unknown) -> OffsetDeleteResponse:
    """A response with a top-level error lists no partitions."""
    if answer.error_code:
        return answer
    answered = {topic.name: topic for topic in answer.topics}
    for name, (partitions, error) in unknown.items():
        if name not in answered:
            answered[name] = OffsetDeleteResponseTopic(name=name, partitions=[])
            answer.topics.append(answered[name])
        answered[name].partitions += [
            OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=error) for each in partitions
        ]
    return answer
