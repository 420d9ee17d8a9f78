"""Upserts of any size, in Spark: the files that hold a key of the batch are written anew, all others stay.

    stream.writeStream.foreachBatch(upsert("/tables/orders", keys=["id"])).start()

A small batch is merged in this process as `upserting` does; a large one is joined by Spark's executors, which also
write the new files. Either way the driver commits once, under the same rule and the same name: an attempt that another
writer overtook is worth nothing, since the files it rewrote may be gone, so all of it is done again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import RemoveAction
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from chronik.pipeline.tables.errors import TableError
from chronik.pipeline.tables.files import DataFile
from chronik.pipeline.tables.maintenance import compact_if_needed
from chronik.pipeline.tables.options import TableOptions
from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.reading import FILE, stored_files
from chronik.pipeline.tables.table import NAME, QUERY_ID
from chronik.pipeline.tables.transactions import BatchName, commit_once
from chronik.pipeline.tables.upserting import (
    OFFSET,
    PARTITION,
    PROVENANCE,
    TIMESTAMP,
    TOPIC_ID,
    Keeping,
    is_not_older,
    merge,
    ready,
)
from chronik.pipeline.tables.writing import Target

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MERGE_ROWS_MAX: Final = 200_000  # keys of a batch that one process merges faster than Spark plans three joins


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
    """A function for foreachBatch. `application` outlives restarts; on Spark Connect, where the query's id cannot be
    asked for, it has to be given."""
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
    """Brings a batch into the table. False when it was there already."""
    place = options.place
    found = place.find()
    if name is not None and found is not None and name.is_in(found):
        return False  # asked again at the commit; here it saves the work
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
            committed = commit_once(place, name, partial(_attempt, rows, target, name))
    finally:
        rows.unpersist()
    if committed:
        compact_if_needed(place, above=options.compact_above)
    return committed


def last_rows(frame: DataFrame, keeping: Keeping) -> DataFrame:
    """One row per key, as `upserting.last_per_key` has it."""
    has_provenance = set(PROVENANCE) <= set(frame.columns)
    if keeping.sequence_by:
        ties = (TIMESTAMP, TOPIC_ID, PARTITION, OFFSET) if has_provenance else ()
        return _greatest(frame, keeping.keys, (*keeping.sequence_by, *ties))
    latest = _greatest(frame, (*keeping.keys, TOPIC_ID, PARTITION), (OFFSET,))
    return _greatest(latest, keeping.keys, (TIMESTAMP, TOPIC_ID, PARTITION))


def _greatest(frame: DataFrame, keys: Sequence[str], order: Sequence[str]) -> DataFrame:
    whole, by = F.struct(*map(_column, frame.columns)), F.struct(*map(_column, order))
    grouped = frame.groupBy(*map(_column, keys)).agg(F.max_by(whole, by).alias("__row__"))
    return grouped.select("__row__.*")


def _check_keys(place: Place, rows: DataFrame, keeping: Keeping) -> None:
    for name in keeping.keys:
        if count := rows.where(_column(name).isNull()).count():
            raise TableError("TABLE_KEY_NULL", count=count, column=name, uri=place.uri)


def _attempt(
    rows: DataFrame, target: Target, name: BatchName | None, table: DeltaTable | None, properties: CommitProperties
) -> None:
    """Rewrites against one version of the table, and commits if it is still the newest."""
    options, keeping = target.options, target.keeping
    table = ready(options.place, table, target.stored, target.partition_by, merge_schema=options.merge_schema)
    columns = [field.name for field in table.schema().fields]
    keys = list(keeping.keys)
    snapshot = _Snapshot(rows.sparkSession, options.place, table)
    found = snapshot.read().join(rows.select(*map(_column, keys)), keys, "left_semi")
    touched = {each[FILE] for each in found.select(FILE).distinct().collect()}
    old = snapshot.read(touched).select(*map(_column, columns))
    if keeping.sequence_by:
        same = " AND ".join(f"t.`{_escaped(key)}` = s.`{_escaped(key)}`" for key in keys)
        beaten = rows.alias("s").join(
            old.alias("t"), F.expr(f"{same} AND NOT {is_not_older(keeping.sequence_by, '`')}")
        )
        rows = rows.join(beaten.select(*(F.col(f"s.`{_escaped(key)}`") for key in keys)), keys, "left_anti")
    kept = old.join(rows.select(*map(_column, keys)), keys, "left_anti").select(*map(_column, columns))
    standing = rows
    if keeping.delete_column is not None:
        standing = rows.where(~F.coalesce(_column(keeping.delete_column), F.lit(False))).drop(keeping.delete_column)
    result = kept.unionByName(standing, allowMissingColumns=True)
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
    """One version of a table, whole or some of its files."""

    def __init__(self, spark: SparkSession, place: Place, table: DeltaTable) -> None:
        reader = spark.read.format(NAME).option("versionAsOf", str(table.version())).option("withFile", "true")
        for option, value in place.storage_options.items():
            reader = reader.option(f"storage.{option}", value)
        self._reader, self._uri = reader, place.uri

    def read(self, files: set[str] | None = None) -> DataFrame:
        reader = self._reader if files is None else self._reader.option("files", "\n".join(sorted(files)))
        return reader.load(self._uri)


def _written(rows: DataFrame, target: Target, prefix: str) -> list[DataFile]:
    """Files with these rows, made by the executors; not yet part of the table."""
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
    """A column by its whole name, dots and all."""
    return F.col(f"`{_escaped(name)}`")


def _escaped(name: str) -> str:
    return name.replace("`", "``")
