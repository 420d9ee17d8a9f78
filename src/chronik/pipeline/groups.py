"""Publishes a streaming query's progress as a consumer group, so that every Kafka tool shows its lag. Never decides
where a query reads.

The group is kafka.group.id, or `spark-<id of the query>`. Committed offsets cover what the query has finished: when
Spark asks for the next batch it passes the end of the last one, which is in the sink by then. (Its own `commit` call
comes one batch later, and never for the last.)

The driver's side of a Python source does not know the id of its query; tasks do. So the first task of a query commits
an introduction: it commits to a group whose name the driver generated, with the id as the text beside the offset. The
driver reads it before its first commit, then deletes that group. A query that ends earlier leaves the group behind; the
query's next run deletes it.

If the cluster refuses commits (an ACL, an unavailable coordinator), only the lag is missing: it is logged once.
"""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Final

from chronik.client.errors import ClientError
from chronik.client.topology import TopicPartition
from chronik.pipeline.cluster import cluster_of
from chronik.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from chronik.pipeline.cluster import BlockingCluster
    from chronik.pipeline.offsets import OffsetRange
    from chronik.pipeline.options import SourceOptions

QUERY_ID: Final = "sql.streaming.queryId"  # the local property that Spark sets for tasks

log = logging.getLogger(__name__)


class QueryGroup:
    """The driver's part."""

    def __init__(self, options: SourceOptions) -> None:
        self._prefix = options.group_id_prefix
        self._group_id = options.group_id
        self._introduction = None if options.group_id else f"{_introductions(self._prefix)}{uuid.uuid4()}"
        self._committed: Mapping[TopicPartition, int] = {}
        self._has_failed = False

    @property
    def introduction(self) -> str | None:
        """The group through which a task reports the query's id; None once it is known."""
        return self._introduction

    def finished(self, cluster: BlockingCluster, positions: Mapping[TopicPartition, int]) -> None:
        """The query has read everything before these positions, and written it to its sink."""
        if positions == self._committed or not positions:
            return
        try:
            self._learn(cluster)
            if self._group_id is None:
                return
            cluster.commit(self._group_id, positions)
            self._committed = dict(positions)
        except (ClientError, PipelineError) as fault:
            if not self._has_failed:
                log.warning("the lag of this query will not show in consumer groups: %s", fault)
            self._has_failed = True

    def _learn(self, cluster: BlockingCluster) -> None:
        if self._introduction is None:
            return
        told = cluster.committed(self._introduction)
        query_id = next((text for _, text in told.values() if text), None)
        if query_id is not None:
            cluster.delete_group(self._introduction)
            for group in self._left_behind(cluster, query_id):
                cluster.delete_group(group)
            self._group_id, self._introduction = f"{self._prefix}-{query_id}", None

    def _left_behind(self, cluster: BlockingCluster, query_id: str) -> list[str]:
        """Introductions of earlier runs of the query, which ended before reading them."""
        groups = [group for group in cluster.list_groups() if group.startswith(_introductions(self._prefix))]
        return [group for group in groups if any(text == query_id for _, text in cluster.committed(group).values())]


def _introductions(prefix: str) -> str:
    return f"{prefix}-introduction-"


def introduce(options: SourceOptions, introduction: str, first: OffsetRange) -> None:
    """The task's part: reports the query's id to the driver, if Spark provides it."""
    from pyspark import TaskContext

    context = TaskContext.get()
    query_id = context.getLocalProperty(QUERY_ID) if context is not None else None
    if not query_id:
        return
    try:
        cluster = cluster_of(options)
        try:
            cluster.commit(introduction, {TopicPartition(first.topic, first.partition): first.start}, text=query_id)
        finally:
            cluster.close()
    except (ClientError, PipelineError) as fault:
        log.warning("the lag of query %s will not show in consumer groups: %s", query_id, fault)
