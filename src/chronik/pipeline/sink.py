"""`format("chronik")` as a sink: every task writes its rows with an idempotent producer of its own.

At least once: a task that Spark runs again writes its rows again. Within a task nothing is doubled or reordered,
however often requests are sent again, and a task succeeds only when the cluster has acknowledged every row (acks=all).

Rows go by key to the partition that Kafka's own producer would choose, unless the column `partition` names one.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from chronik.client.batching import record_bytes
from chronik.client.errors import ClientError
from chronik.client.producer import Producer
from chronik.client.routing import Cluster
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.workers import settle
from chronik.runtime.real import real_runtime

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from chronik.pipeline.sink_options import SinkOptions
    from chronik.wire.records import Headers

DLQ_SUFFIX: Final = ".dlq"
TOO_LARGE: Final = "RECORD_TOO_LARGE"


@dataclass
class Written(WriterCommitMessage):
    """What a task reports to the driver."""

    row_count: int
    too_large_count: int


class TopicWriter(DataSourceArrowWriter):
    """`df.write`. Nothing to commit or to take back: what is acknowledged stays."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return write_rows(iterator, self._options)


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return write_rows(iterator, self._options)


def write_rows(batches: Iterator[pa.RecordBatch], options: SinkOptions) -> Written:
    """Returns when all rows are acknowledged; raises RECORD_REFUSED when one is not."""
    written = asyncio.run(_write(batches, options))
    settle()
    return written


async def _write(batches: Iterator[pa.RecordBatch], options: SinkOptions) -> Written:
    report = Written(0, 0)
    async with Cluster(real_runtime(), options.bootstrap, client_id=options.client_id) as cluster:
        producer = Producer(
            cluster, codec=options.codec, delivery_timeout_ms=options.delivery_timeout_ms, creates_topics=True
        )
        topic = options.topic or ""
        try:
            async with producer:
                for batch in batches:
                    for row in _rows(batch):
                        topic = await _send(producer, row, report, options)
        except ClientError as fault:
            raise PipelineError("RECORD_REFUSED", topic=getattr(fault, "topic", topic), reason=str(fault)) from fault
    return report


async def _send(producer: Producer, row: _Row, report: Written, options: SinkOptions) -> str:
    key, value, headers, named, partition = row
    topic = options.topic or named
    if topic is None:
        raise PipelineError("NO_TOPIC", row=report.row_count)
    report.row_count += 1
    size_bytes = record_bytes(key, value, headers)
    if size_bytes <= options.record_bytes_max:
        await producer.send(topic, value, key=key, partition=partition, headers=headers)
        return topic
    if not options.keeps_too_large:
        raise PipelineError(TOO_LARGE, topic=topic, size_bytes=size_bytes, size_bytes_max=options.record_bytes_max)
    report.too_large_count += 1
    await producer.send(f"{topic}{DLQ_SUFFIX}", None, key=key, headers=(*headers, *_note(topic, size_bytes, options)))
    return topic


def _note(topic: str, size_bytes: int, options: SinkOptions) -> Headers:
    """What a dead letter says of itself. Its value is not there: it would be as much too large as it was before."""
    message = f"{size_bytes} bytes, at most {options.record_bytes_max} (kafka.max.request.size)"
    return (
        ("chronik.dlq.topic", topic.encode()),
        ("chronik.dlq.error", TOO_LARGE.encode()),
        ("chronik.dlq.message", message.encode()),
    )


_Row = tuple[bytes | None, bytes | None, "Headers", str | None, int | None]


def _rows(batch: pa.RecordBatch) -> Iterator[_Row]:
    names = set(batch.schema.names)

    def column(name: str) -> list[Any]:
        return batch.column(name).to_pylist() if name in names else [None] * batch.num_rows

    for key, value, headers, topic, partition in zip(
        column("key"), column("value"), column("headers"), column("topic"), column("partition"), strict=True
    ):
        pairs = tuple((each["key"], each["value"]) for each in headers) if headers else ()
        yield _bytes(key), _bytes(value), pairs, topic, partition


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
