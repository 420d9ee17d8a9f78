"""ShareGroupHeartbeat (key 76): a member of a share group joins, lives, gets its partitions and leaves.

The group coordinator decides. Served once the cluster's share.version is 1. The member must be allowed to see the
topics that it names. All members together may take a part of the memory budget (COORDINATOR_NOT_AVAILABLE). Version 0,
of Kafka's early access, is not served.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import DESCRIBE, GROUP, READ, TOPIC
from chronik.coordinator.groups.share.requests import is_served, refused
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    needs=(READ.on(GROUP), DESCRIBE.on(TOPIC)),
    versions="1",
)
def share_group_heartbeat(
    request: ShareGroupHeartbeatRequest, context: Context
) -> ShareGroupHeartbeatResponse | asyncio.Future[ShareGroupHeartbeatResponse]:
    if not is_served(context.services.store.image):
        message = "nodes of an older release may be in the cluster: raise share.version to 1 when all are upgraded"
        return refused(ErrorCode.UNSUPPORTED_VERSION, message)
    if not context.allows(READ, GROUP, request.group_id):
        return refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if request.subscribed_topic_names and context.denied(DESCRIBE, TOPIC, request.subscribed_topic_names):
        return refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return context.services.groups.share_group_heartbeat(request, context)
