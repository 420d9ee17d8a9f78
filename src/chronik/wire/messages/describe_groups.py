"""DescribeGroups (key 15): state and members of classic groups.

v1 throttle_time_ms; v2 the client waits out throttling; v3 authorized_operations; v4 static members; v5 flexible;
v6 GROUP_ID_NOT_FOUND and error_message.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, binary, boolean, field, int16, int32, string


class DescribeGroupsRequest(Request, api_key=15, versions="0-6", flexible="5+"):
    groups: list[string]
    include_authorized_operations: boolean = field("3+")


class DescribeGroupsResponse(Response, api_key=15, versions="0-6", flexible="5+"):
    throttle_time_ms: int32 = field("1+")
    groups: list[DescribedGroup]


class DescribedGroup(Struct):
    error_code: int16
    error_message: string | None = field("6+", default=None)
    group_id: string
    group_state: string
    protocol_type: string
    protocol_data: string
    members: list[DescribedGroupMember]
    authorized_operations: int32 = field("3+", default=-2147483648)  # the default: not asked for


class DescribedGroupMember(Struct):
    member_id: string
    group_instance_id: string | None = field("4+", default=None)
    client_id: string
    client_host: string
    member_metadata: binary
    member_assignment: binary
