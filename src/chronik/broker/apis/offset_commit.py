"""OffsetCommit (key 8): commits offsets of a group; the response is sent when they are committed.

Unknown topics and partitions are refused separately; the rest is passed to the group coordinator.
Versions: v1 members and generations; v2-v4 retention_time_ms; v6 leader epochs; v7 static members; v10 topics by id.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from chronik.broker.api import Later, api
from chronik.broker.permissions import GROUP, READ, TOPIC
from chronik.broker.topics import find_topic
from chronik.broker.turns import PIECES_FIRST
from chronik.coordinator.groups.offsets import commit_refused
from chronik.runtime.pieces import ITEMS_PER_PIECE, Work, at_once
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context

VERSION_TOPIC_IDS = 10
Refused = dict[tuple[str, bytes, int], ErrorCode]


@api(OffsetCommitRequest, OffsetCommitResponse, needs=(READ.on(GROUP), READ.on(TOPIC)))
def offset_commit(request: OffsetCommitRequest, context: Context) -> Any:
    if not context.allows(READ, GROUP, request.group_id):
        return commit_refused(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if sum([len(topic.partitions) for topic in request.topics]) > PIECES_FIRST:
        return _commit(request, context, is_long=True)
    return at_once(_commit(request, context, is_long=False))


def _commit(request: OffsetCommitRequest, context: Context, *, is_long: bool) -> Work[Any]:
    asked, refused = request.topics, Refused()
    request.topics = []
    for topic in asked:
        known = yield from known_part(topic, context, refused, by_id=context.version >= VERSION_TOPIC_IDS)
        if known.partitions:
            request.topics.append(known)
    if asked and not request.topics:
        return (yield from in_order(asked, refused, OffsetCommitResponse(topics=[])))
    if is_long:
        answer = yield from context.services.groups.committing_offsets(request, context)
    else:
        answer = context.services.groups.offset_commit(request, context)
    if not isinstance(answer, asyncio.Future):
        return (yield from in_order(asked, refused, answer))
    if is_long:
        return _when_durable(answer, asked, refused, context)
    return Later(answer, lambda done: at_once(in_order(asked, refused, done.result())))


async def _when_durable(
    answer: asyncio.Future[OffsetCommitResponse],
    asked: list[OffsetCommitRequestTopic],
    refused: Refused,
    context: Context,
) -> OffsetCommitResponse:
    return await context.services.turns.run(in_order(asked, refused, await answer))


def known_part(
    topic: OffsetCommitRequestTopic, context: Context, refused: Refused, *, by_id: bool
) -> Work[OffsetCommitRequestTopic]:
    """The existing part of a topic, with name and id. The rest is added to `refused`."""
    found = find_topic(context.services, topic.name, topic.topic_id, by_id=by_id)
    if found is not ErrorCode.UNKNOWN_TOPIC_ID:
        name = topic.name if isinstance(found, ErrorCode) else found.name
        found = found if context.allows(READ, TOPIC, name) else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    count = 0 if isinstance(found, ErrorCode) else len(found.partitions)
    error = found if isinstance(found, ErrorCode) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    kept = []
    for number, partition in enumerate(topic.partitions):
        if number % ITEMS_PER_PIECE == ITEMS_PER_PIECE - 1:
            yield 1
        if 0 <= partition.partition_index < count:
            kept.append(partition)
        else:
            refused[topic.name, topic.topic_id, partition.partition_index] = error
    name = topic.name if isinstance(found, ErrorCode) else found.name
    return OffsetCommitRequestTopic(name=name, topic_id=topic.topic_id, partitions=kept)


def in_order(
    asked: list[OffsetCommitRequestTopic], refused: Refused, answer: OffsetCommitResponse
) -> Work[OffsetCommitResponse]:
    """The coordinator's results and the refusals, in the order of the request."""
    codes: dict[tuple[str | bytes, int], int] = {}
    for answered in answer.topics:
        for number, each in enumerate(answered.partitions):
            if number % ITEMS_PER_PIECE == ITEMS_PER_PIECE - 1:
                yield 1
            codes[answered.topic_id, each.partition_index] = each.error_code
            codes[answered.name, each.partition_index] = each.error_code
    topics = []
    for topic in asked:
        results = []
        for number, partition in enumerate(topic.partitions):
            if number % ITEMS_PER_PIECE == ITEMS_PER_PIECE - 1:
                yield 1
            index = partition.partition_index
            error: int | None = refused.get((topic.name, topic.topic_id, index))
            if error is None:
                error = codes[topic.name or topic.topic_id, index]
            results.append(OffsetCommitResponsePartition(partition_index=index, error_code=error))
        topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=results))
    return OffsetCommitResponse(topics=topics, throttle_time_ms=answer.throttle_time_ms)
