"""ShareGroupDescribe (key 77): state and members of share groups.

v0 early access, same bytes; v1 stable. Flexible from the start.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, int16, int32, string, uuid


class ShareGroupDescribeRequest(Request, api_key=77, versions="0-1", flexible="0+"):
    group_ids: list[string]
    include_authorized_operations: boolean


class ShareGroupDescribeResponse(Response, api_key=77, versions="0-1", flexible="0+"):
    throttle_time_ms: int32
    groups: list[DescribedGroup]


class DescribedGroup(Struct):
    error_code: int16
    error_message: string | None = None
    group_id: string
    group_state: string
    group_epoch: int32
    assignment_epoch: int32
    assignor_name: string
    members: list[Member]
    authorized_operations: int32 = -2147483648  # the default: not asked for


class Member(Struct):
    member_id: string
    rack_id: string | None = None
    member_epoch: int32
    client_id: string
    client_host: string
    subscribed_topic_names: list[string]
    assignment: Assignment


class Assignment(Struct):
    topic_partitions: list[TopicPartitions]


class TopicPartitions(Struct):
    topic_id: uuid
    topic_name: string
    partitions: list[int32]
