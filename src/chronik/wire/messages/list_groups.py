"""ListGroups (key 16): the groups this broker coordinates.

v1 throttle_time_ms; v2 the client waits out throttling; v3 flexible; v4 states; v5 types.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, field, int16, int32, string


class ListGroupsRequest(Request, api_key=16, versions="0-5", flexible="3+"):
    states_filter: list[string] = field("4+")
    types_filter: list[string] = field("5+")


class ListGroupsResponse(Response, api_key=16, versions="0-5", flexible="3+"):
    throttle_time_ms: int32 = field("1+")
    error_code: int16
    groups: list[ListedGroup]


class ListedGroup(Struct):
    group_id: string
    protocol_type: string
    group_state: string = field("4+")
    group_type: string = field("5+")
