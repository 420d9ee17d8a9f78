"""DeleteGroups (key 42): removes groups without members, with their offsets. The group coordinator decides."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import DELETE, GROUP
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context

GROUPS_PER_PIECE = 8


@api(DeleteGroupsRequest, DeleteGroupsResponse, needs=(DELETE.on(GROUP),))
async def delete_groups(request: DeleteGroupsRequest, context: Context) -> DeleteGroupsResponse:
    services, denied = context.services, context.denied(DELETE, GROUP, request.groups_names)
    names = [name for name in request.groups_names if name not in denied]
    answers = []
    for start in range(0, len(names), GROUPS_PER_PIECE):
        some = DeleteGroupsRequest(groups_names=names[start : start + GROUPS_PER_PIECE])
        answers.append(services.groups.delete_groups(some, context))
        await services.turns.piece(GROUPS_PER_PIECE)
    results: list[DeletableGroupResult] = []
    for answer in answers:
        deleted = await answer if isinstance(answer, asyncio.Future) else answer
        results += deleted.results
    error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    results += [DeletableGroupResult(group_id=name, error_code=error) for name in sorted(denied)]
    return DeleteGroupsResponse(throttle_time_ms=0, results=results)
