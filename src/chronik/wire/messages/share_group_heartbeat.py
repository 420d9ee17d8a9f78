"""ShareGroupHeartbeat (key 76): a member of a share group joins, reports, gets its assignment and leaves.

v0 early access, same bytes; v1 stable. Flexible from the start.

In the request, null means unchanged.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, int16, int32, string, uuid


class ShareGroupHeartbeatRequest(Request, api_key=76, versions="0-1", flexible="0+"):
    group_id: string
    member_id: string
    member_epoch: int32  # 0 join, -1 leave
    rack_id: string | None = None
    subscribed_topic_names: list[string] | None = None


class ShareGroupHeartbeatResponse(Response, api_key=76, versions="0-1", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = None
    member_id: string | None = None
    member_epoch: int32
    heartbeat_interval_ms: int32
    assignment: Assignment | None = None


class Assignment(Struct):
    topic_partitions: list[TopicPartitions]


class TopicPartitions(Struct):
    topic_id: uuid
    partitions: list[int32]
