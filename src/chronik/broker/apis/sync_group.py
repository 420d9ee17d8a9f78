"""SyncGroup (key 14): the group leader submits the assignment; each member receives its part."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import GROUP, READ
from chronik.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(SyncGroupRequest, SyncGroupResponse, needs=(READ.on(GROUP),))
def sync_group(request: SyncGroupRequest, context: Context) -> SyncGroupResponse | asyncio.Future[SyncGroupResponse]:
    return context.services.groups.sync_group(request, context)
