"""Bounds of files: readers skip files by them, so a bound that is too narrow hides rows."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from chronik.pipeline.tables.statistics import file_statistics

SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("s", pa.string()),
        ("t", pa.timestamp("us", "UTC")),
        ("d", pa.date32()),
        ("b", pa.binary()),
        ("f", pa.float64()),
        ("nested", pa.struct([("i", pa.int64())])),
    ]
)


def statistics_of(rows: list[dict[str, Any]], row_group_size: int = 2) -> dict[str, Any]:
    file, footer = io.BytesIO(), []  # type: ignore[var-annotated]
    with pq.ParquetWriter(file, SCHEMA, metadata_collector=footer) as writer:
        writer.write_table(pa.Table.from_pylist(rows, SCHEMA), row_group_size=row_group_size)
    return dict(json.loads(file_statistics(footer[0], SCHEMA)))


def test_bounds_span_row_groups_and_leave_out_what_has_no_order() -> None:
    """Five rows in three groups, one of them without values."""
    moment = datetime(2026, 1, 1, 12, 0, 0, 1500, tzinfo=UTC)
    rows: list[dict[str, Any]] = [
        {"i": 5, "s": "m", "t": moment, "d": date(2026, 1, 2), "b": b"x", "f": 1.0, "nested": {"i": 1}},
        {"i": -5, "s": "a"},
        {},
        {},
        {"i": 7, "s": "z" * 40},
    ]
    assert statistics_of(rows) == {
        "numRecords": 5,
        "minValues": {"i": -5, "s": "a", "t": "2026-01-01T12:00:00.001Z", "d": "2026-01-02"},
        "maxValues": {"i": 7, "t": "2026-01-01T12:00:00.002Z", "d": "2026-01-02"},
        "nullCount": {"i": 2, "s": 2, "t": 4, "d": 4, "b": 4, "f": 4},
    }


@given(st.lists(st.tuples(st.text(max_size=50), st.integers(0, 10**15)), min_size=1, max_size=20))
def test_no_row_is_outside_its_files_bounds(rows: list[tuple[str, int]]) -> None:
    """Text goes by its code points and times by what Delta's milliseconds can say."""
    start = datetime(1990, 1, 1, tzinfo=UTC)
    made = [{"s": s, "t": start + timedelta(microseconds=us)} for s, us in rows]
    found = statistics_of(made, row_group_size=3)
    low, high = found["minValues"], found["maxValues"]
    for row in made:
        assert datetime.fromisoformat(low["t"]) <= row["t"] <= datetime.fromisoformat(high["t"])  # type: ignore[operator]
        assert low.get("s", "") <= row["s"]  # type: ignore[operator]
        assert "s" not in high or row["s"] <= high["s"]  # type: ignore[operator]
