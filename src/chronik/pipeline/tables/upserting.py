"""A table kept by key: of rows with equal keys the last one stands, and a tombstone removes it.

Which of two rows is the last:
- with `sequence_by`, the one with the greater values there, in a batch and against the table; null is least. Of equals
  the one that comes later by the rule below;
- without it, the later one in the log: within a partition the higher offset; a key seen in two partitions of a batch,
  as happens when partitions were added, goes by the records' time; a later batch beats an earlier one.

A removed key leaves nothing behind. So with `sequence_by`, a row that is older than a key's tombstone and arrives in a
later batch than the tombstone brings the key back; order by the log has no such case.

The merge itself is deltalake's and runs in one process; `rewriting` is for batches too large for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.transaction import create_table_with_add_actions

from chronik.pipeline.tables.errors import TableError
from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.schemas import missing_columns
from chronik.pipeline.tables.transactions import BatchName, StartOver, commit_once

TOPIC_ID: Final = "_topic_id"
PARTITION: Final = "_partition"
OFFSET: Final = "_offset"
TIMESTAMP: Final = "_timestamp"
PROVENANCE: Final = (TOPIC_ID, PARTITION, OFFSET, TIMESTAMP)
_ROW: Final = "__row__"


@dataclass(frozen=True, slots=True)
class Keeping:
    """How a table is kept. `delete_column` is a boolean column that marks tombstones and is not stored."""

    keys: tuple[str, ...]
    sequence_by: tuple[str, ...] = ()
    delete_column: str | None = None

    def check(self, columns: Sequence[str]) -> None:
        """The columns that rows have must suffice to tell which one is last."""
        if not self.sequence_by and not set(PROVENANCE) <= set(columns):
            reason = f"rows carry no {', '.join(PROVENANCE)} either, so nothing tells which of two rows is the last"
            raise TableError("TABLE_OPTION_MISSING", option="sequenceBy", reason=reason)

    def stored(self, columns: Sequence[str]) -> list[str]:
        return [name for name in columns if name != self.delete_column]


def last_per_position(rows: pa.Table, keeping: Keeping) -> pa.Table:
    """The first step, for a part of a batch: drops what is beaten for certain, whatever other parts hold."""
    if keeping.sequence_by or not set(PROVENANCE) <= set(rows.column_names):
        return last_per_key(rows, keeping)
    return _greatest(rows, [*keeping.keys, TOPIC_ID, PARTITION], [OFFSET])


def last_per_key(rows: pa.Table, keeping: Keeping) -> pa.Table:
    """One row per key: the last, tombstones included."""
    has_provenance = set(PROVENANCE) <= set(rows.column_names)
    if keeping.sequence_by:
        ties = (TIMESTAMP, TOPIC_ID, PARTITION, OFFSET) if has_provenance else ()
        return _greatest(rows, keeping.keys, [*keeping.sequence_by, *ties])
    latest = _greatest(rows, [*keeping.keys, TOPIC_ID, PARTITION], [OFFSET])
    return _greatest(latest, keeping.keys, [TIMESTAMP, TOPIC_ID, PARTITION])


def _greatest(rows: pa.Table, keys: Sequence[str], order: Sequence[str]) -> pa.Table:
    """Of rows with equal keys the greatest by `order`; of equal ones the last."""
    if rows.num_rows < 2:
        return rows
    # Nulls sort last unless a column before says otherwise. Sorting need not be stable, so the position breaks ties.
    by = {}
    for position, column in enumerate(order):
        by[f"v{position}"] = pc.cast(pc.is_valid(rows[column]), pa.int8())
        by[f"c{position}"] = rows[column]
    by[_ROW] = pa.chunked_array([pa.array(range(rows.num_rows), pa.int64())])
    ranked = rows.take(pc.sort_indices(pa.table(by), sort_keys=[(name, "ascending") for name in by]))
    numbered = ranked.select(list(keys)).append_column(_ROW, pa.array(range(rows.num_rows), pa.int64()))
    winners = numbered.group_by(list(keys), use_threads=False).aggregate([(_ROW, "max")])
    return ranked.take(winners[f"{_ROW}_max"])


def check_keys(place: Place, rows: pa.Table, keeping: Keeping) -> None:
    for name in keeping.keys:
        if count := rows[name].null_count:
            raise TableError("TABLE_KEY_NULL", count=count, column=name, uri=place.uri)


def merge(
    place: Place,
    name: BatchName | None,
    rows: pa.Table,
    schema: Schema,
    keeping: Keeping,
    *,
    partition_by: Sequence[str] = (),
    merge_schema: bool = False,
) -> bool:
    """Brings the rows of one batch into the table. False when the batch was there already."""
    check_keys(place, rows, keeping)
    rows = last_per_key(rows, keeping)

    def attempt(table: DeltaTable | None, properties: CommitProperties) -> None:
        table = ready(place, table, schema, partition_by, merge_schema=merge_schema)
        if rows.num_rows:
            _merge(table, rows, keeping, properties)

    return commit_once(place, name, attempt)


def ready(
    place: Place, table: DeltaTable | None, schema: Schema, partition_by: Sequence[str], *, merge_schema: bool
) -> DeltaTable:
    """The table with room for rows of `schema`. What has to be made is a commit of its own, after which all is new."""
    if table is None:
        create_table_with_add_actions(
            place.uri,
            schema,
            [],
            mode="error",
            partition_by=list(partition_by),
            storage_options=dict(place.storage_options),
        )
        raise StartOver("created the table")
    if added := missing_columns(place, table, schema, merge=merge_schema):
        table.alter.add_columns(added, commit_properties=CommitProperties(max_commit_retries=0))
        raise StartOver(f"added {len(added)} columns")
    return table


def _merge(table: DeltaTable, rows: pa.Table, keeping: Keeping, properties: CommitProperties) -> None:
    values = {quoted(column): f"s.{quoted(column)}" for column in keeping.stored(rows.column_names)}
    same = " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in keeping.keys)
    newer = is_not_older(keeping.sequence_by)
    # Not streamed: the batch is in memory anyway, and its key ranges tell which files need not be read.
    merger = table.merge(rows, same, "s", "t", streamed_exec=False, commit_properties=properties)
    if keeping.delete_column is not None:
        deleted = f"coalesce(s.{quoted(keeping.delete_column)}, false)"
        merger = merger.when_matched_delete(f"{deleted} AND {newer}")
        merger = merger.when_not_matched_insert(values, predicate=f"NOT {deleted}")
    else:
        merger = merger.when_not_matched_insert(values)
    merger.when_matched_update(values, predicate=newer).execute()


def is_not_older(sequence_by: Sequence[str], quote: str = '"') -> str:
    """SQL: row s comes after row t or level with it, compared column by column; null is least."""
    condition = "true"
    for column in reversed(sequence_by):
        s, t = f"s.{quoted(column, quote)}", f"t.{quoted(column, quote)}"
        condition = (
            f"({t} IS NULL AND {s} IS NOT NULL OR {s} > {t}"
            f" OR ({s} = {t} OR {s} IS NULL AND {t} IS NULL) AND {condition})"
        )
    return condition


def quoted(name: str, quote: str = '"') -> str:
    """A column's name in SQL: deltalake's, or with ` in Spark's."""
    return quote + name.replace(quote, quote * 2) + quote
