"""LeaveGroup (key 13): leaves a classic group.

v1 throttle_time_ms; v2 the client waits out throttling; v3 many members in one request; v4 flexible; v5 reason.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, field, int16, int32, string


class LeaveGroupRequest(Request, api_key=13, versions="0-5", flexible="4+"):
    group_id: string
    member_id: string = field("0-2")
    members: list[MemberIdentity] = field("3+")


class MemberIdentity(Struct):
    member_id: string
    group_instance_id: string | None = None
    reason: string | None = field("5+", default=None)


class LeaveGroupResponse(Response, api_key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: int32 = field("1+")
    error_code: int16
    members: list[MemberResponse] = field("3+")


class MemberResponse(Struct):
    member_id: string
    group_instance_id: string | None
    error_code: int16
