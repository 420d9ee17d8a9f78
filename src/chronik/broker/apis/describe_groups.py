"""DescribeGroups (key 15): state, protocol and members of groups. The group coordinator decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import DESCRIBE, GROUP, GROUP_OPERATIONS
from chronik.runtime.pieces import Work
from chronik.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(DescribeGroupsRequest, DescribeGroupsResponse, needs=(DESCRIBE.on(GROUP),))
def describe_groups(request: DescribeGroupsRequest, context: Context) -> Work[DescribeGroupsResponse]:
    response = yield from context.services.groups.describing_groups(request, context)
    if request.include_authorized_operations:
        for group in response.groups:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return response
