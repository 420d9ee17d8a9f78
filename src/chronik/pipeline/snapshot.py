"""A table together with the records that it does not have yet, each record once: the result of `chronik.read`.

    chronik.read("orders").to_polars()

A snapshot is fixed when it is created: it consists of a version of the table, and of the topic's committed records from
the end of that version to the end of the topic at that time. The records are read at once and held in memory as rows;
the table's files are read each time rows are requested.

The order of the steps makes the join exact: first read the pipeline's checkpoint, then the table, then the end of the
topic. If records are deleted, or the topic is created again, between these steps, they start over.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from chronik.client.topology import TopicPartition
from chronik.pipeline.cluster import BlockingCluster
from chronik.pipeline.declarations import DELETED
from chronik.pipeline.errors import PipelineError, hint_for
from chronik.pipeline.flow_notes import FlowNote, declared, note_of
from chronik.pipeline.flows import table_path
from chronik.pipeline.frontier import furthest, processed, stored
from chronik.pipeline.keyed_tail import KeyedTail, conformed
from chronik.pipeline.plain_rows import RECORD_COLUMNS, PlainRows
from chronik.pipeline.reading import read_range
from chronik.pipeline.registry import Pipeline, load
from chronik.pipeline.security import NO_QUERY_SECURITY, QuerySecurity
from chronik.pipeline.tables.order import PROVENANCE, Keeping
from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.reading import StoredFile, read_file, stored_files
from chronik.pipeline.tables.schemas import arrow_schema
from chronik.wire.isolation import READ_COMMITTED
from chronik.wire.offset_specs import EARLIEST, LATEST
from chronik.wire.uuids import uuid_bytes

if TYPE_CHECKING:
    from deltalake import DeltaTable

ATTEMPTS_MAX: Final = 5
RETRY_S: Final = 0.5
CLIENT_ID: Final = "chronik-read"
MISSING_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Source:
    """The table and topic to read."""

    name: str
    table: str
    note: FlowNote
    bootstrap: str
    security: QuerySecurity = NO_QUERY_SECURITY
    pipeline: Pipeline | None = None


@dataclass(frozen=True, slots=True)
class Joint:
    """The join of table and topic: the rows of the version, then the records from `starts` to `ends`."""

    table: DeltaTable | None
    topic_id: str
    starts: Mapping[int, int]
    ends: Mapping[int, int]

    @property
    def version(self) -> int:
        return -1 if self.table is None else int(self.table.version())


class Overtaken(Exception):
    """Records were deleted, or the topic was created again, while they were being read."""


def source_of(
    name: str, bootstrap: str, storage: str, security: QuerySecurity = NO_QUERY_SECURITY, pipeline: str | None = None
) -> Source:
    table = table_path(os.path.abspath(os.path.expanduser(storage)), name)
    if pipeline is not None:
        loaded = load(pipeline)
        flow = declared(loaded, os.path.abspath(os.path.expanduser(storage)), name)
        return Source(name, table, FlowNote.of(loaded, flow), bootstrap, security, loaded)
    note = note_of(table)
    if note is None:
        if os.path.isdir(os.path.join(table, "_delta_log")):
            raise PipelineError("READ_FLOW_UNKNOWN", name=name)
        folder = os.path.dirname(table)
        known = os.listdir(folder) if os.path.isdir(folder) else []
        raise PipelineError("READ_NAME_UNKNOWN", name=name, folder=folder, hint=hint_for(name, known))
    return Source(name, table, note, bootstrap, security)


def joint_of(source: Source, cluster: BlockingCluster, *, fail_on_data_loss: bool) -> Joint:
    """Determines the current join of table and topic. Raises RECORDS_MISSING if there is a gap between them."""
    topic = source.note.topic
    gaps: dict[int, tuple[int, int]] = {}
    for attempt in range(ATTEMPTS_MAX):
        if attempt:
            time.sleep(RETRY_S)  # a batch in progress may contain the missing records
        known = cluster.topics([topic])
        if topic not in known:
            raise PipelineError("TOPIC_NOT_FOUND", topics=repr(topic), option="bootstrap")
        topic_id, partitions = known[topic]
        done = processed(source.note.checkpoint, topic, topic_id)
        place = Place.of(source.table)
        table = place.find()
        if table is not None:
            _require_lineage(source.name, table)
            done = furthest(done, stored(place, table, topic_id))
        all_of_it = [TopicPartition(topic, index) for index in partitions]
        ends = cluster.offsets(dict.fromkeys(all_of_it, LATEST), READ_COMMITTED)
        firsts = cluster.offsets(dict.fromkeys(all_of_it, EARLIEST), READ_COMMITTED)
        # Before its first batch, a flow begins at the start of the log. A new partition begins at 0.
        starts = {at.partition: done.get(at.partition, 0 if done else firsts[at] or 0) for at in all_of_it}
        gaps = {
            at.partition: (starts[at.partition], first)
            for at, first in firsts.items()
            if first is not None and first > starts[at.partition]
        }
        if not gaps or not fail_on_data_loss:
            starts |= {partition: first for partition, (_, first) in gaps.items()}
            # A log may end before the table does, if it lost its last records.
            limits = {at.partition: max(end or 0, starts[at.partition]) for at, end in ends.items()}
            return Joint(table, topic_id, starts, limits)
    shown = [f"{topic}-{each} offsets {start} to {first - 1}" for each, (start, first) in sorted(gaps.items())]
    more = f" and {len(shown) - MISSING_SHOWN} more partitions" if len(shown) > MISSING_SHOWN else ""
    raise PipelineError("RECORDS_MISSING", topic=topic, missing=", ".join(shown[:MISSING_SHOWN]) + more)


class Snapshot:
    """The rows of a table and of the records after them, at one moment. Any Arrow library can read it.

    `version` is the version of the table, -1 before its first commit; `tail_rows` is the number of rows from the topic.
    """

    def __init__(self, source: Source, joint: Joint, tail: pa.Table) -> None:
        self.name, self.version = source.name, joint.version
        self._place = Place.of(source.table)
        self._files: list[StoredFile] = [] if joint.table is None else stored_files(self._place, joint.table)
        of_table = pa.schema([]) if joint.table is None else arrow_schema(joint.table.schema())
        hidden = {DELETED} if source.note.keys else set()
        added = [field for field in tail.schema if field.name not in {*of_table.names, *hidden}]
        self.schema: pa.Schema = pa.schema([*of_table, *added])
        self._tail, self._keyed = tail, None
        if source.note.keys:
            keeping = Keeping(source.note.keys, (source.note.sequence_by,), DELETED)
            self._keyed = KeyedTail.of(self._place, tail, keeping, self.schema, joint.topic_id, joint.ends)
        self.tail_rows = int(tail.num_rows)

    @property
    def columns(self) -> list[str]:
        return list(self.schema.names)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of the table file by file, then those of the topic. The total may exceed the memory."""
        filesystem = self._place.filesystem()
        rows = (batch for file in self._files for batch in read_file(filesystem, file, self.schema))
        if self._keyed is not None:
            yield from self._keyed.merged(rows)
        else:
            yield from rows
            yield from conformed(self._tail, self.schema).to_batches()

    def to_arrow(self) -> pa.Table:
        return pa.Table.from_batches(self.to_batches(), self.schema)

    def to_pandas(self) -> Any:
        require("pandas", "pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        require("polars", "polars")
        import polars as pl

        return pl.from_arrow(self.to_arrow())

    def to_duckdb(self, connection: Any = None) -> Any:
        """A relation of this connection, by default DuckDB's default one. It holds all rows in memory."""
        require("duckdb", "chronik[sql]")
        import duckdb

        return (connection or duckdb.default_connection()).from_arrow(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches()).__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<chronik.read({self.name!r}): version {self.version} of the table and {self.tail_rows} rows after it>"


def take(source: Source, *, fail_on_data_loss: bool) -> Snapshot:
    """A snapshot of a plain flow's table and topic. Raises READ_NEEDS_SPARK for another flow."""
    note = source.note
    if not note.is_plain:
        raise PipelineError("READ_NEEDS_SPARK", name=source.name, file=note.file)
    cluster = BlockingCluster(source.bootstrap, client_id=CLIENT_ID, security=source.security, is_patient=False)
    try:
        for _ in range(ATTEMPTS_MAX):
            joint = joint_of(source, cluster, fail_on_data_loss=fail_on_data_loss)
            try:
                return Snapshot(source, joint, _tail(source, joint))
            except Overtaken:
                continue
    finally:
        cluster.close()
    raise PipelineError("READ_OVERTAKEN", name=source.name, attempts=ATTEMPTS_MAX)


def _tail(source: Source, joint: Joint) -> pa.Table:
    note, made = source.note, []
    # Without a delete condition, no row of a keyed table is a deletion; not even a tombstone is.
    rows = PlainRows(note.bronze, joint.topic_id, marks_deletions=not note.keys or bool(note.delete_when))
    for partition, start in joint.starts.items():
        try:
            records = read_range(
                source.bootstrap,
                note.topic,
                partition,
                start=start,
                end=joint.ends[partition],
                topic_id=uuid_bytes(joint.topic_id) if joint.topic_id else None,
                columns=RECORD_COLUMNS,
                client_id=CLIENT_ID,
                security=source.security,
            )
            made += [rows.of(batch) for batch in records]
        except PipelineError as error:
            if error.condition in ("DATA_LOSS", "TOPIC_ID_CHANGED", "PARTITION_NOT_FOUND"):
                raise Overtaken from error
            raise
    return pa.Table.from_batches(made, rows.schema)


def _require_lineage(name: str, table: DeltaTable) -> None:
    missing = set(PROVENANCE) - {field.name for field in table.schema().fields}
    if missing:
        raise PipelineError("READ_NO_LINEAGE", name=name, columns=", ".join(sorted(missing)))


def require(package: str, install: str) -> None:
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise PipelineError("EXTRA_MISSING", what="chronik.read", package=package, install=install)
