"""AlterReplicaLogDirs (key 34): refused, because a node has one log directory; a machine with several disks runs a node
on each.

A replica's current directory is accepted. Any other gets LOG_DIR_NOT_FOUND.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import ALTER, CLUSTER
from chronik.broker.topics import find_replica
from chronik.runtime.pieces import Work
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, needs=(ALTER.on(CLUSTER),))
def alter_replica_log_dirs(request: AlterReplicaLogDirsRequest, context: Context) -> Work[AlterReplicaLogDirsResponse]:
    is_denied = not context.allows_on_cluster(ALTER)
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                if not is_denied:
                    error = _error(directory.path, topic.name, index, context)
                answer = AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
                results.setdefault(topic.name, []).append(answer)
                yield 1
    return AlterReplicaLogDirsResponse(
        throttle_time_ms=0,
        results=[AlterReplicaLogDirTopicResult(topic_name=name, partitions=found) for name, found in results.items()],
    )


def _error(path: str, name: str, index: int, context: Context) -> ErrorCode:
    services = context.services
    if path.rstrip("/") != services.settings.log_dir.rstrip("/"):
        return ErrorCode.LOG_DIR_NOT_FOUND
    topic = services.store.image.topic_named(name)
    if topic is None or isinstance(find_replica(services, topic, index), ErrorCode):
        return ErrorCode.REPLICA_NOT_AVAILABLE
    return ErrorCode.NONE
