"""SyncGroup (key 14): the leader of a classic group submits the assignments, every member receives its own.

v1 throttle_time_ms; v2 the client waits out throttling; v3 static members; v4 flexible; v5 protocol_type and
protocol_name.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, binary, field, int16, int32, string


class SyncGroupRequest(Request, api_key=14, versions="0-5", flexible="4+"):
    group_id: string
    generation_id: int32
    member_id: string
    group_instance_id: string | None = field("3+", default=None)
    protocol_type: string | None = field("5+", default=None)
    protocol_name: string | None = field("5+", default=None)
    assignments: list[SyncGroupRequestAssignment]


class SyncGroupRequestAssignment(Struct):
    member_id: string
    assignment: binary


class SyncGroupResponse(Response, api_key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: int32 = field("1+")
    error_code: int16
    protocol_type: string | None = field("5+", default=None)
    protocol_name: string | None = field("5+", default=None)
    assignment: binary
