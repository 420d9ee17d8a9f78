"""Checks that rows fit a table, and allows one schema change: adding columns at the end.

Schemas are Delta's own; Spark's JSON for a schema is the same. Every column is nullable: what one query knows about
nulls must not restrict later writers of the table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable, Schema

from chronik.pipeline.tables.errors import TableError
from chronik.pipeline.tables.place import Place

HELD: Final = re.compile(
    r"string|long|integer|short|byte|float|double|boolean|binary|date|timestamp|timestamp_ntz|decimal\(\d+,\s*-?\d+\)"
)


def delta_schema(spark_json: str) -> Schema:
    """From the JSON of Spark's StructType; metadata of columns is internal to Spark and is omitted."""
    return Schema.from_json(json.dumps(_held(json.loads(spark_json), "")))


def _held(kind: Any, column: str) -> Any:
    """A type as stored in a table: nullable at every level."""
    if isinstance(kind, str):
        if not HELD.fullmatch(kind):
            reason = "a table cannot hold it: cast the column, or leave it out"
            raise TableError("TABLE_COLUMN_UNFIT", column=column, found=kind, reason=reason)
        return kind
    inside = partial(_held, column=column)
    match kind["type"]:
        case "struct":
            fields = [
                {"name": each["name"], "type": _held(each["type"], column or each["name"])} for each in kind["fields"]
            ]
            return {"type": "struct", "fields": [each | {"nullable": True, "metadata": {}} for each in fields]}
        case "array":
            return {"type": "array", "elementType": inside(kind["elementType"]), "containsNull": True}
        case "map":
            key, value = inside(kind["keyType"]), inside(kind["valueType"])
            return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
        case other:
            return inside(str(other))  # a user-defined type


def arrow_schema(schema: Schema) -> pa.Schema:
    return pa.schema(schema.to_arrow())


def missing_columns(place: Place, table: DeltaTable, rows: Schema, *, merge: bool) -> list[Any]:
    """Fields of `rows` that the table lacks: with `merge` they can be added, otherwise they are an error. Other types
    are always an error."""
    known = {field.name: field for field in table.schema().fields}
    by_lower = {name.lower(): name for name in known}
    added = []
    for field in rows.fields:
        if field.name in known:
            if field.type != known[field.name].type:
                here, there = _short(field.type), _short(known[field.name].type)
                reason = f"column {field.name!r} is {here} here and {there} there"
                raise TableError("TABLE_SCHEMA_MISMATCH", uri=place.uri, reason=reason)
        elif field.name.lower() in by_lower:
            reason = f"column {field.name!r} is spelt {by_lower[field.name.lower()]!r} there"
            raise TableError("TABLE_SCHEMA_MISMATCH", uri=place.uri, reason=reason)
        else:
            added.append(field)
    if added and not merge:
        named = ", ".join(repr(field.name) for field in added)
        raise TableError("TABLE_SCHEMA_MISMATCH", uri=place.uri, reason=f"it has no column {named}")
    return added


def check_partitioning(place: Place, table: DeltaTable, columns: Sequence[str]) -> None:
    """Files are partitioned by `columns`; the table must be too."""
    found = list(table.metadata().partition_columns)
    if list(columns) != found:
        raise TableError(
            "TABLE_PARTITIONING_MISMATCH",
            uri=place.uri,
            found=", ".join(found) or "nothing",
            asked=", ".join(columns) or "nothing",
        )


def _short(kind: Any) -> str:
    text = json.loads(kind.to_json())
    return text if isinstance(text, str) else str(text["type"])
