"""SyncGroup (key 14): the group leader submits the assignment; each member receives its part."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import GROUP, READ
from chronik.coordinator.groups.classic.members import sync_error
from chronik.coordinator.groups.coordinator import PROTOCOL_REQUIRED_SINCE
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(SyncGroupRequest, SyncGroupResponse, needs=(READ.on(GROUP),))
def sync_group(request: SyncGroupRequest, context: Context) -> SyncGroupResponse | asyncio.Future[SyncGroupResponse]:
    protocol = request.protocol_type, request.protocol_name
    is_complete = context.version < PROTOCOL_REQUIRED_SINCE or None not in protocol
    if is_complete and not context.allows(READ, GROUP, request.group_id):
        return sync_error(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return context.services.groups.sync_group(request, context)
