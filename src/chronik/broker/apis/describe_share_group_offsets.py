"""DescribeShareGroupOffsets (key 90): where share groups begin to read, and their lag.

The share coordinator says where a group is, and how many records behind that it is done with; the rest up to the end of
the partition is its lag. Without topics in the request, the answer has all that the group has state for. What has no
state has start offset -1. v1 tells the lag.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from chronik.broker.api import api
from chronik.broker.authorizer import Notes
from chronik.broker.permissions import DESCRIBE, GROUP, TOPIC
from chronik.broker.share.latest import latest_offsets
from chronik.coordinator.groups.share.requests import is_served
from chronik.coordinator.share.persister import NO_LEADER_EPOCH, UNKNOWN_COUNT, UNKNOWN_OFFSET, ShareSummary
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from chronik.wire.notation import ZERO_UUID

if TYPE_CHECKING:
    from chronik.broker.context import Context

    Wanted = Mapping[bytes, tuple[str, Sequence[int]]]  # by topic id

UNKNOWN_LAG: Final = -1
NO_LEADER_EPOCH_KNOWN: Final = 0  # what Kafka tells of partitions without state


@api(
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    needs=(DESCRIBE.on(GROUP), DESCRIBE.on(TOPIC)),
)
async def describe_share_group_offsets(
    request: DescribeShareGroupOffsetsRequest, context: Context
) -> DescribeShareGroupOffsetsResponse:
    groups = await asyncio.gather(*(_described(asked, context) for asked in request.groups))
    return DescribeShareGroupOffsetsResponse(throttle_time_ms=0, groups=list(groups))


async def _described(
    asked: DescribeShareGroupOffsetsRequestGroup, context: Context
) -> DescribeShareGroupOffsetsResponseGroup:
    group_id = asked.group_id
    if not is_served(context.services.store.image):
        return _refused(group_id, ErrorCode.UNSUPPORTED_VERSION)
    if not context.allows(DESCRIBE, GROUP, group_id):
        return _refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if asked.topics is None:
        known = context.services.groups.share_partitions(group_id)
        if isinstance(known, ErrorCode):
            return _refused(group_id, known)
        hidden = context.denied(DESCRIBE, TOPIC, [each.name for each in known.values()], Notes.NONE)
        wanted = {key: (each.name, sorted(each.partitions)) for key, each in known.items() if each.name not in hidden}
        return _group(group_id, await _topics(group_id, wanted, context))
    denied = context.denied(DESCRIBE, TOPIC, [topic.topic_name for topic in asked.topics])
    named: dict[bytes, tuple[str, Sequence[int]]] = {}
    absent, refused = [], []
    for topic in asked.topics:
        found = context.services.store.image.topic_named(topic.topic_name)
        if topic.topic_name in denied:
            refused.append(_without_offsets(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        elif found is None:
            absent.append(_without_offsets(topic, ErrorCode.NONE))
        else:
            named[found.topic_id] = topic.topic_name, topic.partitions
    return _group(group_id, [*await _topics(group_id, named, context), *absent, *refused])


async def _topics(group_id: str, wanted: Wanted, context: Context) -> list[DescribeShareGroupOffsetsResponseTopic]:
    asked = [(topic_id, index, NO_LEADER_EPOCH) for topic_id, (_, parts) in wanted.items() for index in parts]
    told = await context.services.persister.summaries(group_id, asked)
    begun = {
        place: summary
        for place, summary in told.items()
        if isinstance(summary, ShareSummary)
        and summary.start_offset != UNKNOWN_OFFSET
        and summary.delivery_complete_count != UNKNOWN_COUNT
    }
    ends = await latest_offsets(context.services, begun)
    return [
        DescribeShareGroupOffsetsResponseTopic(
            topic_name=name,
            topic_id=topic_id,
            partitions=[_partition(index, told.get((topic_id, index)), ends.get((topic_id, index))) for index in parts],
        )
        for topic_id, (name, parts) in wanted.items()
    ]


def _partition(
    index: int, told: ShareSummary | ErrorCode | None, end: int | ErrorCode | None
) -> DescribeShareGroupOffsetsResponsePartition:
    """What the share coordinator refuses to tell is told as absent, as in Kafka."""
    if not isinstance(told, ShareSummary):
        return _offsets(index)
    if end is None:
        return _offsets(index, told.start_offset, told.leader_epoch)
    if isinstance(end, ErrorCode):
        return _offsets(index, 0, error=end)
    return _offsets(index, told.start_offset, told.leader_epoch, end - told.start_offset - told.delivery_complete_count)


def _offsets(
    index: int,
    start_offset: int = UNKNOWN_OFFSET,
    leader_epoch: int = NO_LEADER_EPOCH_KNOWN,
    lag: int = UNKNOWN_LAG,
    error: ErrorCode = ErrorCode.NONE,
) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=start_offset,
        leader_epoch=leader_epoch,
        lag=lag,
        error_code=error,
        error_message=None if error is ErrorCode.NONE else error.message,
    )


def _without_offsets(
    topic: DescribeShareGroupOffsetsRequestTopic, error: ErrorCode
) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=ZERO_UUID,
        partitions=[_offsets(index, error=error) for index in topic.partitions],
    )


def _group(
    group_id: str, topics: list[DescribeShareGroupOffsetsResponseTopic]
) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=topics, error_code=ErrorCode.NONE)


def _refused(group_id: str, error: ErrorCode) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id, topics=[], error_code=error, error_message=error.message
    )
