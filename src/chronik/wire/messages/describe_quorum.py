"""DescribeQuorum (key 55): voters and observers of the metadata quorum, and their progress.

v1 fetch and caught-up times; v2 directory ids, nodes and error messages. Flexible from the start.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, field, int16, int32, int64, string, uint16, uuid


class DescribeQuorumRequest(Request, api_key=55, versions="0-2", flexible="0+"):
    topics: list[DescribeQuorumRequestTopic]


class DescribeQuorumRequestTopic(Struct):
    topic_name: string
    partitions: list[DescribeQuorumRequestPartition]


class DescribeQuorumRequestPartition(Struct):
    partition_index: int32


class DescribeQuorumResponse(Response, api_key=55, versions="0-2", flexible="0+"):
    error_code: int16
    error_message: string | None = field("2+")
    topics: list[DescribeQuorumResponseTopic]
    nodes: list[Node] = field("2+")


class DescribeQuorumResponseTopic(Struct):
    topic_name: string
    partitions: list[DescribeQuorumResponsePartition]


class DescribeQuorumResponsePartition(Struct):
    partition_index: int32
    error_code: int16
    error_message: string | None = field("2+")
    leader_id: int32
    leader_epoch: int32
    high_watermark: int64
    current_voters: list[ReplicaState]
    observers: list[ReplicaState]


class ReplicaState(Struct):
    replica_id: int32
    replica_directory_id: uuid = field("2+")
    log_end_offset: int64
    last_fetch_timestamp: int64 = field("1+", default=-1)
    last_caught_up_timestamp: int64 = field("1+", default=-1)


class Node(Struct):
    node_id: int32
    listeners: list[Listener]


class Listener(Struct):
    name: string
    host: string
    port: uint16
