"""ShareGroupDescribe (key 77): state, epochs and members of share groups. The group coordinator decides.

A group with a topic that the caller may not see is told as an error: a member without its topics would look idle.
Version 0, of Kafka's early access, is not served.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.authorizer import Notes
from chronik.broker.permissions import DESCRIBE, GROUP, GROUP_OPERATIONS, TOPIC
from chronik.coordinator.groups.share.describing import not_described
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    needs=(DESCRIBE.on(GROUP), DESCRIBE.on(TOPIC)),
    versions="1",
)
async def share_group_describe(request: ShareGroupDescribeRequest, context: Context) -> ShareGroupDescribeResponse:
    groups: list[DescribedGroup] = []
    hidden = []
    for group_id in request.group_ids:
        if not context.allows(DESCRIBE, GROUP, group_id):
            hidden.append(not_described(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED))
            continue
        answer = context.services.groups.share_group_describe(group_id)
        group = await answer if isinstance(answer, asyncio.Future) else answer
        if not group.error_code:
            group = _seen(group, context)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = context.permitted(GROUP_OPERATIONS, GROUP, group_id)
        groups.append(group)
    return ShareGroupDescribeResponse(throttle_time_ms=0, groups=[*hidden, *groups])


def _seen(group: DescribedGroup, context: Context) -> DescribedGroup:
    names = {name for member in group.members for name in member.subscribed_topic_names}
    names.update(topic.topic_name for member in group.members for topic in member.assignment.topic_partitions)
    if not context.denied(DESCRIBE, TOPIC, names, Notes.NONE):
        return group
    message = "the group has topics that the caller may not see"
    return not_described(group.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, message)
