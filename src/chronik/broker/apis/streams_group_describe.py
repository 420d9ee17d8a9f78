"""StreamsGroupDescribe (key 89): state, topology and members of streams groups. The group coordinator decides.

A group with a topic that the caller may not see is told as an error: a topology without it would look complete.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.authorizer import Notes
from chronik.broker.permissions import DESCRIBE, GROUP, GROUP_OPERATIONS, TOPIC
from chronik.coordinator.groups.streams.describing import not_described
from chronik.coordinator.groups.streams.requests import is_served
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(StreamsGroupDescribeRequest, StreamsGroupDescribeResponse, needs=(DESCRIBE.on(GROUP), DESCRIBE.on(TOPIC)))
async def streams_group_describe(
    request: StreamsGroupDescribeRequest, context: Context
) -> StreamsGroupDescribeResponse:
    groups: list[DescribedGroup] = []
    hidden = []
    if not is_served(context.services.store.image):
        groups = [not_described(group_id, ErrorCode.UNSUPPORTED_VERSION) for group_id in request.group_ids]
        return StreamsGroupDescribeResponse(throttle_time_ms=0, groups=groups)
    for group_id in request.group_ids:
        if not context.allows(DESCRIBE, GROUP, group_id):
            hidden.append(not_described(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
            continue
        answer = context.services.groups.streams_group_describe(group_id)
        group = await answer if isinstance(answer, asyncio.Future) else answer
        if not group.error_code:
            group = _seen(group, context)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = context.permitted(GROUP_OPERATIONS, GROUP, group_id)
        groups.append(group)
    return StreamsGroupDescribeResponse(throttle_time_ms=0, groups=[*hidden, *groups])


def _seen(group: DescribedGroup, context: Context) -> DescribedGroup:
    names: set[str] = set()
    for each in (group.topology and group.topology.subtopologies) or ():
        names.update((*each.source_topics, *each.repartition_sink_topics))
        names.update(topic.name for topic in (*each.repartition_source_topics, *each.state_changelog_topics))
    if not context.denied(DESCRIBE, TOPIC, names, Notes.NONE):
        return group
    message = "the group has topics that the caller may not see"
    return not_described(group.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, message)
