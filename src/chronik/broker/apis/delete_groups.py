"""DeleteGroups (key 42): removes groups without members, with their offsets. The group coordinator decides."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(DeleteGroupsRequest, DeleteGroupsResponse)
def delete_groups(
    request: DeleteGroupsRequest, context: Context
) -> DeleteGroupsResponse | asyncio.Future[DeleteGroupsResponse]:
    return context.node.groups.delete_groups(request, context)
