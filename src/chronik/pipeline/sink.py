"""`format("chronik")` as a sink: every task writes its rows with its own producer.

Within a task no row is duplicated or reordered, however often requests are resent, and a task succeeds only when the
cluster has acknowledged every row (acks=all). If Spark reruns a task, it writes its rows again: at least once. With
exactlyOnce=true tasks write in transactions, and the driver commits those of one attempt: see `exactly_once`.

The key selects the partition, as in Kafka's own producer, unless the column `partition` names one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from chronik.client.batching import record_bytes
from chronik.client.errors import ClientError, DeliveryFailed, Refused
from chronik.client.producer import BATCH_BYTES_MAX, Producer
from chronik.pipeline.batch_register import group_of
from chronik.pipeline.denials import CREATE, READ, WRITE, denial, is_denied, naming
from chronik.pipeline.encode import KEYLESS, encoded
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.exactly_once import RUN_CHARS, BatchTask, TaskResult, TaskWriter, abort_batch, commit_batch
from chronik.pipeline.groups import QUERY_ID
from chronik.pipeline.sink_rows import columns_of, gathered, rows_of
from chronik.pipeline.workers import settle
from chronik.runtime.units import NS_PER_MS
from chronik.wire.batches import HEADER_BYTES
from chronik.wire.error_codes import ErrorCode
from chronik.wire.internal_topics import OFFSETS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from chronik.client.routing import ClusterClient
    from chronik.pipeline.sink_options import SinkOptions
    from chronik.pipeline.sink_rows import Columns, Row
    from chronik.wire.records import Headers

DLQ_SUFFIX: Final = ".dlq"
TOO_LARGE: Final = "RECORD_TOO_LARGE"
BATCH_ID: Final = "streaming.sql.batchId"  # local properties of a query's tasks, like QUERY_ID
RUN_ID: Final = "spark.jobGroup.id"  # Spark runs the batches of a query as a job group of that name


@dataclass
class SinkCommit(WriterCommitMessage):
    """The report of a task to the driver."""

    row_count: int
    too_large_count: int
    result: TaskResult | None = None  # with exactlyOnce: the driver needs it to commit the rows


class TopicWriter(DataSourceArrowWriter):
    """`df.write`. Nothing to commit or undo: acknowledged rows stay."""

    def __init__(self, options: SinkOptions) -> None:
        if options.exactly_once:
            raise PipelineError(
                "UNSUPPORTED_OPTION", option="exactlyOnce", reason="only writeStream numbers its batches"
            )
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkCommit:
        return write_rows(iterator, self._options)


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> SinkCommit:
        task = task_of_spark() if self._options.exactly_once else None
        return write_rows(iterator, self._options, task)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._end(commit_batch, messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        with suppress(ClientError, PipelineError):  # Spark should report why the batch failed, not this
            self._end(abort_batch, messages, batchId)

    def _end(self, work: _Ending, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
        results = [each.result for each in messages if isinstance(each, SinkCommit) and each.result is not None]
        if self._options.exactly_once:
            end_batch(work, results, batch, self._options)


_Ending = Callable[["ClusterClient", int, "Sequence[TaskResult]", "SinkOptions"], Awaitable[None]]


def end_batch(work: _Ending, results: Sequence[TaskResult], batch: int, options: SinkOptions) -> None:
    """The driver's part: commit_batch or abort_batch."""

    async def run() -> None:
        async with options.security.client(options.bootstrap, options.client_id) as cluster:
            with _naming_own(options, results[0].query_id if results else ""):
                await work(cluster, batch, results, options)

    asyncio.run(run())


def task_of_spark() -> BatchTask:
    """The batch and task of the current thread, from local properties that Spark sets for the query."""
    from pyspark import TaskContext

    context = TaskContext.get()
    found = {
        name: context.getLocalProperty(name) if context is not None else None for name in (QUERY_ID, BATCH_ID, RUN_ID)
    }
    missing = [name for name, value in found.items() if not value]
    if context is None or missing:
        raise PipelineError("NOT_A_QUERY", missing=", ".join(missing))
    return BatchTask(
        str(found[QUERY_ID]), str(found[RUN_ID])[:RUN_CHARS], int(str(found[BATCH_ID])), context.partitionId()
    )


def write_rows(batches: Iterator[pa.RecordBatch], options: SinkOptions, task: BatchTask | None = None) -> SinkCommit:
    """Returns when all rows are acknowledged; raises RECORD_REFUSED if one is refused.

    With a `task`, the rows are part of a transaction that the driver commits.
    """
    written = asyncio.run(_write(batches, options, task))
    settle()
    return written


