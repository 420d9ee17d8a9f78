"""OffsetDelete (key 47): removes committed offsets of topics that the group does not consume."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(OffsetDeleteRequest, OffsetDeleteResponse)
def offset_delete(
    request: OffsetDeleteRequest, context: Context
) -> OffsetDeleteResponse | asyncio.Future[OffsetDeleteResponse]:
    return context.node.groups.offset_delete(request, context)
