"""Tables kept by key, compared with the simplest model: a dict that gets every record in order."""

from __future__ import annotations

import random
import tempfile
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.pipeline.tables.errors import TableError
from chronik.pipeline.tables.order import Keeping, is_not_older, last_per_key, last_per_position
from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.transactions import BatchName
from chronik.pipeline.tables.upserting import merge
from tests.pipeline.tables.rows import DELTA_SCHEMA, SCHEMA, batches_in_history, row

MARKED = SCHEMA.append(pa.field("_deleted", pa.bool_()))
BY_LOG = Keeping(("id",), (), "_deleted")


def marked(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([{**each, "_deleted": each["value"] is None} for each in rows], MARKED)


def contents(place: Place) -> dict[int, str]:
    """The table as a dict. Fails on a duplicate key."""
    rows = DeltaTable(place.uri).to_pyarrow_table().to_pylist()
    assert len({each["id"] for each in rows}) == len(rows)
    return {each["id"]: each["value"] for each in rows}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.of(str(tmp_path / "table"))


def upsert(place: Place, number: int, rows: pa.Table, keeping: Keeping = BY_LOG) -> bool:
    return merge(place, BatchName("query", number), rows, DELTA_SCHEMA, keeping)


def test_the_last_row_of_a_key_stands_and_a_tombstone_removes_it(place: Place) -> None:
    """The whole contract in two batches, rows in no particular order."""
    upsert(place, 0, marked(row(2, 1, "new"), row(0, 1, "old"), row(1, 2, "two"), row(3, 3, None)))
    assert contents(place) == {1: "new", 2: "two"}
    upsert(place, 1, marked(row(5, 2, None), row(4, 2, "again"), row(6, 3, "three")))
    assert contents(place) == {1: "new", 3: "three"}
    upsert(place, 2, marked(row(7, 2, "back")))
    assert contents(place) == {1: "new", 2: "back", 3: "three"}


def test_the_mark_of_tombstones_is_not_stored(place: Place) -> None:
    """It says something of a record, not of a row."""
    upsert(place, 0, marked(row(0, 1, "x")))
    assert pa.schema(DeltaTable(place.uri).schema().to_arrow()).names == SCHEMA.names


def test_a_batch_that_is_run_again_changes_nothing(place: Place) -> None:
    """Even when its rows would: the first run has been seen by readers."""
    assert upsert(place, 0, marked(row(0, 1, "x")))
    assert upsert(place, 1, marked(row(1, 1, None)))
    assert not upsert(place, 0, marked(row(0, 1, "x")))
    assert contents(place) == {}
    assert batches_in_history(place) == [("query", 0), ("query", 1)]


def test_offsets_beat_timestamps_within_a_partition(place: Place) -> None:
    """Producers' clocks go back; the log does not."""
    upsert(place, 0, marked(row(0, 1, "first", at_ms=1000), row(1, 1, "second", at_ms=10)))
    assert contents(place) == {1: "second"}


def test_a_key_in_two_partitions_goes_by_time(place: Place) -> None:
    """Added partitions move keys: the new partition begins with low offsets."""
    upsert(place, 0, marked(row(900, 1, "old place", at_ms=1), row(0, 1, "new place", partition=3, at_ms=2)))
    assert contents(place) == {1: "new place"}


def test_a_part_of_a_batch_keeps_what_another_part_may_need() -> None:
    """A partition may be split over tasks. In its task the row of partition 1 loses by time to offset 5 of partition 0,
    which loses to offset 9 in another task, which is older than the row of partition 1."""
    here = marked(row(5, 1, "a", at_ms=100), row(0, 1, "b", partition=1, at_ms=50))
    there = marked(row(9, 1, "c", at_ms=10))
    parts = [last_per_position(part, BY_LOG) for part in (here, there)]
    assert last_per_key(pa.concat_tables(parts), BY_LOG)["value"].to_pylist() == ["b"]


def test_a_row_older_by_its_sequence_loses_to_the_table(place: Place) -> None:
    """With a column that orders rows, arrival does not matter; of equal rows the later arrival is kept."""
    keeping = Keeping(("id",), ("_timestamp",), "_deleted")
    upsert(place, 0, marked(row(0, 1, "ten", at_ms=10), row(1, 2, "ten", at_ms=10)), keeping)
    upsert(place, 1, marked(row(2, 1, "five", at_ms=5), row(3, 2, None, at_ms=5)), keeping)
    assert contents(place) == {1: "ten", 2: "ten"}
    upsert(place, 2, marked(row(4, 1, "ten again", at_ms=10), row(5, 2, None, at_ms=11)), keeping)
    assert contents(place) == {1: "ten again"}


def test_a_row_without_key_is_refused(place: Place) -> None:
    """Every batch would add it again."""
    broken = row(0, 1, "x") | {"id": None}
    with pytest.raises(TableError) as raised:
        upsert(place, 0, marked(broken))
    assert (raised.value.condition, raised.value.parameters["column"]) == ("TABLE_KEY_NULL", "id")


def test_rows_without_order_are_refused() -> None:
    """Nothing would tell which of two rows is the last."""
    with pytest.raises(TableError) as raised:
        Keeping(("id",)).check(["id", "value"])
    assert (raised.value.condition, raised.value.parameters["option"]) == ("TABLE_OPTION_MISSING", "sequenceBy")


def test_names_with_spaces_capitals_and_quotes_are_columns_like_others(place: Place) -> None:
    """Topics are named by people."""
    schema = pa.schema([("Order Id", pa.string()), ('say "hi"', pa.int64()), ("when", pa.int64())])
    keeping = Keeping(("Order Id",), ("when",))
    for number, value in enumerate([1, 2]):
        rows = pa.Table.from_pylist([{"Order Id": "a'b", 'say "hi"': value, "when": number}], schema)
        merge(place, BatchName("query", number), rows, Schema.from_arrow(schema), keeping)
    assert DeltaTable(place.uri).to_pyarrow_table()['say "hi"'].to_pylist() == [2]


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (pa.string(), "x" * 60),
        (pa.binary(), b"\xff\x01"),
        (pa.timestamp("us", "UTC"), datetime(2026, 1, 1, 0, 0, 0, 1501, tzinfo=UTC)),
        (pa.date32(), date(2026, 1, 1)),
        (pa.decimal128(10, 2), Decimal("1.50")),
        (pa.bool_(), True),
    ],
    ids=str,
)
def test_keys_of_every_type_are_found_again(place: Place, kind: pa.DataType, key: object) -> None:
    """Files are skipped by the bounds of their keys, and bounds are rounded and cut short."""
    schema = pa.schema([("k", kind), ("n", pa.int64())])
    for number in range(2):
        rows = pa.Table.from_pylist([{"k": key, "n": number}], schema)
        merge(place, BatchName("query", number), rows, Schema.from_arrow(schema), Keeping(("k",), ("n",)))
    assert DeltaTable(place.uri).to_pyarrow_table().to_pylist() == [{"k": key, "n": 1}]


