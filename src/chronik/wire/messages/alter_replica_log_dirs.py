"""AlterReplicaLogDirs (key 34): moves replicas between the log directories of one broker.

v1 the client waits out throttling; v2 flexible.
"""

from __future__ import annotations

from chronik.wire.notation import Request, Response, Struct, int16, int32, string


class AlterReplicaLogDirsRequest(Request, api_key=34, versions="0-2", flexible="2+"):
    dirs: list[AlterReplicaLogDir]


class AlterReplicaLogDir(Struct):
    path: string
    topics: list[AlterReplicaLogDirTopic]


class AlterReplicaLogDirTopic(Struct):
    name: string
    partitions: list[int32]


class AlterReplicaLogDirsResponse(Response, api_key=34, versions="0-2", flexible="2+"):
    throttle_time_ms: int32
    results: list[AlterReplicaLogDirTopicResult]


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: string
    partitions: list[AlterReplicaLogDirPartitionResult]


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int32
    error_code: int16
