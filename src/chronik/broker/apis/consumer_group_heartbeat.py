"""ConsumerGroupHeartbeat (key 68): a member of a consumer group joins, stays alive, gets its partitions and leaves.

The group coordinator decides. Served once the cluster's group.version is 1. The member needs permission for the topics
that it names; a regular expression only matches permitted topics. As with JoinGroup, the memory of all members is
limited to a part of the memory budget (COORDINATOR_NOT_AVAILABLE).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.authorizer import Notes
from chronik.broker.permissions import DESCRIBE, GROUP, READ, TOPIC
from chronik.coordinator.groups.consumer.heartbeats import refused
from chronik.coordinator.groups.consumer.requests import CONSUMER_GROUPS_SINCE, GROUP_FEATURE
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, needs=(READ.on(GROUP), DESCRIBE.on(TOPIC)))
def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: Context
) -> ConsumerGroupHeartbeatResponse | asyncio.Future[ConsumerGroupHeartbeatResponse]:
    if context.services.store.image.features.get(GROUP_FEATURE, 0) < CONSUMER_GROUPS_SINCE:
        message = "nodes of an older release may be in the cluster: raise group.version to 1 when all are upgraded"
        return refused(ErrorCode.UNSUPPORTED_VERSION, message)
    if not context.allows(READ, GROUP, request.group_id):
        return refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if request.subscribed_topic_names and context.denied(DESCRIBE, TOPIC, request.subscribed_topic_names):
        return refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def visible(names: Collection[str]) -> Collection[str]:
        return set(names).difference(context.denied(DESCRIBE, TOPIC, names, Notes.NONE))

    return context.services.groups.consumer_group_heartbeat(request, context, visible)
