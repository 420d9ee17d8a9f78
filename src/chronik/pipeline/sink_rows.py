"""The rows that a sink's task gets: small Arrow batches together, and which of them `encode` can take as columns. Pure.

The others go one by one: rows with headers, rows for several topics, and rows of which one is too large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronik.pipeline.encode import BY_KEY, Rows, sizes_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from chronik.pipeline.encode import Ints
    from chronik.pipeline.sink_options import SinkOptions
    from chronik.wire.records import Headers

# Many partitions share the rows that are encoded together, and each should get a batch of some size.
ROWS_TOGETHER: Final = 50_000
BYTES_TOGETHER: Final = 16 << 20

Row = tuple[bytes | None, bytes | None, "Headers", str | None, int | None]


class Columns(NamedTuple):
    """Rows of one topic. `named` are their partitions, or BY_KEY; None: no row names one."""

    topic: str
    rows: Rows
    named: Ints | None


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in larger batches, of about ROWS_TOGETHER rows or BYTES_TOGETHER."""
    waiting: list[pa.RecordBatch] = []
    row_count = size_bytes = 0
    for batch in batches:
        waiting.append(batch)
        row_count += batch.num_rows
        size_bytes += batch.nbytes
        if row_count >= ROWS_TOGETHER or size_bytes >= BYTES_TOGETHER:
            yield _joined(waiting)
            waiting, row_count, size_bytes = [], 0, 0
    if row_count:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    [whole] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return whole


def columns_of(batch: pa.RecordBatch, options: SinkOptions) -> Columns | None:
    """None: the rows go one by one."""
    names = set(batch.schema.names)
    if not batch.num_rows or ("headers" in names and batch.column("headers").null_count < batch.num_rows):
        return None
    topic = options.topic
    if topic is None:
        topics = batch.column("topic").unique().to_pylist() if "topic" in names else [None]
        topic = topics[0]
        if len(topics) > 1 or topic is None:
            return None
    keys = batch.column("key") if "key" in names else None
    rows = Rows(
        None if keys is None or keys.null_count == batch.num_rows else _binary(keys), _binary(batch.column("value"))
    )
    if int(sizes_bytes(rows).max()) > options.record_bytes_max:
        return None
    partitions = batch.column("partition") if "partition" in names else None
    if partitions is None or partitions.null_count == batch.num_rows:
        return Columns(topic, rows, None)
    if pc.min(partitions).as_py() < 0:
        return None  # refused one by one
    return Columns(topic, rows, partitions.fill_null(BY_KEY).to_numpy(zero_copy_only=False).astype(np.int64))


def _binary(column: pa.Array) -> pa.Array:
    return column if column.type == pa.binary() else column.cast(pa.binary())


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
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
