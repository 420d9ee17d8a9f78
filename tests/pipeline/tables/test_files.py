"""Files of tables: rows in, rows out, at every edge of a row group, a file and a partition."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from hypothesis import given
from hypothesis import strategies as st

from chronik.pipeline.tables import files
from chronik.pipeline.tables.appending import append
from chronik.pipeline.tables.errors import TableError
from chronik.pipeline.tables.files import write_files
from chronik.pipeline.tables.partitioning import as_text, check_partition_columns, split
from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.reading import FILE, StoredFile, grouped, read_file, stored_files

SCHEMA = pa.schema([("day", pa.string()), ("n", pa.int64())])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.of(str(tmp_path / "table"))


def batches(*parts: list[tuple[str | None, int]]) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pylist([{"day": day, "n": n} for day, n in part], SCHEMA) for part in parts]


def read_back(place: Place, schema: pa.Schema) -> list[dict[str, object]]:
    filesystem = place.filesystem()
    found = stored_files(place, place.load())
    return [row for file in found for part in read_file(filesystem, file, schema) for row in part.to_pylist()]


def test_names_say_batch_and_task_and_never_repeat(place: Place) -> None:
    """A task that runs twice must not overwrite the file that was committed."""
    names = {write_files(place, batches([("a", 1)]), SCHEMA, (), "b7-3")[0].path for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("b7-3-") and name.endswith(".parquet") for name in names)


def test_no_rows_make_no_file(place: Place) -> None:
    """Most partitions of a quiet topic have nothing in most batches."""
    assert write_files(place, [], SCHEMA, (), "b0-0") == []


def test_a_partitioned_table_is_read_back_whole(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """With more partitions than files may be open, and null, empty and odd values among them."""
    monkeypatch.setattr(files, "OPEN_FILES_MAX", 2)
    rows = [("a", 1), ("b/ä=%20", 2), (None, 3), ("a", 4), ("c", 5), ("", 6), ("a", 7)]
    made = write_files(place, batches(rows[:4], rows[4:]), SCHEMA, ("day",), "b0-0")
    append(place, None, made, Schema.from_arrow(SCHEMA), partition_by=("day",))
    expected = sorted((n, day or None) for day, n in rows)
    assert sorted((row["n"], row["day"]) for row in read_back(place, SCHEMA)) == expected
    theirs = DeltaTable(place.uri).to_pyarrow_table().to_pylist()
    assert sorted((row["n"], row["day"]) for row in theirs) == expected


def test_a_large_task_writes_several_files(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers split work by files."""
    monkeypatch.setattr(files, "FILE_BYTES_MAX", 1)
    monkeypatch.setattr(files, "ROW_GROUP_ROWS", 2)
    made = write_files(place, batches([("a", 1), ("a", 2)], [("a", 3), ("a", 4)], [("a", 5)]), SCHEMA, (), "b0-0")
    assert [file.row_count for file in made] == [2, 2, 1]
    assert [file.size_bytes for file in made] == [(Path(place.uri) / file.path).stat().st_size for file in made]


def test_spark_zones_and_large_types_become_the_tables(place: Place) -> None:
    """Spark sends times in the session's zone; a table has UTC."""
    stored = pa.schema([("at", pa.timestamp("us", "UTC")), ("s", pa.string())])
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    sent = pa.RecordBatch.from_pydict(
        {"at": pa.array([moment], pa.timestamp("us", "Europe/Berlin")), "s": pa.array(["x"], pa.large_string())}
    )
    append(place, None, write_files(place, [sent], stored, (), "b0-0"), Schema.from_arrow(stored))
    assert read_back(place, stored) == [{"at": moment, "s": "x"}]


def test_a_column_that_a_file_is_too_old_to_have_is_null(place: Place) -> None:
    """Tables grow columns; their old files do not."""
    append(place, None, write_files(place, batches([("a", 1)]), SCHEMA, (), "b0-0"), Schema.from_arrow(SCHEMA))
    wider = pa.schema([*SCHEMA, pa.field("new", pa.float64()), pa.field(FILE, pa.string())])
    [row] = read_back(place, wider)
    assert (row["new"], str(row[FILE])[:4]) == (None, "b0-0")


def test_small_files_share_a_task() -> None:
    """And a large one has its own."""
    sizes = [1, 2, 70 << 20, 3, 63 << 20, 2 << 20]
    groups = grouped([StoredFile(str(at), size) for at, size in enumerate(sizes)])
    assert [[file.path for file in group] for group in groups] == [["0", "1"], ["2"], ["3", "4"], ["5"]]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("", None),
        ("x", "x"),
        (-7, "-7"),
        (True, "true"),
        (date(2026, 3, 1), "2026-03-01"),
        (datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC), "2026-03-01 12:00:00.000005"),
        (Decimal("1.50"), "1.50"),
    ],
)
def test_partition_values_are_written_as_delta_has_them(value: object, text: str | None) -> None:
    """Other engines read them."""
    assert as_text(value) == text


@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 3))))
def test_splitting_loses_nothing_and_keeps_the_order(rows: list[tuple[str | None, int]]) -> None:
    """Against the obvious way."""
    schema = pa.schema([("day", pa.string()), ("hour", pa.int64()), ("n", pa.int64())])
    whole = [{"day": day, "hour": hour, "n": n} for n, (day, hour) in enumerate(rows)]
    expected: dict[tuple[str | None, ...], list[int]] = {}
    for row in whole:
        expected.setdefault((row["day"], str(row["hour"])), []).append(row["n"])  # type: ignore[arg-type]
    batch = pa.RecordBatch.from_pylist(whole, schema)
    parts = {values: part["n"].to_pylist() for values, part in split(batch, ("day", "hour"))}
    assert parts == expected


@pytest.mark.parametrize("kind", [pa.float64(), pa.binary(), pa.list_(pa.int64())])
def test_columns_without_a_text_cannot_partition_a_table(kind: pa.DataType) -> None:
    """Refused before anything is written."""
    with pytest.raises(TableError) as raised:
        check_partition_columns(pa.schema([("p", kind), ("n", pa.int64())]), ["p"])
    assert raised.value.condition == "TABLE_COLUMN_UNFIT"
