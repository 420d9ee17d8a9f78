"""The columns of a topic in Spark's types, and the selection by a user's schema.

A user's schema prunes: with `.schema("value binary, offset long")` workers build only these two columns. Spark itself
does not tell a Python source which columns a query uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from chronik.pipeline import sink_options
from chronik.pipeline.columns import COLUMNS, COLUMNS_WITH_HEADERS
from chronik.pipeline.errors import PipelineError, hint_for

if TYPE_CHECKING:
    from collections.abc import Mapping

HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
TYPES: Final = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
}


def schema_of(*, include_headers: bool) -> StructType:
    names = COLUMNS_WITH_HEADERS if include_headers else COLUMNS
    return StructType([StructField(name, TYPES[name]) for name in names])


def columns_of(schema: StructType) -> tuple[str, ...]:
    """The column names in a schema, checked against a topic's columns and their types."""
    for field in schema.fields:
        if field.name not in TYPES:
            hint = hint_for(field.name, TYPES)
            raise PipelineError("UNKNOWN_COLUMN", column=field.name, hint=hint, columns=", ".join(TYPES))
        expected = TYPES[field.name].simpleString()
        found = field.dataType.simpleString() + ("" if field.nullable else " not null")
        if found != expected:
            raise PipelineError("COLUMN_TYPE_MISMATCH", column=field.name, found=found, expected=expected)
    return tuple(schema.fieldNames())


def sink_options_of(options: Mapping[str, str], schema: StructType, *, overwrites: bool) -> sink_options.SinkOptions:
    """A writer's options, after all checks that are possible before the first row."""
    made = sink_options.parse(options)
    if overwrites:
        raise PipelineError("OVERWRITE_REFUSED")
    sink_options.require_columns([(each.name, each.dataType.simpleString()) for each in schema.fields], made)
    return made
