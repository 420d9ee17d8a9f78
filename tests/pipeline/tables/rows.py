"""Rows for tables, as a topic's pipeline makes them, and tables as plain values to compare."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema

from chronik.pipeline.tables.files import DataFile, write_files
from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.transactions import APPLICATION_KEY, BATCH_KEY

START = datetime(2026, 1, 1, tzinfo=UTC)
PROVENANCE_FIELDS = [
    pa.field("_topic_id", pa.string()),
    pa.field("_partition", pa.int32()),
    pa.field("_offset", pa.int64()),
    pa.field("_timestamp", pa.timestamp("us", "UTC")),
]
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("value", pa.string()), *PROVENANCE_FIELDS])
DELTA_SCHEMA = Schema.from_arrow(SCHEMA)


def row(offset: int, key: int, value: str | None, *, partition: int = 0, at_ms: int | None = None) -> dict[str, Any]:
    moment = START + timedelta(milliseconds=offset if at_ms is None else at_ms)
    return {
        "id": key,
        "value": value,
        "_topic_id": "T",
        "_partition": partition,
        "_offset": offset,
        "_timestamp": moment,
    }


def batch_of(offsets: Sequence[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([row(offset, offset, f"v{offset}") for offset in offsets], SCHEMA)


def written(place: Place, offsets: Sequence[int], *, batch: int = 0) -> list[DataFile]:
    """One file with a row per offset, not yet part of the table."""
    return write_files(place, [batch_of(offsets)], SCHEMA, (), f"b{batch}-0")


def offsets_in(place: Place) -> list[int]:
    return sorted(DeltaTable(place.uri).to_pyarrow_table()["_offset"].to_pylist())


def batches_in_history(place: Place) -> list[tuple[str, int]]:
    """The named batches of a table, oldest first, once for each commit."""
    history = DeltaTable(place.uri).history()
    named = [(each[APPLICATION_KEY], int(each[BATCH_KEY])) for each in reversed(history) if BATCH_KEY in each]
    nameless = [each for each in history if BATCH_KEY not in each and each["operation"] == "WRITE"]
    assert nameless == [], "rows were written outside of any batch"
    return named
