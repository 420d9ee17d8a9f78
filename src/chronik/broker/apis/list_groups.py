"""ListGroups (key 16): the groups that this node coordinates, by state (v4+) and type (v5+)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.authorizer import Notes
from chronik.broker.permissions import CLUSTER, DESCRIBE, GROUP
from chronik.runtime.pieces import Work
from chronik.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(ListGroupsRequest, ListGroupsResponse, needs=(DESCRIBE.on(CLUSTER), DESCRIBE.on(GROUP, "each, instead")))
def list_groups(request: ListGroupsRequest, context: Context) -> Work[ListGroupsResponse]:
    response = yield from context.services.groups.listing_groups(request, context)
    if not context.allows_on_cluster(DESCRIBE, Notes.NONE):
        denied = context.denied(DESCRIBE, GROUP, [group.group_id for group in response.groups], Notes.NONE)
        response.groups = [group for group in response.groups if group.group_id not in denied]
    return response
