"""Writes rows to Parquet files of a table. Files are invisible until a commit names them; a crash leaves them behind.

Runs in Spark's tasks. File names show the origin, `b<batch>-<task>-<uuid>.parquet`, and are unique, so a task that runs
twice, or on two machines at once, writes different files, and one commit names one set of them.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from chronik.pipeline.tables.partitioning import PartitionValues, split
from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.statistics import file_statistics
from chronik.runtime.units import MIB

FILE_BYTES_MAX: Final = 128 * MIB  # a good size for a reading task; a larger writing task writes several files
ROW_GROUP_ROWS: Final = 1 << 17
ROW_GROUP_BYTES: Final = 32 * MIB  # Spark passes 10,000 rows at a time; row groups that small are slow to read
OPEN_FILES_MAX: Final = 64  # partitions that a task writes at once; beyond this the least recently used is closed


@dataclass(frozen=True, slots=True)
class DataFile:
    """A written file, as a task reports it to the driver."""

    path: str
    size_bytes: int
    row_count: int
    partition: PartitionValues
    modified_ms: int
    statistics: str

    def added(self, partition_by: Sequence[str]) -> AddAction:
        values = dict(zip(partition_by, self.partition, strict=True))
        return AddAction(self.path, self.size_bytes, values, self.modified_ms, True, self.statistics)


def write_files(
    place: Place, batches: Iterable[pa.RecordBatch], schema: pa.Schema, partition_by: Sequence[str], prefix: str
) -> list[DataFile]:
    """Writes all rows, in order within a partition; without rows no files."""
    writer = _Files(place.filesystem(), schema, partition_by, prefix)
    for batch in batches:
        writer.take(conform(batch, schema))
    return writer.finish()


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows with exactly `schema`: Spark's time zone becomes UTC, large types become plain ones."""
    if batch.schema.equals(schema):
        return batch
    columns = [batch.column(name).cast(schema.field(name).type) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class _Files:
    def __init__(
        self, filesystem: pyarrow.fs.PyFileSystem, schema: pa.Schema, partition_by: Sequence[str], prefix: str
    ) -> None:
        self._filesystem = filesystem
        self._stored = pa.schema([field for field in schema if field.name not in partition_by])
        self._partition_by = list(partition_by)
        self._prefix = prefix
        self._open: dict[PartitionValues, _OpenFile] = {}  # most recently used last
        self._done: list[DataFile] = []

    def take(self, batch: pa.RecordBatch) -> None:
        for values, part in split(batch, self._partition_by):
            file = self._open.pop(values, None) or self._start(values)
            self._open[values] = file
            file.take(part)
            if file.size_bytes >= FILE_BYTES_MAX:
                self._done.append(self._open.pop(values).finish())

    def finish(self) -> list[DataFile]:
        self._done += [file.finish() for file in self._open.values()]
        self._open.clear()
        return self._done

    def _start(self, values: PartitionValues) -> _OpenFile:
        if len(self._open) >= OPEN_FILES_MAX:
            self._done.append(self._open.pop(next(iter(self._open))).finish())
        return _OpenFile(self._filesystem, f"{self._prefix}-{uuid.uuid4()}.parquet", self._stored, values)


class _OpenFile:
    """Collects rows up to a row group, then writes it."""

    def __init__(
        self, filesystem: pyarrow.fs.PyFileSystem, path: str, schema: pa.Schema, partition: PartitionValues
    ) -> None:
        self._path = path
        self._schema = schema
        self._partition = partition
        self._sink = filesystem.open_output_stream(path)
        self._footer: list[pq.FileMetaData] = []
        self._writer = pq.ParquetWriter(self._sink, schema, compression="zstd", metadata_collector=self._footer)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0

    @property
    def size_bytes(self) -> int:
        return int(self._sink.tell())

    def take(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        if self._waiting_rows >= ROW_GROUP_ROWS or self._waiting_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def finish(self) -> DataFile:
        self._flush()
        self._writer.close()
        size_bytes = self.size_bytes
        self._sink.close()
        [footer] = self._footer
        return DataFile(
            self._path,
            size_bytes,
            footer.num_rows,
            self._partition,
            time.time_ns() // 1_000_000,
            file_statistics(footer, self._schema),
        )

    def _flush(self) -> None:
        if self._waiting_rows:
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema), row_group_size=ROW_GROUP_ROWS)
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
