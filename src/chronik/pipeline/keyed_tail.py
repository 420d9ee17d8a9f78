"""Merges newer records into the rows of a keyed table, by the rule of `tables.order`. Does not use Spark.

Rows whose keys have no newer record are passed on unchanged. The others are held until all files have been read. Then
the rule is applied to them, the records, and the deletions that the table remembers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronik.pipeline.tables import deletions
from chronik.pipeline.tables.order import OFFSET, PARTITION, TOPIC_ID, Keeping, living
from chronik.pipeline.tables.place import Place

_ROW: Final = "__row__"


class KeyedTail:
    """The rows of newer records, including deletions, to be merged with the table's rows."""

    def __init__(self, rows: pa.Table, keeping: Keeping, schema: pa.Schema) -> None:
        self._rows, self._keeping, self._schema = rows, keeping, schema
        self._keys = rows.select(list(keeping.keys)).group_by(list(keeping.keys)).aggregate([])

    @classmethod
    def of(
        cls, place: Place, tail: pa.Table, keeping: Keeping, schema: pa.Schema, topic_id: str, ends: Mapping[int, int]
    ) -> KeyedTail:
        """Remembered deletions at or after `ends` belong to records after the snapshot, and are ignored."""
        assert keeping.delete_column is not None
        marked = schema.append(pa.field(keeping.delete_column, pa.bool_()))
        has_key = reduce(pc.and_, (pc.is_valid(tail[name]) for name in keeping.keys))
        rows = conformed(tail.filter(has_key), marked)
        remembered = deletions.recall(place, rows, keeping)
        return cls(pa.concat_tables([rows, _until(remembered, topic_id, ends)]), keeping, schema)

    def merged(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """All rows of the table, updated by the records."""
        held = []
        for batch in batches:
            is_touched = self._is_touched(batch)
            yield batch.filter(pc.invert(is_touched))
            held.append(batch.filter(is_touched))
        yield from self.all_of(pa.Table.from_batches(held, self._schema)).to_batches()

    def all_of(self, touched: pa.Table) -> pa.Table:
        """The updated rows of keys that have newer records; `touched` are all rows of these keys in the table."""
        assert self._keeping.delete_column is not None
        stands = pa.repeat(pa.scalar(False), touched.num_rows)
        rows = conformed(touched, self._schema).append_column(self._keeping.delete_column, stands)
        merged = living(pa.concat_tables([rows, self._rows]).combine_chunks(), self._keeping)
        return merged.select(self._schema.names)

    def _is_touched(self, batch: pa.RecordBatch) -> pa.Array:
        names = list(self._keeping.keys)
        keys = pa.table({name: batch.column(name) for name in names})
        keys = keys.append_column(_ROW, pa.array(np.arange(batch.num_rows)))
        found = keys.join(self._keys, names, join_type="inner")[_ROW].to_numpy()
        mask = np.zeros(batch.num_rows, np.bool_)
        mask[found] = True
        return pa.array(mask)


def conformed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with exactly these columns; missing ones are null."""
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _until(remembered: pa.Table, topic_id: str, ends: Mapping[int, int]) -> pa.Table:
    is_later = [
        row[TOPIC_ID] == topic_id and row[OFFSET] >= ends.get(row[PARTITION], 0)
        for row in remembered.select([TOPIC_ID, PARTITION, OFFSET]).to_pylist()
    ]
    return remembered.filter(pa.array([not each for each in is_later], pa.bool_()))