async def _write(batches: Iterator[pa.RecordBatch], options: SinkOptions, task: BatchTask | None) -> SinkCommit:
    report = SinkCommit(0, 0)
    async with options.security.client(options.bootstrap, options.client_id) as cluster:
        try:
            if task is None:
                async with Producer(
                    cluster, codec=options.codec, delivery_timeout_ms=options.delivery_timeout_ms, creates_topics=True
                ) as producer:
                    await _send_all(producer, batches, report, options)
            else:
                await _write_once(cluster, batches, report, options, task)
        except ClientError as fault:
            raise await _explained(cluster, fault, options, task) from fault
    return report


async def _explained(
    cluster: ClusterClient, fault: ClientError, options: SinkOptions, task: BatchTask | None
) -> PipelineError:
    topic = getattr(fault, "topic", options.topic or "")
    operation = await _lacking(cluster, topic) if is_denied(fault) else WRITE
    key = "" if task is None else group_of(task.query_id)
    denied = denial(fault, options.security, operation, topic=topic, transactional_id=key)
    return denied or PipelineError("RECORD_REFUSED", topic=topic, reason=str(fault))


async def _lacking(cluster: ClusterClient, topic: str) -> str:
    """The permission that a producer of this topic lacks. Without DESCRIBE, a broker does not reveal that a topic is
    missing."""
    with suppress(ClientError):
        known = await cluster.refresh([topic])
        if known.errors.get(topic) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return CREATE
    return WRITE


def _naming_own(options: SinkOptions, query_id: str) -> AbstractContextManager[None]:
    """Names the missing permissions for requests about the register, whose offsets belong to Kafka's own offsets
    topic."""
    key = group_of(query_id)
    return naming(options.security, READ, topic=OFFSETS_TOPIC, group=key, transactional_id=key)


async def _write_once(
    cluster: ClusterClient,
    batches: Iterator[pa.RecordBatch],
    report: SinkCommit,
    options: SinkOptions,
    task: BatchTask,
) -> None:
    async with TaskWriter(cluster, task, options) as writer:
        with _naming_own(options, task.query_id):
            is_decided = await writer.is_decided()
        if is_decided:
            report.result = TaskResult(task.query_id, task.run, is_decided=True)
            return
        await _send_all(writer, batches, report, options)
        report.result = await writer.finish()


async def _send_all(
    producer: Producer | TaskWriter, batches: Iterator[pa.RecordBatch], report: SinkCommit, options: SinkOptions
) -> None:
    for batch in gathered(batches):
        columns = columns_of(batch, options)
        if columns is None:
            for row in rows_of(batch):
                await _send(producer, row, report, options)
        else:
            report.row_count += batch.num_rows
            await _send_columns(producer, columns)


async def _send_columns(producer: Producer | TaskWriter, columns: Columns) -> None:
    topic, rows, named = columns
    try:
        partition_count = len((await producer.topic(topic)).partitions)
        now_ms = time.time_ns() // NS_PER_MS
        for partition, records in encoded(
            rows, named, partition_count, timestamp=now_ms, batch_bytes_max=BATCH_BYTES_MAX - HEADER_BYTES
        ):
            await producer.send_encoded(topic, None if partition == KEYLESS else partition, records)
    except Refused as fault:
        if is_denied(fault):
            raise DeliveryFailed(fault, topic, -1, len(rows.values)) from fault
        raise


async def _send(producer: Producer | TaskWriter, row: Row, report: SinkCommit, options: SinkOptions) -> None:
    key, value, headers, named, partition = row
    topic = options.topic or named
    if topic is None:
        raise PipelineError("NO_TOPIC", row=report.row_count)
    report.row_count += 1
    size_bytes = record_bytes(key, value, headers)
    if size_bytes <= options.record_bytes_max:
        try:
            await producer.send(topic, value, key=key, partition=partition, headers=headers)
        except Refused as fault:
            if is_denied(fault):
                raise DeliveryFailed(fault, topic, -1 if partition is None else partition, 1) from fault
            raise
        return
    if not options.keeps_too_large:
        raise PipelineError(TOO_LARGE, topic=topic, size_bytes=size_bytes, size_bytes_max=options.record_bytes_max)
    report.too_large_count += 1
    await producer.send(f"{topic}{DLQ_SUFFIX}", None, key=key, headers=(*headers, *_note(topic, size_bytes, options)))


def _note(topic: str, size_bytes: int, options: SinkOptions) -> Headers:
    """The headers of a dead letter for a record that is too large. Its value is omitted: it would be too large
    again."""
    message = f"{size_bytes} bytes, at most {options.record_bytes_max} (kafka.max.request.size)"
    return (
        ("chronik.dlq.topic", topic.encode()),
        ("chronik.dlq.error", TOO_LARGE.encode()),
        ("chronik.dlq.message", message.encode()),
    )
