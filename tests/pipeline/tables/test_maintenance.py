"""Compaction and vacuum change no row, and never delete files that may still be needed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema

from chronik.pipeline.tables.appending import append
from chronik.pipeline.tables.errors import TableError
from chronik.pipeline.tables.files import write_files
from chronik.pipeline.tables.maintenance import VACUUM_EVERY, compact, tidy_if_needed, vacuum
from chronik.pipeline.tables.order import Keeping
from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.schemas import delta_schema
from chronik.pipeline.tables.transactions import BatchName
from chronik.pipeline.tables.upserting import merge
from tests.pipeline.tables.rows import DELTA_SCHEMA, SCHEMA, batch_of, offsets_in, written


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.of(str(tmp_path / "table"))


def fill(place: Place, count: int) -> None:
    for number in range(count):
        append(place, BatchName("query", number), written(place, [number], batch=number), DELTA_SCHEMA)


def grow_older(place: Place, *, hours: int) -> None:
    """Files are as old as the file system says."""
    then = time.time() - hours * 3600
    for file in Path(place.uri).rglob("*.parquet"):
        os.utime(file, (then, then))


def test_many_small_files_become_few_and_rows_stay(place: Place) -> None:
    """And the table still knows its batches."""
    fill(place, 6)
    assert not compact(place, above=6)
    assert compact(place, above=5)
    assert len(DeltaTable(place.uri).file_uris()) == 1
    assert offsets_in(place) == list(range(6))
    assert not append(place, BatchName("query", 5), written(place, [5], batch=5), DELTA_SCHEMA)


def test_partitions_are_counted_each_for_itself(place: Place) -> None:
    """A file per partition cannot be joined with its neighbour's."""
    schema = pa.schema([("p", pa.int64()), ("n", pa.int64())])
    rows = pa.RecordBatch.from_pylist([{"p": p, "n": p} for p in range(5)], schema)
    append(
        place, None, write_files(place, [rows], schema, ("p",), "w-0"), Schema.from_arrow(schema), partition_by=("p",)
    )
    assert not compact(place, above=2)


