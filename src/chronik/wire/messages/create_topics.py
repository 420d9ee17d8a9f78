"""CreateTopics (key 19): creates topics.

v1 validate_only, error_message; v2 throttle_time_ms; v3 the client waits out throttling; v4 num_partitions and
replication_factor -1 take the broker's default; v5 flexible, answers partitions, replicas and configs;
v6 THROTTLING_QUOTA_EXCEEDED; v7 topic_id.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, field, int8, int16, int32, string, uuid


class CreateTopicsRequest(Request, api_key=19, versions="0-7", flexible="5+"):
    topics: list[CreatableTopic]
    timeout_ms: int32 = 60000
    validate_only: boolean = field("1+")


class CreatableTopic(Struct):
    name: string
    num_partitions: int32  # -1 the default
    replication_factor: int16  # -1 the default
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


class CreatableReplicaAssignment(Struct):
    partition_index: int32
    broker_ids: list[int32]


class CreatableTopicConfig(Struct):
    name: string
    value: string | None


class CreateTopicsResponse(Response, api_key=19, versions="0-7", flexible="5+"):
    throttle_time_ms: int32 = field("2+")
    topics: list[CreatableTopicResult]


class CreatableTopicResult(Struct):
    name: string
    topic_id: uuid = field("7+")
    error_code: int16
    error_message: string | None = field("1+")
    topic_config_error_code: int16 = field("5+", tag=0)
    num_partitions: int32 = field("5+", default=-1)
    replication_factor: int16 = field("5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = field("5+")


class CreatableTopicConfigs(Struct, shared=True):
    name: string
    value: string | None
    read_only: boolean
    config_source: int8 = -1
    is_sensitive: boolean
