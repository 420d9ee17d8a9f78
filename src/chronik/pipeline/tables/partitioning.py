"""Splits rows by the values of a table's partition columns. Pure: Arrow in, Arrow out.

Delta stores partition values as text in its log and omits the columns from the files. Delta treats an empty text as
null, so it is null here too. Files of all partitions are in one folder: the log assigns them, so no value has to work
as a directory name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from chronik.pipeline.tables.errors import TableError

PartitionValues = tuple[str | None, ...]
_ROW = "__row__"


def check_partition_columns(schema: pa.Schema, columns: Sequence[str]) -> None:
    """Each column must exist and have a type with a text form, and at least one column must remain for the files."""
    for name in columns:
        kind = schema.field(name).type
        if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_floating(kind):
            raise TableError(
                "TABLE_COLUMN_UNFIT", column=name, found=str(kind), reason="a table cannot be partitioned by it"
            )
    if columns and len(columns) == len(schema):
        raise TableError(
            "TABLE_OPTION_INVALID",
            option="partitionBy",
            value=",".join(columns),
            reason="at least one column must remain for the files",
        )


def split(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[PartitionValues, pa.RecordBatch]]:
    """Parts of `batch` with equal values of `columns`, without these columns, in row order."""
    if not columns:
        yield (), batch
        return
    rest = batch.drop_columns(list(columns))
    keyed = pa.table([batch.column(name) for name in columns], names=[f"c{i}" for i in range(len(columns))])
    keyed = keyed.append_column(_ROW, pa.array(range(batch.num_rows), pa.int64()))
    groups = keyed.group_by(keyed.column_names[:-1], use_threads=False).aggregate([(_ROW, "list")])
    for group in groups.to_pylist():
        values = tuple(as_text(group[f"c{i}"]) for i in range(len(columns)))
        yield values, rest.take(pa.array(group[f"{_ROW}_list"], pa.int64()))


def as_text(value: Any) -> str | None:
    """The text of a partition value in Delta's log."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return (value.astimezone(UTC) if value.tzinfo else value).strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str | int | Decimal):
        return str(value)
    raise TypeError(f"no partition value: {value!r}")  # check_partition_columns let it through
