"""Deletions that a keyed table remembers, so that a row from before a deletion cannot restore its key.

They are a separate Delta table in the table's folder `_deletions`: keys, the columns that order rows, and the time of
the write. Delta readers skip folders whose names start with `_`, and moving or removing a table includes its deletions.
Rows are only appended; readers apply the rule of `order` to all of them.

A batch's deletions are committed before the batch itself, under the same name. A crash between the two repeats the
batch: the deletions are already committed, and the batch follows. A deletion is dropped after KEPT_HOURS; a row that
arrives after that is treated as new.
"""

from __future__ import annotations

import time
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, write_deltalake

from chronik.pipeline.tables.exclusion import compacting
from chronik.pipeline.tables.order import Keeping
from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.transactions import BatchName, commit_once
from chronik.runtime.units import HOUR_MS

FOLDER: Final = "_deletions"
WRITTEN_AT: Final = "__written_at_ms__"
KEPT_HOURS: Final = 168
TIDY_ABOVE: Final = 32  # files; then they are joined, without expired deletions


def place_of(table: Place) -> Place:
    return Place(f"{table.uri.rstrip('/')}/{FOLDER}", table.storage_options)


def remember(table: Place, name: BatchName | None, rows: pa.Table, keeping: Keeping) -> None:
    """Adds the deletions of a batch, once."""
    if not rows.num_rows:
        return
    place = place_of(table)
    noted = rows.select(keeping.order_columns(rows.column_names))
    noted = noted.append_column(WRITTEN_AT, pa.repeat(pa.scalar(_now_ms(), pa.int64()), noted.num_rows))

    def attempt(found: DeltaTable | None, properties: CommitProperties) -> None:
        write_deltalake(
            found if found is not None else place.uri,
            noted,
            mode="append",
            schema_mode="merge",
            storage_options=dict(place.storage_options),
            commit_properties=properties,
        )

    commit_once(place, name, attempt)


def recall(table: Place, rows: pa.Table, keeping: Keeping) -> pa.Table:
    """Deletions that may affect keys of `rows`, with the same columns. May include other keys."""
    found = place_of(table).find() if keeping.delete_column is not None else None
    if found is None:
        return rows.slice(0, 0)
    known = found.to_pyarrow_dataset()
    first = keeping.keys[0]
    wanted = pc.unique(rows[first]).cast(known.schema.field(first).type)
    names = [name for name in keeping.order_columns(rows.column_names) if name in known.schema.names]
    deletions = known.to_table(columns=names, filter=pc.field(first).isin(wanted))
    columns = [
        deletions[field.name].cast(field.type)
        if field.name in names
        else pa.nulls(deletions.num_rows, field.type)
        if field.name != keeping.delete_column
        else pa.repeat(pa.scalar(True, field.type), deletions.num_rows)
        for field in rows.schema
    ]
    return pa.Table.from_arrays(columns, schema=rows.schema)


def tidy(table: Place, *, kept_hours: int = KEPT_HOURS, above: int = TIDY_ABOVE) -> None:
    """Joins the files and drops expired deletions, if there are many files."""
    place = place_of(table)
    if (found := place.find()) is None or len(found.file_uris()) <= above:
        return
    with compacting(place) as is_alone:
        if is_alone:
            found = place.load()
            found.delete(f"{WRITTEN_AT} < {_now_ms() - kept_hours * HOUR_MS}")
            found.optimize.compact()


def forget(table: Place) -> None:
    """Drops all deletions: the table's content was replaced."""
    found = place_of(table).find()
    if found is not None:
        found.delete()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
