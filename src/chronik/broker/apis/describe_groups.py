"""DescribeGroups (key 15): state, protocol and members of groups. The group coordinator decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import DESCRIBE, GROUP, GROUP_OPERATIONS
from chronik.coordinator.groups.descriptions import described_error
from chronik.runtime.pieces import Work
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(DescribeGroupsRequest, DescribeGroupsResponse, needs=(DESCRIBE.on(GROUP),))
def describe_groups(request: DescribeGroupsRequest, context: Context) -> Work[DescribeGroupsResponse]:
    denied = context.denied(DESCRIBE, GROUP, request.groups)
    if denied:
        request.groups = [group_id for group_id in request.groups if group_id not in denied]
    response = yield from context.services.groups.describing_groups(request, context)
    if request.include_authorized_operations:
        for group in response.groups:
            if not group.error_code:
                group.authorized_operations = context.permitted(GROUP_OPERATIONS, GROUP, group.group_id)
    response.groups += [described_error(name, ErrorCode.GROUP_AUTHORIZATION_FAILED) for name in sorted(denied)]
    return response