def test_a_failed_compaction_does_not_fail_the_batch(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """The batch is committed by then; failing it would only repeat it."""
    tidy_if_needed(place, above=1)
    assert "was not compacted" in caplog.text


def test_vacuum_takes_orphans_and_nothing_that_is_read(place: Place) -> None:
    """Leftovers of a crashed batch, once they are older than any batch can be."""
    fill(place, 2)
    [orphan] = written(place, [9], batch=9)
    assert vacuum(place, keep_hours=24) == []
    grow_older(place, hours=25)
    fresh = written(place, [10], batch=10)[0]  # of a batch that runs just now
    assert vacuum(place, keep_hours=24, dry_run=True) == [orphan.path]
    assert vacuum(place, keep_hours=24) == [orphan.path]
    assert not (Path(place.uri) / orphan.path).exists()
    assert (Path(place.uri) / fresh.path).exists()
    assert offsets_in(place) == [0, 1]


def kept_for(place: Place, setting: str) -> None:
    place.load().alter.set_table_properties({"delta.deletedFileRetentionDuration": setting})


def data_files(place: Place) -> int:
    return len(list(Path(place.uri).glob("*.parquet")))


def upserted(place: Place, first: int, count: int) -> None:
    """Batches that all update the same key, so that each leaves the previous file unreferenced."""
    for number in range(first, first + count):
        rows = pa.Table.from_batches([batch_of([number])]).set_column(0, "id", pa.array([1], pa.int64()))
        merge(place, BatchName("query", number), rows, DELTA_SCHEMA, Keeping(("id",)))
        tidy_if_needed(place, above=32)


def test_writers_vacuum_by_themselves(place: Place) -> None:
    """No other process does. An upsert may rewrite a file in each batch, so garbage grows without anything to
    compact."""
    upserted(place, 0, 1)
    kept_for(place, "interval 0 seconds")
    upserted(place, 1, 2 * VACUUM_EVERY)
    assert data_files(place) <= VACUUM_EVERY + 2
    assert offsets_in(place) == [2 * VACUUM_EVERY]


def test_writers_leave_what_the_table_keeps(place: Place) -> None:
    """Old versions can be read for a week, unless the table's setting is different."""
    upserted(place, 0, VACUUM_EVERY + 5)
    assert data_files(place) == VACUUM_EVERY + 5
    assert place.load_as_of(version=2).to_pyarrow_table()["_offset"].to_pylist() == [1]


def test_vacuum_refuses_to_keep_less_than_a_batch_takes(place: Place) -> None:
    """It would delete files that a running batch is about to commit."""
    fill(place, 1)
    with pytest.raises(TableError) as raised:
        vacuum(place, keep_hours=1, longest_batch_hours=2)
    assert raised.value.condition == "TABLE_RETENTION_TOO_SHORT"


def test_columns_are_added_only_when_asked_for(place: Place) -> None:
    """A typing error in a query must not create a permanent column; a different type never may."""
    fill(place, 1)
    wider = pa.schema([*SCHEMA, pa.field("extra", pa.int32())])
    rows = pa.RecordBatch.from_arrays([*batch_of([1]).columns, pa.array([7], pa.int32())], schema=wider)
    files = write_files(place, [rows], wider, (), "b1-0")
    with pytest.raises(TableError, match="it has no column 'extra'"):
        append(place, BatchName("query", 1), files, Schema.from_arrow(wider))
    assert append(place, BatchName("query", 1), files, Schema.from_arrow(wider), merge_schema=True)
    table = DeltaTable(place.uri).to_pyarrow_table()
    assert dict(zip(table["_offset"].to_pylist(), table["extra"].to_pylist(), strict=True)) == {0: None, 1: 7}
    other = Schema.from_arrow(SCHEMA.set(0, pa.field("id", pa.string())))
    with pytest.raises(TableError, match="column 'id' is string here and long there"):
        append(place, BatchName("query", 2), [], other)
    spelt = Schema.from_arrow(SCHEMA.set(0, pa.field("ID", pa.int64())))
    with pytest.raises(TableError, match="is spelt 'id' there"):
        append(place, BatchName("query", 2), [], spelt, merge_schema=True)


def test_another_partitioning_is_refused(place: Place) -> None:
    """Files laid out for another table would be read with wrong values."""
    fill(place, 1)
    with pytest.raises(TableError) as raised:
        append(place, None, [], DELTA_SCHEMA, partition_by=("value",))
    assert raised.value.condition == "TABLE_PARTITIONING_MISMATCH"


def test_older_versions_are_read_by_number_and_time(place: Place) -> None:
    """And a version that is not there is named."""
    fill(place, 3)
    assert place.load_as_of(version=0).count() == 1
    assert place.load_as_of().count() == 3
    with pytest.raises(TableError) as raised:
        place.load_as_of(version=9)
    assert raised.value.condition == "TABLE_VERSION_NOT_FOUND"
    with pytest.raises(TableError, match="there is no Delta table"):
        Place.of(place.uri + "x").load()


def test_sparks_schema_becomes_deltas_with_every_column_nullable() -> None:
    """A query's current knowledge about nulls must not restrict later writers."""
    spark = (
        '{"type":"struct","fields":[{"name":"a","type":"long","nullable":false,"metadata":{"x":1}},'
        '{"name":"s","type":{"type":"struct","fields":[{"name":"b","type":"binary","nullable":false,"metadata":{}}]},'
        '"nullable":false,"metadata":{}},{"name":"l","type":{"type":"array","elementType":"string",'
        '"containsNull":false},"nullable":false,"metadata":{}},{"name":"m","type":{"type":"map","keyType":"string",'
        '"valueType":"date","valueContainsNull":false},"nullable":false,"metadata":{}}]}'
    )
    found = delta_schema(spark).to_json()
    assert '"nullable":false' not in found.replace(" ", "")
    assert '"containsNull":false' not in found.replace(" ", "")


def test_a_type_that_no_table_holds_is_named_with_its_column() -> None:
    """Spark has more types than tables; users usually meet a null without a type."""
    for kind in ("void", "interval day to second", "variant"):
        field = {
            "name": "inner",
            "type": {"type": "array", "elementType": kind, "containsNull": True},
            "nullable": True,
        }
        outer = {"name": "outer", "type": {"type": "struct", "fields": [field]}, "nullable": True}
        with pytest.raises(TableError) as raised:
            delta_schema(json.dumps({"type": "struct", "fields": [outer]}))
        parameters = raised.value.parameters
        assert (raised.value.condition, parameters["column"], parameters["found"]) == (
            "TABLE_COLUMN_UNFIT",
            "outer",
            kind,
        )
