"""The two halves of a write, for append and upsert alike: `write` in every task, `commit` once on the driver.

Knows no Spark: the caller sends a `Target` to tasks and collects their `TaskOutput`. An append's rows travel as files.
An upsert's rows travel in the output itself, reduced to the last per key and compressed: they must meet in one process,
and data that is not in a file needs no cleanup after a crash.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from deltalake import Schema

from chronik.pipeline.tables.appending import append
from chronik.pipeline.tables.errors import TableError
from chronik.pipeline.tables.files import DataFile, conform, write_files
from chronik.pipeline.tables.maintenance import tidy_if_needed
from chronik.pipeline.tables.options import TableOptions, check_columns
from chronik.pipeline.tables.order import Keeping, last_per_position
from chronik.pipeline.tables.partitioning import check_partition_columns
from chronik.pipeline.tables.schemas import arrow_schema, delta_schema
from chronik.pipeline.tables.transactions import BatchName
from chronik.pipeline.tables.upserting import merge

REDUCE_ROWS: Final = 1 << 18  # rows that a task holds before it drops superseded ones


@dataclass(frozen=True, slots=True)
class TaskOutput:
    """The result of one task: files for an append, rows as an Arrow stream for an upsert."""

    files: tuple[DataFile, ...] = ()
    rows: bytes = b""


@dataclass(frozen=True, slots=True)
class Target:
    """The destination and mode of a write."""

    options: TableOptions
    schema_json: str  # Spark's JSON, of the input rows
    partition_by: tuple[str, ...] = ()
    replace: bool = False

    @classmethod
    def of(cls, options: TableOptions, schema_json: str, *, replace: bool = False) -> Target:
        """Validates the options against the table, if it exists, before anything is written."""
        if options.mode == "upsert" and replace:
            raise TableError(
                "TABLE_OPTIONS_CONFLICT",
                options="mode=upsert and overwriting, or output mode complete",
                reason="an upsert keeps what it does not touch",
            )
        table = options.place.find()
        partition_by = options.partition_by
        if table is not None and not partition_by:
            partition_by = tuple(table.metadata().partition_columns)
        target = cls(options, schema_json, partition_by, replace)
        stored = arrow_schema(target.stored)
        check_columns("partitionBy", partition_by, stored.names)
        check_partition_columns(stored, partition_by)
        return target

    @property
    def incoming(self) -> pa.Schema:
        return arrow_schema(delta_schema(self.schema_json))

    @property
    def stored(self) -> Schema:
        """The table's schema: without the column that marks deletions."""
        struct = json.loads(self.schema_json)
        if self.options.mode == "upsert":
            stored = self.keeping.stored([field["name"] for field in struct["fields"]])
            struct["fields"] = [field for field in struct["fields"] if field["name"] in stored]
        return delta_schema(json.dumps(struct))

    @property
    def keeping(self) -> Keeping:
        return self.options.keeping([field["name"] for field in json.loads(self.schema_json)["fields"]])

    def write(self, batches: Iterable[pa.RecordBatch], prefix: str) -> TaskOutput:
        """A task's part of a batch; `prefix` starts the names of its files."""
        if self.options.mode == "append":
            files = write_files(self.options.place, batches, self.incoming, self.partition_by, prefix)
            return TaskOutput(files=tuple(files))
        return TaskOutput(rows=self._reduced(batches))

    def commit(
        self, outputs: Sequence[TaskOutput], name: BatchName | None, notes: Mapping[str, str] | None = None
    ) -> bool:
        """Commits the parts of all tasks atomically and once. False if the batch was committed before.

        `notes` are stored with the commit of an append.
        """
        options = self.options
        if options.mode == "append":
            committed = append(
                options.place,
                name,
                [file for output in outputs for file in output.files],
                self.stored,
                partition_by=self.partition_by,
                merge_schema=options.merge_schema,
                replace=self.replace,
                notes=notes,
            )
        else:
            self._check_size(sum(len(output.rows) for output in outputs))
            parts = [pa.ipc.open_stream(output.rows).read_all() for output in outputs if output.rows]
            committed = merge(
                options.place,
                name,
                pa.concat_tables(parts) if parts else self.incoming.empty_table(),
                self.stored,
                self.keeping,
                partition_by=self.partition_by,
                merge_schema=options.merge_schema,
            )
        if committed:
            tidy_if_needed(options.place, above=options.compact_above)
        return committed

    def _reduced(self, batches: Iterable[pa.RecordBatch]) -> bytes:
        schema, keeping = self.incoming, self.keeping
        held, held_rows = [], 0
        for batch in batches:
            held.append(pa.Table.from_batches([conform(batch, schema)]))
            held_rows += batch.num_rows
            if held_rows >= REDUCE_ROWS:
                held = [last_per_position(pa.concat_tables(held), keeping)]
                held_rows = 0  # counts only new rows, so that many distinct keys do not cause a pass per batch
        if not held:
            return b""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
            stream.write_table(last_per_position(pa.concat_tables(held), keeping))
        rows: bytes = sink.getvalue().to_pybytes()
        self._check_size(len(rows))
        return rows

    def _check_size(self, size_bytes: int) -> None:
        limit_bytes = self.options.upsert_bytes_max
        if size_bytes > limit_bytes:
            raise TableError(
                "TABLE_BATCH_TOO_LARGE", size_bytes=size_bytes, limit_bytes=limit_bytes, uri=self.options.place.uri
            )
