"""ConsumerGroupHeartbeat (key 68): a member of a consumer group joins, reports, gets its assignment and leaves.

v1 subscribed_topic_regex, and the member chooses its own member_id. Flexible from the start.

In the request, null and -1 mean unchanged.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, field, int16, int32, string, uuid


class ConsumerGroupHeartbeatRequest(Request, api_key=68, versions="0-1", flexible="0+"):
    group_id: string
    member_id: string
    member_epoch: int32  # 0 join, -1 leave, -2 leave for a while (static)
    instance_id: string | None = None
    rack_id: string | None = None
    rebalance_timeout_ms: int32 = -1
    subscribed_topic_names: list[string] | None = None
    subscribed_topic_regex: string | None = field("1+", default=None)
    server_assignor: string | None = None
    topic_partitions: list[TopicPartitions] | None = None


class TopicPartitions(Struct):
    topic_id: uuid
    partitions: list[int32]


class ConsumerGroupHeartbeatResponse(Response, api_key=68, versions="0-1", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = None
    member_id: string | None = None
    member_epoch: int32
    heartbeat_interval_ms: int32
    assignment: Assignment | None = None


class Assignment(Struct):
    topic_partitions: list[TopicPartitions]
