"""DeleteShareGroupOffsets (key 92): forgets where a share group without members is in some topics.

The group coordinator decides. A member that subscribes to such a topic later begins as in a new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import DELETE, GROUP, READ, TOPIC
from chronik.coordinator.groups.share.administration import delete_refused
from chronik.coordinator.groups.share.requests import is_served
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from chronik.wire.notation import ZERO_UUID

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse, needs=(DELETE.on(GROUP), READ.on(TOPIC)))
async def delete_share_group_offsets(
    request: DeleteShareGroupOffsetsRequest, context: Context
) -> DeleteShareGroupOffsetsResponse:
    if not is_served(context.services.store.image):
        return delete_refused(ErrorCode.UNSUPPORTED_VERSION)
    if not context.allows(DELETE, GROUP, request.group_id):
        return delete_refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    denied = context.denied(READ, TOPIC, [topic.topic_name for topic in request.topics])
    allowed = [topic for topic in request.topics if topic.topic_name not in denied]
    answer = await context.services.groups.delete_share_group_offsets(
        DeleteShareGroupOffsetsRequest(group_id=request.group_id, topics=allowed)
    )
    if not answer.error_code:
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        answer.responses += [
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=name, topic_id=ZERO_UUID, error_code=error, error_message=error.message
            )
            for name in sorted(denied)
        ]
    return answer
