"""The columns of a topic as a table, and their Arrow types: the same as in Spark's own Kafka source.

Spark checks only the first Arrow batch, so every batch has exactly this schema: all columns nullable, times in
microseconds with zone UTC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from chronik.pipeline.errors import PipelineError, hint_for

if TYPE_CHECKING:
    from collections.abc import Iterable

HEADER_TYPE: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS_TYPE: Final = pa.list_(pa.field("element", HEADER_TYPE))
ARROW_TYPES: Final[dict[str, Any]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
}
COLUMNS_WITH_HEADERS: Final = tuple(ARROW_TYPES)
COLUMNS: Final = COLUMNS_WITH_HEADERS[:-1]


def arrow_schema(columns: Iterable[str] = COLUMNS) -> pa.Schema:
    """The schema of every batch that holds these columns, in this order."""
    fields = []
    for column in columns:
        if column not in ARROW_TYPES:
            hint = hint_for(column, ARROW_TYPES)
            raise PipelineError("UNKNOWN_COLUMN", column=column, hint=hint, columns=", ".join(ARROW_TYPES))
        fields.append(pa.field(column, ARROW_TYPES[column]))
    return pa.schema(fields)
