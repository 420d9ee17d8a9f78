"""FindCoordinator (key 10): the broker that coordinates a group, a transactional id or a share partition.

v1 key_type, throttle_time_ms, error_message; v2 the client waits out throttling; v3 flexible; v4 many keys in one
request; v5 TRANSACTION_ABORTABLE; v6 key_type 2.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, field, int8, int16, int32, string


class FindCoordinatorRequest(Request, api_key=10, versions="0-6", flexible="3+"):
    key: string = field("0-3")
    key_type: int8 = field("1+")  # 0 group, 1 transactional id, 2 share partition
    coordinator_keys: list[string] = field("4+")


class FindCoordinatorResponse(Response, api_key=10, versions="0-6", flexible="3+"):
    throttle_time_ms: int32 = field("1+")
    error_code: int16 = field("0-3")
    error_message: string | None = field("1-3")
    node_id: int32 = field("0-3")
    host: string = field("0-3")
    port: int32 = field("0-3")
    coordinators: list[Coordinator] = field("4+")


class Coordinator(Struct):
    key: string
    node_id: int32
    host: string
    port: int32
    error_code: int16
    error_message: string | None
