"""Runs a plan: one streaming query for each flow, with its own checkpoint, group and pace. Starts, watches, stops.

Continuous flows run concurrently; flows that only read the available data run one after another, in the order of
declaration, with all cores. A failed flow stops alone; the others continue, and the end of the run reports the failure.
Stopping waits for the current batch: what it has written is committed, and the next run starts after it.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version as version_of_package
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import StreamingQueryException

import chronik
from chronik.pipeline import letters, table_writes
from chronik.pipeline.batches import Counts, TableFlow
from chronik.pipeline.conditions import PipelineFault
from chronik.pipeline.declarations import Bronze, Gold, Silver, ToTopic
from chronik.pipeline.events import BATCH, STARTED, STOPPED, Event, EventLog
from chronik.pipeline.flow_notes import write_note
from chronik.pipeline.frames import first_line
from chronik.pipeline.live_cluster import Lag, LiveCluster
from chronik.pipeline.offsets import Position
from chronik.pipeline.rows import chain, decoded, good, passed_through
from chronik.pipeline.views import View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from chronik.pipeline.flows import Flow
    from chronik.pipeline.plan import Plan

QUERY_ID: Final = "sql.streaming.queryId"
TICK_S: Final = 1
POLL_S: Final = 0.1
STOP_SECONDS_MAX: Final = 60
# Spark allows a Python process ten seconds to start, which a busy machine may exceed.
TOO_BUSY: Final = ("Python worker failed to connect back", "CANNOT_OPEN_SOCKET")
RESTARTS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class Pace:
    """When batches start and how large they are."""

    interval_ms: int | None = None  # None: read the available data, then stop
    offsets_per_batch_max: int | None = None


@dataclass
class Standing:
    """A flow's progress; its batches update it, displays read it."""

    flow: Flow
    batch_id: int = -1
    rows_in: int = 0
    rows_out: int = 0
    rows_dead: int = 0
    rows_dropped: int = 0
    rows_late: int = 0
    batch_ms: int = 0
    batch_rows: int = 0
    lag: Lag | None = None
    failed: dict[str, int] = field(default_factory=dict)
    fault: str = ""

    @property
    def rows_per_second(self) -> int:
        return self.batch_rows * 1000 // self.batch_ms if self.batch_ms else 0


