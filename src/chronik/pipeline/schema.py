"""The columns of a topic in Spark's types, and which of them a user's own schema asks for.

A user's schema prunes: `.schema("value binary, offset long")` makes workers build these two columns and no other. Spark
itself tells a Python source nothing about the columns that a query uses.
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
    """The names in a schema, all of which topics have, with the types that they have there."""
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
    """What a writer needs, after everything that can be known before the first row has been checked."""
    made = sink_options.parse(options)
    if overwrites:
        raise PipelineError("OVERWRITE_REFUSED")
    sink_options.require_columns([(each.name, each.dataType.simpleString()) for each in schema.fields], made)
    return made
