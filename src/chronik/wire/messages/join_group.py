"""JoinGroup (key 11): joins a classic group; answered when the join round ends.

v1 rebalance_timeout_ms; v2 throttle_time_ms; v3 the client waits out throttling; v4 a first join gets a member_id and
must be repeated with it; v5 static members; v6 flexible; v7 protocol_type, protocol_name may be null; v8 reason;
v9 skip_assignment.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, binary, boolean, field, int16, int32, string


class JoinGroupRequest(Request, api_key=11, versions="0-9", flexible="6+"):
    group_id: string
    session_timeout_ms: int32
    rebalance_timeout_ms: int32 = field("1+", default=-1)  # -1: as session_timeout_ms
    member_id: string
    group_instance_id: string | None = field("5+", default=None)
    protocol_type: string
    protocols: list[JoinGroupRequestProtocol]
    reason: string | None = field("8+", default=None)


class JoinGroupRequestProtocol(Struct):
    name: string
    metadata: binary


class JoinGroupResponse(Response, api_key=11, versions="0-9", flexible="6+"):
    throttle_time_ms: int32 = field("2+")
    error_code: int16
    generation_id: int32 = -1
    protocol_type: string | None = field("7+", default=None)
    protocol_name: string | None = field(nullable="7+")
    leader: string
    skip_assignment: boolean = field("9+")
    member_id: string
    members: list[JoinGroupResponseMember]


class JoinGroupResponseMember(Struct):
    member_id: string
    group_instance_id: string | None = field("5+", default=None)
    metadata: binary
