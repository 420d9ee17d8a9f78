"""JoinGroup (key 11): adds a member to a group, or renews its membership.

The group coordinator decides, and responds at the end of the join phase.

The coordinator keeps the members' data in memory. So a member may send 1 MiB (MESSAGE_TOO_LARGE), and all members
together are limited to a part of the memory budget (COORDINATOR_NOT_AVAILABLE; clients retry).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import GROUP, READ
from chronik.coordinator.groups.classic.members import join_error
from chronik.coordinator.groups.coordinator import NULLABLE_PROTOCOL_SINCE
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(JoinGroupRequest, JoinGroupResponse, needs=(READ.on(GROUP),))
def join_group(request: JoinGroupRequest, context: Context) -> JoinGroupResponse | asyncio.Future[JoinGroupResponse]:
    if not context.allows(READ, GROUP, request.group_id):
        denied = join_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        denied.protocol_name = None if context.version >= NULLABLE_PROTOCOL_SINCE else ""
        return denied
    return context.services.groups.join_group(request, context)
