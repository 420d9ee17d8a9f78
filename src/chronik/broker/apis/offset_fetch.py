"""OffsetFetch (key 9): how far groups have read. The group coordinator answers; topic ids (v10) are looked up here.

Versions: v2 null means all topics; v7 require_stable waits for commits under way; v8 many groups; v9 members are
checked; v10 topics by id.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from chronik.broker.api import Later, api
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context

VERSION_TOPIC_IDS = 10
Unknown = dict[str, list[OffsetFetchRequestTopics]]  # by group


@api(OffsetFetchRequest, OffsetFetchResponse)
def offset_fetch(
    request: OffsetFetchRequest, context: Context
) -> OffsetFetchResponse | asyncio.Future[OffsetFetchResponse] | Later:
    if context.version < VERSION_TOPIC_IDS:
        return context.node.groups.offset_fetch(request, context)
    unknown = _name_topics(request, context)
    answer = context.node.groups.offset_fetch(request, context)
    if isinstance(answer, asyncio.Future):
        return Later(answer, lambda done: _with_ids(done.result(), context, unknown))
    return _with_ids(answer, context, unknown)


def _name_topics(request: OffsetFetchRequest, context: Context) -> Unknown:
    """Gives every topic its name; takes out and returns those that do not exist."""
    unknown: Unknown = {}
    for group in request.groups:
        if group.topics is None:
            continue
        known = []
        for topic in group.topics:
            found = context.node.store.image.topic(topic.topic_id)
            if found is None:
                unknown.setdefault(group.group_id, []).append(topic)
            else:
                topic.name = found.name
                known.append(topic)
        group.topics = known
    return unknown


def _with_ids(response: OffsetFetchResponse, context: Context, unknown: Unknown) -> OffsetFetchResponse:
    for group in response.groups:
        named = []
        for topic in group.topics:
            found = context.node.store.image.topic_named(topic.name)
            if found is not None:  # a topic that is gone has no id to be named by
                topic.topic_id = found.topic_id
                named.append(topic)
        group.topics = named + [_refused(topic) for topic in unknown.get(group.group_id, ())]
    return response


def _refused(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    partitions = [
        OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=-1, metadata="", error_code=ErrorCode.UNKNOWN_TOPIC_ID
        )
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=partitions)
