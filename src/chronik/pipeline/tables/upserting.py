"""A keyed table: of rows with equal keys one is kept, and a deletion removes it. `order` defines the rule.

`merge` merges a batch into a table. It applies the rule to the rows of the batch and the deletions that the table
remembers. Deltalake's MERGE then makes one decision per key: whether to keep the batch's row or the table's. Repeating
a batch changes nothing. If the order is total for the records of a key, the result does not depend on how records were
divided into batches; `order` describes when it is not.

The merge runs in one process; `rewriting` handles batches that are too large for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.transaction import create_table_with_add_actions

from chronik.pipeline.tables import deletions
from chronik.pipeline.tables.errors import TableError
from chronik.pipeline.tables.order import (
    PROVENANCE,
    Keeping,
    has_provenance,
    last_per_key,
    log_sql,
    newer_sql,
    quoted,
    resolve,
)
from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.schemas import missing_columns
from chronik.pipeline.tables.transactions import BatchName, StartOver, commit_once
from chronik.runtime.invariants import check

# Columns of a merge's source in addition to those of the batch's kept row.
_STANDS: Final = "__stands__"  # the batch has a kept row
_LIVES: Final = "__lives__"  # and it is not a deletion
_ENDED: Final = "__ended"  # prefix of the four provenance columns of the log-order deletion


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
    """Merges the rows of one batch into the table. False if the batch was committed before."""
    check_keys(place, rows, keeping)
    found = place.find()
    if name is not None and found is not None and name.is_in(found):
        return False
    rows = last_per_key(rows, keeping)
    remember_deletions(place, name, rows, keeping)

    def attempt(table: DeltaTable | None, properties: CommitProperties) -> None:
        table = ready(place, table, schema, partition_by, merge_schema=merge_schema)
        source = _source(rows, deletions.recall(place, rows, keeping), keeping)
        if source.num_rows:
            _merge(table, source, rows.column_names, keeping, properties)

    return commit_once(place, name, attempt)


def remember_deletions(place: Place, name: BatchName | None, rows: pa.Table, keeping: Keeping) -> None:
    """Remembers the deletions among rows from `last_per_key`."""
    if keeping.delete_column is not None:
        is_deletion = pc.fill_null(rows[keeping.delete_column], False)
        deletions.remember(place, name, rows.filter(is_deletion), keeping)


def ready(
    place: Place, table: DeltaTable | None, schema: Schema, partition_by: Sequence[str], *, merge_schema: bool
) -> DeltaTable:
    """The table with all columns of `schema`. Creating or extending it is a separate commit, then the attempt
    restarts."""
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


def _source(rows: pa.Table, remembered: pa.Table, keeping: Keeping) -> pa.Table:
    """One row for each key to which the batch contributes a row or a deletion."""
    every = pa.concat_tables([remembered, rows])
    found = resolve(every, keeping)
    is_new = (found.standing >= remembered.num_rows) | (found.ended_by >= remembered.num_rows)
    standing, ended_by = found.standing[is_new], found.ended_by[is_new]
    check(
        bool(((standing >= 0) | (ended_by >= 0)).all()),
        "19 a batch says something of each of its keys",
        keys=len(standing),
    )
    source = every.take(pa.array(np.where(standing >= 0, standing, ended_by)))
    stands = standing >= 0
    source = source.append_column(_STANDS, pa.array(stands))
    source = source.append_column(_LIVES, pa.array(stands & ~found.ranked.deletes[standing]))
    if has_provenance(rows.column_names):
        ends = pa.array(ended_by, mask=ended_by < 0)
        for name in PROVENANCE:
            source = source.append_column(_ENDED + name, every[name].take(ends))
    return source


def _merge(
    table: DeltaTable, source: pa.Table, columns: Sequence[str], keeping: Keeping, properties: CommitProperties
) -> None:
    has_log = has_provenance(columns)
    values = {quoted(column): f"s.{quoted(column)}" for column in keeping.stored(columns)}
    same = " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in keeping.keys)
    gone = f"s.{_STANDS} AND {newer_sql(keeping.sequence(columns), has_log=has_log)}"
    if has_log:
        gone = f"({gone} OR s.{quoted(_ENDED + PROVENANCE[0])} IS NOT NULL AND {log_sql(_ENDED)})"
    # Not streamed: the batch is in memory anyway, and its key ranges let MERGE skip files.
    merger = table.merge(source, same, "s", "t", streamed_exec=False, commit_properties=properties)
    merger = merger.when_matched_delete(f"NOT s.{_LIVES} AND {gone}")
    merger = merger.when_matched_update(values, predicate=f"s.{_LIVES} AND {gone}")
    merger.when_not_matched_insert(values, predicate=f"s.{_LIVES}").execute()