class Run:
    """One `chronik pipeline run`. Use it in `with`: its queries are stopped in any case."""

    def __init__(
        self, spark: SparkSession, plan: Plan, cluster: LiveCluster, pace: Pace, *, only: str | None = None
    ) -> None:
        if plan.errors:
            raise plan.errors[0]
        self.spark, self.plan, self.cluster, self.pace = spark, plan, cluster, pace
        self.run_id = uuid.uuid4().hex[:12]
        flows = [planned.flow for planned in plan.flows if only in (None, planned.flow.name)]
        self.standings = {flow.name: Standing(flow) for flow in flows}
        self.queries: dict[str, StreamingQuery] = {}
        self.views = [View(spark, plan.pipeline, flow) for flow in flows if flow.is_view]
        self.faults: dict[str, PipelineFault] = {}
        self._events = EventLog(cluster)
        self._restarts_left = RESTARTS_MAX
        self._waiting: list[Standing] = []

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop(waits=exception[0] is None)

    def start(self) -> None:
        self._events.prepare()
        self._send_functions_by_value()
        for standing in self.standings.values():
            flow = standing.flow
            if flow.dlq_topic:
                letters.prepare(self.cluster, flow, self.plan.topics[flow.source_topic])
        self._waiting = [standing for standing in self.standings.values() if not standing.flow.is_view]
        while self._waiting and (self.pace.interval_ms is not None or not self.queries):
            self._start_next()

    def _start_next(self) -> None:
        standing = self._waiting.pop(0)
        self.queries[standing.flow.name] = self._started(standing)
        self._events.write(self._event(STARTED, standing))

    def wait(self, on_tick: Callable[[Run], None] | None = None) -> None:
        """Waits until every flow has stopped, then raises the first error, if any."""
        while self.goes_on():
            self.tick()
            if on_tick is not None:
                on_tick(self)
        self.finish()

    def tick(self) -> None:
        """Waits briefly and checks everything again."""
        for query in self.queries.values():
            if query.isActive:
                with suppress(StreamingQueryException):  # `finish` reports it
                    query.awaitTermination(TICK_S)
                break
        self.refresh()

    def finish(self) -> None:
        """Final work after the last query; raises the first error."""
        for name, query in self.queries.items():
            if (error := query.exception()) is not None and name not in self.faults:
                reason = first_line(error)
                self.faults[name] = PipelineFault("FLOW_STOPPED", name=name, reason=reason)
        self.refresh()
        for standing in self.standings.values():
            fault = self.faults.get(standing.flow.name)
            standing.fault = str(fault) if fault else ""
            self._events.write(self._event(STOPPED, standing, error=standing.fault))
        for fault in self.faults.values():
            raise fault

    def stop(self, *, waits: bool = True) -> None:
        """Waits for a while for running batches, which Spark would interrupt. An interrupted batch is repeated."""
        asked_at = {name: standing.batch_id for name, standing in self.standings.items()}
        end_s = time.monotonic() + STOP_SECONDS_MAX
        for name, query in self.queries.items():
            standing = self.standings[name]
            while waits and query.isActive and query.status["isTriggerActive"] and time.monotonic() < end_s:
                if standing.batch_id != asked_at[name]:
                    break
                time.sleep(POLL_S)
            if query.isActive:
                query.stop()

    @property
    def is_active(self) -> bool:
        return any(query.isActive for query in self.queries.values())

    def goes_on(self) -> bool:
        """Whether any flow runs. Restarts a query that failed because a process did not start in time."""
        for name, query in list(self.queries.items()):
            if query.isActive or name in self.faults or self._restarts_left == 0:
                continue
            error = query.exception()
            if error is not None and any(words in str(error) for words in TOO_BUSY):
                self._restarts_left -= 1
                self.queries[name] = self._started(self.standings[name])
        if self._waiting and not self.is_active:
            self._start_next()
        return self.is_active or bool(self._waiting)

    def refresh(self) -> None:
        """Updates lags and views."""
        for name, query in self.queries.items():
            standing = self.standings[name]
            positions = positions_of(query.lastProgress)
            if positions is not None:
                standing.lag = self.cluster.lag_behind(standing.flow.source_topic, positions)
                standing.rows_late = late_rows(query.recentProgress)
        for view in self.views:
            self._refresh_view(view)

    def _refresh_view(self, view: View) -> None:
        begun_ns = time.monotonic_ns()
        counts = view.refresh()
        if counts is None:
            return
        standing = self.standings[view.flow.name]
        self._account(standing, standing.batch_id + 1, counts, begun_ns)

    # --- one query

    def _started(self, standing: Standing) -> StreamingQuery:
        flow, declaration = standing.flow, standing.flow.declaration
        records = self._records(flow)
        if isinstance(declaration, Bronze | Silver):
            topic_id = self.plan.topics[flow.source_topic].topic_id
            write_note(self.plan.pipeline, flow)
            table = TableFlow(self.plan.pipeline, flow, topic_id, self.cluster.options)
            writer = records.writeStream.foreachBatch(self._accounted(standing, table.take))
        elif isinstance(declaration, Gold):
            results = self._passed(records, flow)
            writer = results.writeStream.outputMode("append").foreachBatch(self._accounted(standing, append(flow)))
        else:
            writer = to_records(self._passed(records, flow), declaration).writeStream.format("chronik")
            writer = writer.options(**self.cluster.options)
            writer = writer.option("topic", declaration.topic).option("exactlyOnce", "true")
        writer = writer.option("checkpointLocation", flow.checkpoint)
        if self.pace.interval_ms is None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{self.pace.interval_ms} milliseconds")
        return writer.start()

    def _records(self, flow: Flow) -> DataFrame:
        reader = (
            self.spark.readStream.format("chronik")
            .options(**self.cluster.options)
            .option("subscribe", flow.source_topic)
            .option("kafka.group.id", flow.group)
            .option("includeHeaders", "true")
        )
        bottom = self.plan.pipeline.topic_of(flow.declaration)
        assert bottom is not None
        if bottom.start.isdecimal():
            reader = reader.option("startingTimestamp", bottom.start)
            reader = reader.option("startingOffsetsByTimestampStrategy", "latest")
        else:
            reader = reader.option("startingOffsets", bottom.start)
        if self.pace.offsets_per_batch_max is not None:
            reader = reader.option("maxOffsetsPerTrigger", str(self.pace.offsets_per_batch_max))
        return reader.load()

    def _passed(self, records: DataFrame, flow: Flow) -> DataFrame:
        """Rows of a stream without a batch function: the decodable ones, through all functions."""
        bottom = self.plan.pipeline.topic_of(flow.declaration)
        assert bottom is not None
        rows = good(decoded(records, bottom, self.plan.topics[flow.source_topic].topic_id))
        return passed_through(rows, chain(self.plan.pipeline, flow.declaration))

    def _accounted(
        self, standing: Standing, take: Callable[[DataFrame, str, int], Counts]
    ) -> Callable[[DataFrame, int], None]:
        """A batch function that counts, times, and keeps the original error, which Spark would wrap."""

        def process(batch: DataFrame, batch_id: int) -> None:
            begun_ns = time.monotonic_ns()
            flow = standing.flow
            # A recreated checkpoint counts as another application: its batch numbers restart.
            query_id = batch.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
            try:
                counts = take(batch, f"{flow.group}/{query_id}", batch_id)
            except PipelineFault as fault:
                self.faults[flow.name] = fault
                raise
            self._account(standing, batch_id, counts, begun_ns)

        return process

    def _account(self, standing: Standing, batch_id: int, counts: Counts, begun_ns: int) -> None:
        standing.batch_id = batch_id
        standing.rows_in += counts.rows_in
        standing.rows_out += counts.rows_out
        standing.rows_dead += counts.rows_dead
        standing.rows_dropped += counts.rows_dropped
        standing.batch_rows = counts.rows_in
        standing.batch_ms = (time.monotonic_ns() - begun_ns) // 1_000_000
        for name, count in counts.failed.items():
            standing.failed[name] = standing.failed.get(name, 0) + count
        self._events.write(self._event(BATCH, standing, counts=counts))

    def _event(self, kind: str, standing: Standing, *, counts: Counts | None = None, error: str = "") -> Event:
        flow = standing.flow
        told = counts or Counts()
        return Event(
            kind,
            flow.pipeline,
            flow.name,
            self.run_id,
            time.time_ns() // 1_000_000,
            batch_id=standing.batch_id,
            rows_in=told.rows_in,
            rows_out=told.rows_out,
            rows_dead=told.rows_dead,
            rows_dropped=told.rows_dropped,
            rows_late=standing.rows_late,
            failed=dict(told.failed),
            duration_ms=standing.batch_ms if kind == BATCH else 0,
            lag_messages=standing.lag.messages if standing.lag else -1,
            lag_ms=standing.lag.ms if standing.lag else -1,
            table_version=told.table_version,
            reads=flow.declaration.reads or (f"topic {flow.source_topic}",),
            writes=flow.target,
            versions=versions() if kind == STARTED else {},
            error=error,
        )

    def _send_functions_by_value(self) -> None:
        """Executors cannot import the user's file, so its definitions are sent by value."""
        if self.plan.pipeline.module is not None:
            from pyspark import cloudpickle

            cloudpickle.register_pickle_by_value(self.plan.pipeline.module)


