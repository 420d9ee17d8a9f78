"""AlterShareGroupOffsets (key 91): sets where a share group without members begins to read. The coordinator decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import GROUP, READ, TOPIC
from chronik.coordinator.groups.share.administration import alter_refused
from chronik.coordinator.groups.share.requests import is_served
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from chronik.wire.notation import ZERO_UUID

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, needs=(READ.on(GROUP), READ.on(TOPIC)))
async def alter_share_group_offsets(
    request: AlterShareGroupOffsetsRequest, context: Context
) -> AlterShareGroupOffsetsResponse:
    if not is_served(context.services.store.image):
        return alter_refused(ErrorCode.UNSUPPORTED_VERSION)
    if not context.allows(READ, GROUP, request.group_id):
        return alter_refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    denied = context.denied(READ, TOPIC, [topic.topic_name for topic in request.topics])
    allowed = [topic for topic in request.topics if topic.topic_name not in denied]
    answer = await context.services.groups.alter_share_group_offsets(
        AlterShareGroupOffsetsRequest(group_id=request.group_id, topics=allowed)
    )
    if not answer.error_code:
        answer.responses += [_denied(topic) for topic in request.topics if topic.topic_name in denied]
    return answer


def _denied(topic: AlterShareGroupOffsetsRequestTopic) -> AlterShareGroupOffsetsResponseTopic:
    error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=ZERO_UUID,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(
                partition_index=each.partition_index, error_code=error, error_message=error.message
            )
            for each in topic.partitions
        ],
    )
