"""Statistics of a data file for the Delta log: row count, and minimum, maximum and null count of columns.

All values come from the Parquet footer; data is never read. A bound may be too wide but never too narrow, because
readers skip files by it: truncated text has no maximum, and a time is rounded outwards to Delta's milliseconds. Columns
whose order Delta does not define (binary, nested, boolean, float with its NaN) have no bounds.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

TEXT_CHARACTERS_MAX: Final = 32  # like Delta's other writers: enough to tell files apart, small enough for the log
MILLISECOND: Final = timedelta(milliseconds=1)


def file_statistics(metadata: pq.FileMetaData, schema: pa.Schema) -> str:
    """The `stats` of an add action."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    null_count: dict[str, int] = {}
    top_level = set(schema.names)
    for index in range(metadata.num_columns):
        name = metadata.schema.column(index).path
        if name not in top_level:
            continue  # a leaf inside a struct, a list or a map
        groups = [metadata.row_group(group).column(index).statistics for group in range(metadata.num_row_groups)]
        if not groups or any(each is None or not each.has_null_count for each in groups):
            continue
        null_count[name] = sum(each.null_count for each in groups)
        bounded = [each for each in groups if each.num_values]
        if bounded and all(each.has_min_max for each in bounded):
            low = _lower(min(each.min for each in bounded))
            high = _upper(max(each.max for each in bounded))
            if low is not None:
                least[name] = low
            if high is not None:
                greatest[name] = high
    return json.dumps(
        {"numRecords": metadata.num_rows, "minValues": least, "maxValues": greatest, "nullCount": null_count}
    )


def _lower(value: Any) -> int | str | None:
    if isinstance(value, str):
        return value[:TEXT_CHARACTERS_MAX]  # a prefix sorts before the full text
    if isinstance(value, datetime):
        return _instant(value - timedelta(microseconds=value.microsecond % 1000))
    return _exact(value)


def _upper(value: Any) -> int | str | None:
    if isinstance(value, str):
        return value if len(value) <= TEXT_CHARACTERS_MAX else None
    if isinstance(value, datetime):
        excess = value.microsecond % 1000
        return _instant(value + (MILLISECOND - timedelta(microseconds=excess) if excess else timedelta(0)))
    return _exact(value)


def _exact(value: Any) -> int | str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, date):
        return value.isoformat()
    return None


def _instant(value: datetime) -> str | None:
    if value.tzinfo is None:
        return None
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