def append(flow: Flow) -> Callable[[DataFrame, str, int], Counts]:
    """Appends a batch of final results."""

    def take(results: DataFrame, application: str, batch_id: int) -> Counts:
        results = results.persist()
        try:
            count = results.count()
            version = table_writes.write(results, flow, application, batch_id)
            return Counts(rows_out=count, table_version=version)
        finally:
            results.unpersist()

    return take


def to_records(rows: DataFrame, declaration: ToTopic) -> DataFrame:
    """Sends columns key, value and headers unchanged; without a column `value`, sends each row as JSON."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

    names = rows.columns
    key = F.col(declaration.key).cast("string").cast("binary") if declaration.key else F.lit(None).cast("binary")
    if "value" in names:
        return rows if "key" in names and not declaration.key else rows.withColumn("key", key)
    fields = [name for name in names if name not in ("key", "headers", "topic", "partition")]
    columns = [key.alias("key"), F.to_json(F.struct(*fields)).cast("binary").alias("value")]
    return rows.select(*columns, *(["headers"] if "headers" in names else []))


def positions_of(progress: Any) -> Mapping[int, int] | None:
    """The offset after the last record read from each partition, from a query's last progress."""
    if progress is None:
        return None
    told = progress["sources"][0]["endOffset"]
    if told is None:
        return None
    position = Position.from_json(json.loads(told) if isinstance(told, str) else told)
    return {at.partition: offset for at, offset in position.offsets.items()}


def late_rows(progresses: Any) -> int:
    return sum(
        int(operator.get("numRowsDroppedByWatermark", 0))
        for progress in progresses
        for operator in progress["stateOperators"]
    )


def versions() -> dict[str, str]:
    return {"chronik": chronik.__version__} | {name: version_of_package(name) for name in ("pyspark", "deltalake")}
