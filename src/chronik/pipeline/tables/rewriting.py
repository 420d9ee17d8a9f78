"""Upserts of any size, in Spark: the files that hold a key of the batch are rewritten, all others stay.

    stream.writeStream.foreachBatch(upsert("/tables/orders", keys=["id"])).start()

A small batch is merged in this process, as in `upserting`. A large one is joined with the table's rows on the
executors, which apply the rule of `order` and write the new files. Either way the driver commits once, under the same
name. If another writer commits first, the attempt is discarded and repeated, because the files it rewrote may be gone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import RemoveAction
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from chronik.pipeline.tables.deletions import WRITTEN_AT, place_of
from chronik.pipeline.tables.errors import TableError
from chronik.pipeline.tables.files import DataFile
from chronik.pipeline.tables.maintenance import tidy_if_needed
from chronik.pipeline.tables.options import TableOptions
from chronik.pipeline.tables.order import Keeping, last_per_key, living
from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.reading import FILE, stored_files
from chronik.pipeline.tables.table import NAME, QUERY_ID
from chronik.pipeline.tables.transactions import BatchName, commit_once
from chronik.pipeline.tables.upserting import merge, ready, remember_deletions
from chronik.pipeline.tables.writing import Target

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MERGE_ROWS_MAX: Final = 200_000  # up to this many keys, one process merges faster than Spark plans three joins

_ARRIVAL: Final = "__arrival__"


def upsert(
    path: str,
    *,
    keys: Sequence[str],
    sequence_by: Sequence[str] = (),
    delete_column: str | None = None,
    partition_by: Sequence[str] = (),
    merge_schema: bool = False,
    application: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    merge_rows_max: int = MERGE_ROWS_MAX,
) -> Callable[[DataFrame, int], None]:
    """A function for foreachBatch. `application` must survive restarts; on Spark Connect, which cannot return the
    query's id, it is required."""
    options = TableOptions(
        place=Place.of(path, storage_options),
        mode="upsert",
        keys=tuple(keys),
        sequence_by=tuple(sequence_by),
        delete_column=delete_column,
        partition_by=tuple(partition_by),
        merge_schema=merge_schema,
    )

    def run(frame: DataFrame, number: int) -> None:
        name = BatchName(application or _query_id(frame.sparkSession, options.place), number)
        upsert_frame(frame, name, options, merge_rows_max=merge_rows_max)

    return run


def _query_id(spark: SparkSession, place: Place) -> str:
    """Spark sets it on the thread that runs a stream's batches."""
    context = getattr(spark, "sparkContext", None)
    found = context.getLocalProperty(QUERY_ID) if context is not None else None
    if not found:
        raise TableError("TABLE_NO_QUERY_ID", uri=place.uri)
    return str(found)


def upsert_frame(
    frame: DataFrame, name: BatchName | None, options: TableOptions, *, merge_rows_max: int = MERGE_ROWS_MAX
) -> bool:
    """Merges a batch into the table. False if it was committed before."""
    place = options.place
    found = place.find()
    if name is not None and found is not None and name.is_in(found):
        return False  # checked again at the commit; here it saves the work
    target = Target.of(options, frame.schema.json())
    keeping = target.keeping
    rows = last_rows(frame, keeping).persist()
    try:
        _check_keys(place, rows, keeping)
        if rows.count() <= merge_rows_max:
            collected = rows.toArrow().select(frame.columns).cast(target.incoming)
            committed = merge(
                place,
                name,
                collected,
                target.stored,
                keeping,
                partition_by=target.partition_by,
                merge_schema=options.merge_schema,
            )
        else:
            _remember_deletions(rows, target, name)
            committed = commit_once(place, name, partial(_attempt, rows, target, name))
    finally:
        rows.unpersist()
    if committed:
        tidy_if_needed(place, above=options.compact_above)
    return committed


def last_rows(frame: DataFrame, keeping: Keeping) -> DataFrame:
    """A batch's result for each key, as in `order.last_per_key`."""
    return _by_key(frame, keeping, last_per_key)


