"""Heartbeat (key 12): keeps a member of a classic group alive, and informs it of a rebalance.

v1 throttle_time_ms; v2 the client waits out throttling; v3 static members; v4 flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, field, int16, int32, string


class HeartbeatRequest(Request, api_key=12, versions="0-4", flexible="4+"):
    group_id: string
    generation_id: int32
    member_id: string
    group_instance_id: string | None = field("3+", default=None)


class HeartbeatResponse(Response, api_key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: int32 = field("1+")
    error_code: int16
