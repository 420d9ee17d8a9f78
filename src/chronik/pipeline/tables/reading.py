"""A table's snapshot as data files, and a data file as Arrow batches. Knows no Spark.

The driver lists files, tasks read them. A snapshot is fixed when it is listed: later commits do not affect a query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
from deltalake import DeltaTable

from chronik.pipeline.tables.errors import TableError
from chronik.pipeline.tables.place import Place

FILE: Final = "_file"
BATCH_ROWS: Final = 1 << 16
TASK_BYTES: Final = 64 << 20  # small files are read together: a task costs more than opening a file
# Features under which file and log are enough: none that skips rows or renames columns.
READABLE_FEATURES: Final = frozenset({"timestampNtz", "vacuumProtocolCheck", "v2Checkpoint"})


@dataclass(frozen=True, slots=True)
class StoredFile:
    path: str
    size_bytes: int
    partition: Mapping[str, Any] = field(default_factory=dict)


def stored_files(place: Place, table: DeltaTable) -> list[StoredFile]:
    """The files of a snapshot, sorted by path."""
    protocol = table.protocol()
    unknown = set(protocol.reader_features or ()) - READABLE_FEATURES
    if unknown or protocol.min_reader_version == 2:
        reason = f"it needs {', '.join(sorted(unknown)) or 'column mapping'}, which only the engine that wrote it reads"
        raise TableError("TABLE_UNREADABLE", uri=place.uri, reason=reason)
    columns = table.metadata().partition_columns
    # Not pa.table(): it imports pandas to check whether its argument is a DataFrame.
    actions = pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()
    files = [
        StoredFile(
            unquote(action["path"]),  # paths in the log are URL-encoded
            action["size_bytes"],
            {column: action[f"partition.{column}"] for column in columns},
        )
        for action in actions.select(["path", "size_bytes", *(f"partition.{each}" for each in columns)]).to_pylist()
    ]
    return sorted(files, key=lambda file: file.path)


def grouped(files: Sequence[StoredFile]) -> list[list[StoredFile]]:
    """Groups neighbouring files up to TASK_BYTES."""
    groups: list[list[StoredFile]] = []
    size_bytes = TASK_BYTES
    for file in files:
        if size_bytes + file.size_bytes > TASK_BYTES:
            groups.append([])
            size_bytes = 0
        groups[-1].append(file)
        size_bytes += file.size_bytes
    return groups


def read_file(filesystem: pyarrow.fs.FileSystem, file: StoredFile, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a file with exactly `schema`; a column that is missing in an old file is null."""
    with filesystem.open_input_file(file.path) as opened:
        parquet = pq.ParquetFile(opened)
        present = set(parquet.schema_arrow.names) - set(file.partition)
        names = [name for name in schema.names if name in present]
        for batch in parquet.iter_batches(batch_size=BATCH_ROWS, columns=names):
            columns = [_column(name, batch, file, schema.field(name).type) for name in schema.names]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(name: str, batch: pa.RecordBatch, file: StoredFile, kind: pa.DataType) -> pa.Array:
    if name in file.partition:
        return pa.repeat(pa.scalar(file.partition[name], kind), batch.num_rows)
    if name == FILE:
        return pa.repeat(pa.scalar(file.path, kind), batch.num_rows)
    if name in batch.schema.names:
        return batch.column(name).cast(kind)
    return pa.nulls(batch.num_rows, kind)
