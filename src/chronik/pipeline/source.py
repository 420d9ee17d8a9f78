"""`format("chronik")` for Spark: a batch reader and a stream reader on top of `planning` and `reading`.

The driver starts one Python process per streaming query, which runs the methods of `TopicStreamReader` until the query
ends; every task runs `read` in a worker, on a pickled copy. So everything but plain data (connections, the planner) is
created on first use and never pickled.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from chronik.pipeline.cluster import cluster_of
from chronik.pipeline.connections import IdleConnections
from chronik.pipeline.groups import QueryGroup, introduce
from chronik.pipeline.offsets import OffsetRange, Position
from chronik.pipeline.planning import Planner
from chronik.pipeline.reading import read_range
from chronik.pipeline.splitting import grouped
from chronik.pipeline.workers import settle

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from chronik.pipeline.options import SourceOptions


class RangesTask(InputPartition):
    """The input of one task: everything a worker needs besides the options."""

    def __init__(self, ranges: tuple[OffsetRange, ...], introduction: str | None = None) -> None:
        super().__init__(ranges)
        self.introduction = introduction  # set on the first task of a query whose id is unknown


def read_task(task: InputPartition, options: SourceOptions, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Spark passes `None` when there is nothing to read."""
    if not isinstance(task, RangesTask):
        return
    ranges: tuple[OffsetRange, ...] = task.value
    if task.introduction is not None:
        introduce(options, task.introduction, ranges[0])
    connections = IdleConnections(options.security, options.client_id)
    try:
        for offsets in ranges:
            yield from read_range(
                options.bootstrap,
                offsets.topic,
                offsets.partition,
                start=offsets.start,
                end=offsets.end,
                topic_id=urlsafe_b64decode(offsets.topic_id + "==") if offsets.topic_id else None,
                columns=columns,
                isolation_level=options.isolation_level,
                fail_on_data_loss=options.fail_on_data_loss,
                fetch_bytes_max=options.fetch_bytes_max,
                timeout_ms=options.timeout_ms,
                client_id=options.client_id,
                security=options.security,
                connections=connections,
            )
    finally:
        connections.close()
    settle()


def tasks_of(
    ranges: list[OffsetRange], options: SourceOptions, introduction: str | None = None
) -> list[InputPartition]:
    groups = grouped(ranges, partitions_min=options.partitions_min, records_max=options.records_per_partition_max)
    return [RangesTask(each, introduction if index == 0 else None) for index, each in enumerate(groups)]


class TopicReader(DataSourceReader):
    """`spark.read`: everything between two edges, planned once."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        cluster = cluster_of(self._options)
        try:
            return tasks_of(Planner(self._options, cluster).batch_tasks(), self._options)
        finally:
            cluster.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(partition, self._options, self._columns)


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """`spark.readStream`: batch after batch, positions in the checkpoint, lag in a consumer group."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._driver: _Driver | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_driver": None}

    @property
    def driver(self) -> _Driver:
        if self._driver is None:
            self._driver = _Driver(self._options)
        return self._driver

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return self.driver.planner.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark accepts one limit: with both options this returns the upper one, and `planning` applies the lower."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        position = Position.from_json(start)
        driver = self.driver
        if not position.is_initial:
            driver.group.finished(driver.cluster, position.offsets)
        # A trigger that requests everything gets everything, whatever the options.
        offsets_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        offsets_min = None if isinstance(limit, ReadAllAvailable) else self._options.min_offsets_per_trigger
        return driver.planner.next_end(position, offsets_max, offsets_min).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        seen = self.driver.planner.latest_seen
        return None if seen is None else seen.to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.driver.planner.freeze()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        ranges = self.driver.planner.tasks(Position.from_json(start), Position.from_json(end))
        return tasks_of(ranges, self._options, self.driver.group.introduction)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(partition, self._options, self._columns)

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.cluster.close()
            self._driver = None


class _Driver:
    """State that lives as long as the query, only in the driver's process."""

    def __init__(self, options: SourceOptions) -> None:
        self.cluster = cluster_of(options)
        self.planner = Planner(options, self.cluster)
        self.group = QueryGroup(options)