def test_several_sequence_columns_compare_in_their_order() -> None:
    """As SQL, once, spelt out."""
    assert is_not_older([]) == "true"
    assert is_not_older(["a"]) == (
        '(t."a" IS NULL AND s."a" IS NOT NULL OR s."a" > t."a"'
        ' OR (s."a" = t."a" OR s."a" IS NULL AND t."a" IS NULL) AND true)'
    )
    assert is_not_older(["a", "b"]).endswith(f"AND {is_not_older(['b'])})")


Record = tuple[int, str | None]


@settings(max_examples=30)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 6), st.one_of(st.none(), st.text("xy", max_size=2))), max_size=12), max_size=4
    ),
    st.randoms(use_true_random=False),
)
def test_a_table_equals_a_dict_told_the_same_records(batches: list[list[Record]], rng: random.Random) -> None:
    """A key has its partition; within a batch rows come from tasks in any order; each batch may be run twice."""
    with tempfile.TemporaryDirectory() as folder:
        place = Place.of(f"{folder}/table")
        expected: dict[int, str] = {}
        offset = 0
        for number, records in enumerate(batches):
            rows = []
            for key, value in records:
                rows.append(row(offset, key, value, partition=key % 3, at_ms=rng.randrange(100)))
                expected[key] = value  # type: ignore[assignment]
                offset += 1
                if value is None:
                    del expected[key]
            for _ in range(rng.choice([1, 2])):
                rng.shuffle(rows)
                cut = rng.randrange(len(rows) + 1)
                parts = [last_per_position(marked(*part), BY_LOG) for part in (rows[:cut], rows[cut:])]
                upsert(place, number, pa.concat_tables(parts))
        assert not batches or contents(place) == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 3)), st.integers(0, 3)), max_size=20))
def test_the_greatest_row_per_key_is_the_one_that_sorting_puts_last(rows: list[tuple[int, int | None, int]]) -> None:
    """Against Python's own sort, with nulls least and ties decided by position."""
    schema = pa.schema([("k", pa.int64()), ("a", pa.int64()), ("b", pa.int64()), ("at", pa.int64())])
    numbered = [{"k": k, "a": a, "b": b, "at": at} for at, (k, a, b) in enumerate(rows)]
    expected: dict[int, int] = {}
    for each in sorted(numbered, key=lambda each: (each["a"] is not None, each["a"] or 0, each["b"])):  # type: ignore[arg-type]
        expected[each["k"]] = each["at"]  # type: ignore[index, assignment]
    found = last_per_key(pa.Table.from_pylist(numbered, schema), Keeping(("k",), ("a", "b"))).to_pylist()
    assert {each["k"]: each["at"] for each in found} == expected
