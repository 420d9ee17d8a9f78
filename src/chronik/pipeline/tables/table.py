"""format("chronik-table"): Delta tables for Spark, written exactly once and readable at any version, without a jar.

    rows.writeStream.format("chronik-table").option("checkpointLocation", checkpoint).start("/tables/orders")
    spark.read.format("chronik-table").option("versionAsOf", 7).load("/tables/orders")

Spark finds it automatically: it imports every top-level module whose name starts with `pyspark_` and registers its
DefaultSource under the name that the class returns.

Options are read and the table is inspected on the driver; `write` and `read` run in tasks and get everything by pickle.
`commit` runs on the driver, for streams in a new writer, so it knows only options, messages and the batch's id. The
query's id reaches it in the messages: tasks read it from Spark's job properties. It survives restarts because Spark
keeps it in the checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StringType, StructType

from chronik.pipeline.tables.errors import TableError
from chronik.pipeline.tables.options import TableOptions, read_options
from chronik.pipeline.tables.reading import FILE, StoredFile, grouped, read_file, stored_files
from chronik.pipeline.tables.schemas import arrow_schema, delta_schema
from chronik.pipeline.tables.transactions import BatchName
from chronik.pipeline.tables.writing import Target, TaskOutput
from chronik.pipeline.workers import settle

NAME: Final = "chronik-table"
# Spark sets this on every job of a micro-batch and passes it to each task.
QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"


class TableSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    @property
    def table(self) -> TableOptions:
        return read_options(self.options)

    def schema(self) -> StructType:
        """Delta's JSON for a schema equals Spark's."""
        table = self.table
        snapshot = table.place.load_as_of(version=table.version_as_of, timestamp=table.timestamp_as_of)
        schema = StructType.fromJson(json.loads(snapshot.schema().to_json()))
        return schema.add(FILE, StringType()) if table.with_file else schema

    def reader(self, schema: StructType) -> TableReader:
        return TableReader(self.table, schema.json())

    def writer(self, schema: StructType, overwrite: bool) -> TableWriter:  # noqa: FBT001 - Spark's signature
        return TableWriter(Target.of(self.table, schema.json(), replace=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> TableStreamWriter:  # noqa: FBT001, N802
        return TableStreamWriter(Target.of(self.table, schema.json(), replace=overwrite))


@dataclass
class TableCommit(WriterCommitMessage):
    """A task's message to the driver."""

    output: TaskOutput
    query_id: str | None = None


class TableStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, target: Target) -> None:
        self.target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TableCommit:
        context = TaskContext.get()
        assert context is not None
        prefix = f"b{context.getLocalProperty(BATCH_ID)}-{context.partitionId()}"
        output = self.target.write(iterator, prefix)
        settle()
        return TableCommit(output, context.getLocalProperty(QUERY_ID))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Without tasks there are no rows, and the query's id is unknown: the table stays unchanged."""
        written = _checked(messages)
        if not written:
            return
        application = self.target.options.application or written[0].query_id
        if application is None:
            raise TableError("TABLE_NO_QUERY_ID", uri=self.target.options.place.uri)
        self.target.commit([each.output for each in written], BatchName(application, batchId))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Deletes nothing: Spark also aborts when a commit's answer was lost, and then the files are in the table."""


class TableWriter(DataSourceArrowWriter):
    def __init__(self, target: Target) -> None:
        self.target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TableCommit:
        context = TaskContext.get()
        assert context is not None
        output = self.target.write(iterator, f"w-{context.partitionId()}")
        settle()
        return TableCommit(output)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        options = self.target.options
        name = None
        if options.application is not None and options.version is not None:
            name = BatchName(options.application, options.version)
        self.target.commit([each.output for each in _checked(messages)], name)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """As for streams: vacuum deletes the files."""


def _checked(messages: Sequence[WriterCommitMessage | None]) -> list[TableCommit]:
    """Checks that every task sent a message. Spark commits only if they all did."""
    written = [each for each in messages if isinstance(each, TableCommit)]
    if len(written) != len(messages):
        raise TypeError(f"{len(messages) - len(written)} of {len(messages)} tasks sent no answer of this table's")
    return written


@dataclass
class FileGroup(InputPartition):
    """The files of one task."""

    files: list[StoredFile]


class TableReader(DataSourceReader):
    """The snapshot is selected on the driver, when the query is planned."""

    def __init__(self, options: TableOptions, schema_json: str) -> None:
        self.options = options
        self.schema_json = schema_json

    def partitions(self) -> Sequence[InputPartition]:
        options = self.options
        table = options.place.load_as_of(version=options.version_as_of, timestamp=options.timestamp_as_of)
        stored = [
            each for each in stored_files(options.place, table) if options.files is None or each.path in options.files
        ]
        # Without any partition Spark would call `read` once with None; an empty partition reads nothing.
        return [FileGroup(files) for files in grouped(stored)] or [FileGroup([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, FileGroup)
        schema = arrow_schema(delta_schema(self.schema_json))
        filesystem = self.options.place.filesystem()
        for file in partition.files:
            yield from read_file(filesystem, file, schema)
        settle()
