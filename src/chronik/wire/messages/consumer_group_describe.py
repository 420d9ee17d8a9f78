"""ConsumerGroupDescribe (key 69): state and members of consumer groups.

v1 member_type. Flexible from the start.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, field, int8, int16, int32, string, uuid


class ConsumerGroupDescribeRequest(Request, api_key=69, versions="0-1", flexible="0+"):
    group_ids: list[string]
    include_authorized_operations: boolean


class ConsumerGroupDescribeResponse(Response, api_key=69, versions="0-1", flexible="0+"):
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
    instance_id: string | None = None
    rack_id: string | None = None
    member_epoch: int32
    client_id: string
    client_host: string
    subscribed_topic_names: list[string]
    subscribed_topic_regex: string | None = None
    assignment: Assignment
    target_assignment: Assignment
    member_type: int8 = field("1+", default=-1)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions]


class TopicPartitions(Struct):
    topic_id: uuid
    topic_name: string
    partitions: list[int32]
