"""OffsetFetch (key 9): returns committed offsets of groups. Topic ids (v10) are resolved here.

Versions: v2 null means all topics; v7 require_stable waits for commits under way; v8 many groups; v9 members are
checked; v10 topics by id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from chronik.broker.api import api
from chronik.broker.permissions import DESCRIBE, GROUP, TOPIC
from chronik.runtime.pieces import Work, each_light
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


@api(OffsetFetchRequest, OffsetFetchResponse, needs=(DESCRIBE.on(GROUP), DESCRIBE.on(TOPIC)))
def offset_fetch(
    request: OffsetFetchRequest, context: Context
) -> Work[OffsetFetchResponse | Coroutine[Any, Any, OffsetFetchResponse]]:
    unknown = _name_topics(request, context) if context.version >= VERSION_TOPIC_IDS else {}
    fetching = context.services.groups.fetching_offsets(request, context)
    if isinstance(fetching, asyncio.Future):
        return _when_settled(fetching, context, unknown)
    return (yield from _answer(fetching, context, unknown))


async def _when_settled(
    settled: asyncio.Future[Work[OffsetFetchResponse]], context: Context, unknown: Unknown
) -> OffsetFetchResponse:
    return await context.services.turns.run(_answer(await settled, context, unknown))


def _answer(fetching: Work[OffsetFetchResponse], context: Context, unknown: Unknown) -> Work[OffsetFetchResponse]:
    response = yield from fetching
    if context.version >= VERSION_TOPIC_IDS:
        yield from _give_ids(response, context, unknown)
    return response


def _name_topics(request: OffsetFetchRequest, context: Context) -> Unknown:
    """Gives every topic its name; takes out and returns those that do not exist."""
    unknown: Unknown = {}
    for group in request.groups:
        if group.topics is None:
            continue
        known = []
        for topic in group.topics:
            found = context.services.store.image.topic(topic.topic_id)
            if found is None:
                unknown.setdefault(group.group_id, []).append(topic)
            else:
                topic.name = found.name
                known.append(topic)
        group.topics = known
    return unknown


def _give_ids(response: OffsetFetchResponse, context: Context, unknown: Unknown) -> Work[None]:
    for group in response.groups:
        named = []
        for topic in group.topics:
            found = context.services.store.image.topic_named(topic.name)
            if found is not None:  # a topic that is gone has no id to be named by
                topic.topic_id = found.topic_id
                named.append(topic)
            yield 1
        group.topics = named
        for asked in unknown.get(group.group_id, ()):
            partitions = yield from each_light(_refused, asked.partition_indexes)
            group.topics.append(OffsetFetchResponseTopics(topic_id=asked.topic_id, partitions=partitions))


def _refused(index: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=-1, metadata="", error_code=ErrorCode.UNKNOWN_TOPIC_ID
    )
