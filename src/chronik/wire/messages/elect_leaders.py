"""ElectLeaders (key 43): elects leaders now: the preferred replica, or any when none is in sync.

v1 election_type, error_code of the whole; v2 flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, field, int8, int16, int32, string


class ElectLeadersRequest(Request, api_key=43, versions="0-2", flexible="2+"):
    election_type: int8 = field("1+")  # 0 preferred, 1 unclean
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: int32 = 60000


class TopicPartitions(Struct):
    topic: string
    partitions: list[int32]


class ElectLeadersResponse(Response, api_key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: int32
    error_code: int16 = field("1+")
    replica_election_results: list[ReplicaElectionResult]


class ReplicaElectionResult(Struct):
    topic: string
    partition_result: list[PartitionResult]


class PartitionResult(Struct):
    partition_id: int32
    error_code: int16
    error_message: string | None
