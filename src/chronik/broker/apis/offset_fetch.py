"""OffsetFetch (key 9): returns committed offsets of groups. Topic ids (v10) are resolved here.

Versions: v2 null means all topics; v7 require_stable: refuses offsets that open transactions may change, and requires a
confirmation that this node is still the coordinator; v8 many groups; v9 members are checked; v10 topics by id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from chronik.broker.api import api
from chronik.broker.authorizer import Notes
from chronik.broker.linearizable_reads import reads_metadata
from chronik.broker.permissions import DESCRIBE, GROUP, TOPIC
from chronik.runtime.pieces import Work, each_light
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context

VERSION_GROUP_ERROR, VERSION_MANY_GROUPS, VERSION_TOPIC_IDS = 2, 8, 10
# By group: topics that are not passed to the coordinator, with their errors.
Refused = dict[str, list[tuple[OffsetFetchRequestTopics, ErrorCode]]]


@api(OffsetFetchRequest, OffsetFetchResponse, needs=(DESCRIBE.on(GROUP), DESCRIBE.on(TOPIC)))
def offset_fetch(request: OffsetFetchRequest, context: Context) -> Any:
    """Stable offsets must include every ended transaction. So only the current coordinator may return them: a node that
    cannot exclude that another node has become the coordinator returns NOT_COORDINATOR."""
    return _fetch_confirmed(request, context) if request.require_stable else _fetch(request, context)


def _fetch(
    request: OffsetFetchRequest, context: Context
) -> Work[OffsetFetchResponse | Coroutine[Any, Any, OffsetFetchResponse]]:
    refused: Refused = {}
    if context.version >= VERSION_TOPIC_IDS:
        _name_topics(request, context, refused)
    if context.services.authorizer.restricts:
        return _restricted(request, context, refused)
    fetching = context.services.groups.fetching_offsets(request, context)
    if isinstance(fetching, asyncio.Future):
        return _when_settled(fetching, context, refused)
    return (yield from _answer(fetching, context, refused))


def _not_coordinator(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
    error = ErrorCode.NOT_COORDINATOR  # clients look up the coordinator again
    if context.version < VERSION_MANY_GROUPS:
        return OffsetFetchResponse(error_code=error, topics=[])
    groups = [OffsetFetchResponseGroup(group_id=each.group_id, topics=[], error_code=error) for each in request.groups]
    return OffsetFetchResponse(groups=groups)


_fetch_confirmed = reads_metadata(_fetch, otherwise=_not_coordinator)


async def _when_settled(
    settled: asyncio.Future[Work[OffsetFetchResponse]], context: Context, refused: Refused
) -> OffsetFetchResponse:
    return await context.services.turns.run(_answer(await settled, context, refused))


def _answer(fetching: Work[OffsetFetchResponse], context: Context, refused: Refused) -> Work[OffsetFetchResponse]:
    response = yield from fetching
    if context.version >= VERSION_TOPIC_IDS:
        yield from _give_ids(response, context)
    for group in response.groups:
        for asked, error in refused.get(group.group_id, ()) if not group.error_code else ():
            partitions = yield from each_light(partial(_failed, error), asked.partition_indexes)
            group.topics.append(
                OffsetFetchResponseTopics(name=asked.name, topic_id=asked.topic_id, partitions=partitions)
            )
    return response


def _name_topics(request: OffsetFetchRequest, context: Context, refused: Refused) -> None:
    """Sets every topic's name; removes topics that do not exist."""
    for group in request.groups:
        if group.topics is None:
            continue
        known = []
        for topic in group.topics:
            found = context.services.store.image.topic(topic.topic_id)
            if found is None:
                refused.setdefault(group.group_id, []).append((topic, ErrorCode.UNKNOWN_TOPIC_ID))
            else:
                topic.name = found.name
                known.append(topic)
        group.topics = known


def _give_ids(response: OffsetFetchResponse, context: Context) -> Work[None]:
    for group in response.groups:
        named = []
        for topic in group.topics:
            found = context.services.store.image.topic_named(topic.name)
            if found is not None:  # a deleted topic has no id
                topic.topic_id = found.topic_id
                named.append(topic)
            yield 1
        group.topics = named


def _failed(error: ErrorCode, index: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, metadata="", error_code=error)


# --- callers with restricted permissions


def _restricted(
    request: OffsetFetchRequest, context: Context, refused: Refused
) -> Coroutine[Any, Any, OffsetFetchResponse]:
    """Asks the coordinator for groups and topics that the caller may see. Other topics are omitted if the request is
    for all topics, and get errors if it names them."""
    if context.version < VERSION_MANY_GROUPS:
        return _restricted_one(request, context)
    denied = context.denied(DESCRIBE, GROUP, [group.group_id for group in request.groups])
    hidden = [group.group_id for group in request.groups if group.group_id in denied]
    request.groups = [group for group in request.groups if group.group_id not in denied]
    for group in request.groups:
        unseen = context.denied(DESCRIBE, TOPIC, [topic.name for topic in group.topics or ()])
        for topic in group.topics or ():
            if topic.name in unseen:
                refused.setdefault(group.group_id, []).append((topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        if group.topics is not None:
            group.topics = [topic for topic in group.topics if topic.name not in unseen]
    asks_for_all = {group.group_id for group in request.groups if group.topics is None}
    fetching = context.services.groups.fetching_offsets(request, context)
    return _seen(fetching, context, refused, hidden, asks_for_all)


async def _seen(
    fetching: Work[OffsetFetchResponse] | asyncio.Future[Work[OffsetFetchResponse]],
    context: Context,
    refused: Refused,
    hidden: list[str],
    asks_for_all: set[str],
) -> OffsetFetchResponse:
    work = await fetching if isinstance(fetching, asyncio.Future) else fetching
    response = await context.services.turns.run(_answer(work, context, refused))
    for group in response.groups:
        if group.group_id in asks_for_all:
            unseen = context.denied(DESCRIBE, TOPIC, [topic.name for topic in group.topics], Notes.NONE)
            group.topics = [topic for topic in group.topics if topic.name not in unseen]
    error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    response.groups += [OffsetFetchResponseGroup(group_id=name, topics=[], error_code=error) for name in hidden]
    return response


async def _restricted_one(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
    """For versions with one group. The oldest have no error field for the group."""
    asked = request.topics
    if not context.allows(DESCRIBE, GROUP, request.group_id):
        error = ErrorCode.GROUP_AUTHORIZATION_FAILED
        topics = [_old_topic(topic, error) for topic in asked or ()] if context.version < VERSION_GROUP_ERROR else []
        return OffsetFetchResponse(error_code=error, topics=topics)
    unseen = context.denied(DESCRIBE, TOPIC, [topic.name for topic in asked or ()])
    if asked is not None:
        request.topics = [topic for topic in asked if topic.name not in unseen]
    fetching = context.services.groups.fetching_offsets(request, context)
    response = await context.services.turns.run(await fetching if isinstance(fetching, asyncio.Future) else fetching)
    if asked is None:
        unseen = context.denied(DESCRIBE, TOPIC, [topic.name for topic in response.topics], Notes.NONE)
        response.topics = [topic for topic in response.topics if topic.name not in unseen]
    elif not response.error_code:
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        response.topics += [_old_topic(topic, error) for topic in asked if topic.name in unseen]
    return response


def _old_topic(asked: OffsetFetchRequestTopic, error: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=asked.name,
        partitions=[
            OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, metadata="", error_code=error)
            for index in asked.partition_indexes
        ],
    )
