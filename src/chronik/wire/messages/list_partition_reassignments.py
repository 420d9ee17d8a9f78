"""ListPartitionReassignments (key 46): the replica moves in progress.

v0 only, flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, int16, int32, string


class ListPartitionReassignmentsRequest(Request, api_key=46, versions="0", flexible="0+"):
    timeout_ms: int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


class ListPartitionReassignmentsTopics(Struct):
    name: string
    partition_indexes: list[int32]


class ListPartitionReassignmentsResponse(Response, api_key=46, versions="0", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None
    topics: list[OngoingTopicReassignment]


class OngoingTopicReassignment(Struct):
    name: string
    partitions: list[OngoingPartitionReassignment]


class OngoingPartitionReassignment(Struct):
    partition_index: int32
    replicas: list[int32]
    adding_replicas: list[int32]
    removing_replicas: list[int32]
