"""Metadata (key 3): brokers, topics and the leader of each partition.

v0 an empty list requests all topics, from v1 null does and empty requests none; v1 rack, controller_id, is_internal;
v2 cluster_id; v3 throttle_time_ms; v4 allow_auto_topic_creation; v5 offline_replicas; v6 the client waits out
throttling; v7 leader_epoch; v8 authorized operations; v9 flexible; v10 topic_id, not yet for lookup; v11 no operations
of the cluster; v12 lookup by topic_id; v13 error_code of the whole.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, boolean, field, int16, int32, string, uuid


class MetadataRequest(Request, api_key=3, versions="0-13", flexible="9+"):
    topics: list[MetadataRequestTopic] | None = field(nullable="1+")
    allow_auto_topic_creation: boolean = field("4+", default=True)
    include_cluster_authorized_operations: boolean = field("8-10")
    include_topic_authorized_operations: boolean = field("8+")


class MetadataRequestTopic(Struct):
    topic_id: uuid = field("10+")
    name: string | None = field(nullable="10+")


class MetadataResponse(Response, api_key=3, versions="0-13", flexible="9+"):
    throttle_time_ms: int32 = field("3+")
    brokers: list[MetadataResponseBroker]
    cluster_id: string | None = field("2+", default=None)
    controller_id: int32 = field("1+", default=-1)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: int32 = field("8-10", default=-2147483648)  # the default: not asked for
    error_code: int16 = field("13+")


class MetadataResponseBroker(Struct):
    node_id: int32
    host: string
    port: int32
    rack: string | None = field("1+", default=None)


class MetadataResponseTopic(Struct):
    error_code: int16
    name: string | None = field(nullable="12+")
    topic_id: uuid = field("10+")
    is_internal: boolean = field("1+")
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: int32 = field("8+", default=-2147483648)  # the default: not asked for


class MetadataResponsePartition(Struct, shared=True):
    error_code: int16
    partition_index: int32
    leader_id: int32
    leader_epoch: int32 = field("7+", default=-1)
    replica_nodes: list[int32]
    isr_nodes: list[int32]
    offline_replicas: list[int32] = field("5+")
