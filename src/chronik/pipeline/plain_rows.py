"""Computes the rows of a plain flow without Spark: the same columns and values as `rows`.

A record that the flow would drop or send to the dead letters has no row here either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from chronik.pipeline.columns import ARROW_TYPES
from chronik.pipeline.ddl import Array, Decimal, Kind, Map, Scalar, Struct, parse_ddl, parse_type
from chronik.pipeline.declarations import DELETED, UNKNOWN, Bronze
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.json_values import Digits, WrongValue, fields_in, scalar
from chronik.pipeline.tables.order import OFFSET, PARTITION, TIMESTAMP, TOPIC_ID

_SCALARS: Final = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_LINEAGE: Final = [
    (TOPIC_ID, pa.string()),
    (PARTITION, pa.int32()),
    (OFFSET, pa.int64()),
    (TIMESTAMP, ARROW_TYPES["timestamp"]),
]
RECORD_COLUMNS: Final = ("key", "value", "partition", "offset", "timestamp", "headers")
_WHOLE_NUMBER: Final = re.compile(r"([+-]?)(?=\d)0*(\d*)", re.ASCII)
KEY_TYPES: Final = ("string", "long", "integer", "short", "byte")


class PlainRows:
    """Converts batches of records to batches of rows. Raises SCHEMA_UNREADABLE for an unsupported schema."""

    def __init__(self, bronze: Bronze, topic_id: str, *, marks_deletions: bool = True) -> None:
        self._bronze, self._topic_id, self._marks_deletions = bronze, topic_id, marks_deletions
        self._schema = parse_ddl(bronze.schema) if bronze.decode == "json" else Struct(())
        self._key_name, self._key_kind = _key_of(bronze)
        columns: dict[str, pa.DataType] = {}
        if bronze.decode == "json":
            columns = {name: arrow_type(kind) for name, kind in self._schema.fields}
            if bronze.unknown_fields == "keep":
                columns[UNKNOWN] = pa.string()
        else:
            columns = {name: ARROW_TYPES[name] for name in ("key", "value", "headers")}
        if self._key_kind is not None and self._key_name not in columns:
            columns[self._key_name] = arrow_type(self._key_kind)
        columns[DELETED] = pa.bool_()
        self.schema = pa.schema([*columns.items(), *_LINEAGE])

    def of(self, records: pa.RecordBatch) -> pa.RecordBatch:
        tried = (self.try_row(record) for record in records.to_pylist())
        return pa.RecordBatch.from_pylist([row for error, row in tried if error is None], schema=self.schema)

    def try_row(self, record: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
        """The error class of a record that would be a dead letter; otherwise None and its row, with every column."""
        try:
            row = self._row(record)
        except WrongValue as error:
            return error.error_class, {}
        return None, {name: row.get(name) for name in self.schema.names}

    def why_not(self, record: Mapping[str, Any]) -> WrongValue | None:
        """The error that makes the record a dead letter; None for a valid record."""
        try:
            self._row(record)
        except WrongValue as error:
            return error
        return None

    def _row(self, record: Mapping[str, Any]) -> dict[str, Any]:
        bronze, value = self._bronze, record["value"]
        limit_bytes = bronze.value_bytes_max
        if value is not None and limit_bytes is not None and len(value) > limit_bytes:
            shown = f"the value has {len(value)} bytes, at most {limit_bytes} are allowed"
            raise WrongValue("VALUE_TOO_LARGE", shown)
        row: dict[str, Any] = {}
        if bronze.decode == "json":
            unknown: list[str] = []
            if value is not None:
                row, unknown = fields_in(value, self._schema)
            if unknown and bronze.unknown_fields == "keep":
                row[UNKNOWN] = value.decode()
            elif unknown and bronze.unknown_fields == "dlq":
                raise WrongValue("VALUE_UNKNOWN_FIELD", f"the schema does not know {', '.join(unknown)}")
        else:
            row = {name: record[name] for name in ("key", "value", "headers")}
        if self._key_kind is not None:
            row[self._key_name] = self._key(record["key"], row.get(self._key_name), self._key_kind)
        row[DELETED] = value is None and self._marks_deletions
        row[TOPIC_ID], row[PARTITION] = self._topic_id, record["partition"]
        row[OFFSET], row[TIMESTAMP] = record["offset"], record["timestamp"]
        return row

    def _key(self, key: bytes | None, of_value: Any, kind: Scalar) -> Any:
        """The record's key as this type. A field of the same name in the value must be equal or absent."""
        name = self._key_name
        if key is None:
            raise WrongValue("KEY_MISSING", f"the record has no key, which the column {name} is")
        try:
            text: str | None = key.decode()
        except UnicodeDecodeError:
            text = None
        typed: Any = text
        if text is not None and kind.name != "string":
            found = _WHOLE_NUMBER.fullmatch(text.strip())
            typed = None if found is None else scalar(Digits(found[1].replace("+", "") + (found[2] or "0")), kind)
        if typed is None:
            raise WrongValue("KEY_MALFORMED", f"the key is no {kind}: {text if text is not None else key.hex()}")
        if of_value is not None and of_value != typed:
            raise WrongValue("KEY_DIFFERS", f"the value's {name} is not the record's key {text}")
        return typed


def arrow_type(kind: Kind) -> pa.DataType:
    """The Arrow type in which Delta's library returns a column of this type."""
    match kind:
        case Scalar(name):
            return _SCALARS[name]
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Array(item):
            return pa.list_(pa.field("element", arrow_type(item)))
        case Map(value):
            return pa.map_(pa.string(), arrow_type(value))
        case Struct(fields):
            return pa.struct([pa.field(name, arrow_type(inner)) for name, inner in fields])


def _key_of(bronze: Bronze) -> tuple[str, Scalar | None]:
    if not bronze.key:
        return "", None
    name, text = bronze.key.split(None, 1)
    kind = parse_type(text)
    if not isinstance(kind, Scalar) or kind.name not in KEY_TYPES:
        reason = f"without Spark, a key is read as one of {', '.join(KEY_TYPES)}: pass spark="
        raise PipelineError("SCHEMA_UNREADABLE", schema=bronze.key, reason=reason)
    return name.strip("`"), kind
