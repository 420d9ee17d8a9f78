"""Heartbeat (key 12): a member reports that it is alive, and learns whether a rebalance is in progress. The group
coordinator decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import GROUP, READ
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(HeartbeatRequest, HeartbeatResponse, needs=(READ.on(GROUP),))
def heartbeat(request: HeartbeatRequest, context: Context) -> HeartbeatResponse:
    if not context.allows(READ, GROUP, request.group_id):
        return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return context.services.groups.heartbeat(request, context)