def _by_key(frame: DataFrame, keeping: Keeping, rule: Callable[[pa.Table, Keeping], pa.Table]) -> DataFrame:
    """Applies a rule of `order` on the executors: rows of a key are in one task, earlier arrivals first."""

    def apply(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if held := list(batches):
            rows = pa.Table.from_batches(held)
            if _ARRIVAL in rows.column_names:
                rows = rows.take(pc.sort_indices(rows, sort_keys=[(_ARRIVAL, "ascending")]))
            yield from rule(rows, keeping).to_batches()

    return frame.repartition(*map(_column, keeping.keys)).mapInArrow(apply, frame.schema)


def _check_keys(place: Place, rows: DataFrame, keeping: Keeping) -> None:
    for name in keeping.keys:
        if count := rows.where(_column(name).isNull()).count():
            raise TableError("TABLE_KEY_NULL", count=count, column=name, uri=place.uri)


def _remember_deletions(rows: DataFrame, target: Target, name: BatchName | None) -> None:
    """Like `upserting`; deletions are few columns, so they are collected."""
    keeping = target.keeping
    if keeping.delete_column is not None:
        named = [*keeping.order_columns(rows.columns), keeping.delete_column]
        found = rows.where(_column(keeping.delete_column)).select(*map(_column, named)).toArrow()
        kinds = pa.schema([target.incoming.field(each) for each in named])
        remember_deletions(target.options.place, name, found.cast(kinds), keeping)


def _attempt(
    rows: DataFrame, target: Target, name: BatchName | None, table: DeltaTable | None, properties: CommitProperties
) -> None:
    """Rewrites one version of the table, and commits if it is still the newest."""
    options, keeping = target.options, target.keeping
    table = ready(options.place, table, target.stored, target.partition_by, merge_schema=options.merge_schema)
    columns = [field.name for field in table.schema().fields]
    keys = list(keeping.keys)
    wanted = rows.select(*map(_column, keys)).distinct()
    snapshot = _Snapshot(rows.sparkSession, options.place, table)
    found = snapshot.read().join(wanted, keys, "left_semi")
    touched = {each[FILE] for each in found.select(FILE).distinct().collect()}
    every = snapshot.read(touched).select(*map(_column, columns)).withColumn(_ARRIVAL, F.lit(0))
    if keeping.delete_column is not None:
        every = every.withColumn(keeping.delete_column, F.lit(False))
        place = place_of(options.place)
        if (remembered := place.find()) is not None:
            known = _Snapshot(rows.sparkSession, place, remembered).read().drop(FILE, WRITTEN_AT)
            known = known.join(wanted, keys, "left_semi").withColumn(_ARRIVAL, F.lit(0))
            known = known.withColumn(keeping.delete_column, F.lit(True))
            every = every.unionByName(known, allowMissingColumns=True)
    every = every.unionByName(rows.withColumn(_ARRIVAL, F.lit(1)), allowMissingColumns=True)
    result = _by_key(every, keeping, living).select(*map(_column, columns))
    files = _written(result, target, f"b{name.number}" if name else "w")
    now_ms = time.time_ns() // 1_000_000
    removed = [
        RemoveAction(file.path, True, now_ms, file.size_bytes)
        for file in stored_files(options.place, table)
        if file.path in touched
    ]
    actions = [*(file.added(target.partition_by) for file in files), *removed]
    if actions:
        table.create_write_transaction(
            actions,
            "append",
            table.schema(),
            partition_by=list(target.partition_by),
            commit_properties=properties,
        )


class _Snapshot:
    """One version of a table, or some of its files."""

    def __init__(self, spark: SparkSession, place: Place, table: DeltaTable) -> None:
        reader = spark.read.format(NAME).option("versionAsOf", str(table.version())).option("withFile", "true")
        for option, value in place.storage_options.items():
            reader = reader.option(f"storage.{option}", value)
        self._reader, self._uri = reader, place.uri

    def read(self, files: set[str] | None = None) -> DataFrame:
        reader = self._reader if files is None else self._reader.option("files", "\n".join(sorted(files)))
        return reader.load(self._uri)


def _written(rows: DataFrame, target: Target, prefix: str) -> list[DataFile]:
    """Files with these rows, written by the executors; not yet part of the table."""
    appending = replace(target.options, mode="append", keys=(), sequence_by=(), delete_column=None)
    plain = Target(appending, rows.schema.json(), target.partition_by)

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        output = plain.write(batches, f"{prefix}-{context.partitionId()}")
        yield pa.RecordBatch.from_pydict({"file": [json.dumps(asdict(file)) for file in output.files]})

    told = rows.mapInArrow(write, "file string").collect()
    return [DataFile(**{**(made := json.loads(each["file"])), "partition": tuple(made["partition"])}) for each in told]


def _column(name: str) -> Column:
    """A column by its full name, including dots."""
    return F.col(f"`{_escaped(name)}`")


def _escaped(name: str) -> str:
    return name.replace("`", "``")
