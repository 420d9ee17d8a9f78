"""DescribeLogDirs (key 35): returns the size of each partition on disk, and the free space.

Versions: v3 top-level error; v4 total and usable bytes; v5 is_cordoned (never here).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chronik.broker.api import api
from chronik.broker.permissions import CLUSTER, DESCRIBE
from chronik.runtime.pieces import ITEMS_PER_PIECE, Work
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from chronik.broker.context import Context


@api(DescribeLogDirsRequest, DescribeLogDirsResponse, needs=(DESCRIBE.on(CLUSTER),))
def describe_log_dirs(request: DescribeLogDirsRequest, context: Context) -> Work[DescribeLogDirsResponse]:
    if not context.allows_on_cluster(DESCRIBE):
        return DescribeLogDirsResponse(
            throttle_time_ms=0, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, results=[]
        )
    wanted: dict[str, set[int]] | None = None if request.topics is None else {}
    for asked in request.topics or ():
        wanted.setdefault(asked.topic, set()).update(asked.partitions)  # type: ignore[union-attr]
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for topic in sorted(context.services.store.image.topics.values(), key=lambda each: each.name):
        yield 1 + len(topic.partitions) // (4 * ITEMS_PER_PIECE)
        for index, partition in enumerate(topic.partitions):
            if context.services.node_id not in partition.replicas:
                continue
            if wanted is not None and index not in wanted.get(topic.name, ()):
                continue
            log = context.services.logs.get(topic.topic_id, index)
            yield 1
            topics.setdefault(topic.name, []).append(
                DescribeLogDirsPartition(
                    partition_index=index,
                    partition_size=log.size_bytes if log else 0,
                    offset_lag=0,
                    is_future_key=False,
                )
            )
    directory = context.services.settings.log_dir
    disk = context.services.runtime.disk
    described = DescribeLogDirsResult(
        error_code=0,
        log_dir=directory,
        topics=[DescribeLogDirsTopic(name=name, partitions=found) for name, found in topics.items()],
        total_bytes=disk.total_bytes(directory),
        usable_bytes=disk.free_bytes(directory),
    )
    return DescribeLogDirsResponse(throttle_time_ms=0, results=[described])
