"""LeaveGroup (key 13): members leave: one (v0-v2) or many (v3+). The group coordinator decides."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import GROUP, READ
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(LeaveGroupRequest, LeaveGroupResponse, needs=(READ.on(GROUP),))
def leave_group(
    request: LeaveGroupRequest, context: Context
) -> LeaveGroupResponse | asyncio.Future[LeaveGroupResponse]:
    if not context.allows(READ, GROUP, request.group_id):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, members=[])
    return context.services.groups.leave_group(request, context)
