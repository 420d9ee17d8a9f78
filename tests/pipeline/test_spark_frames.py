"""Columns on empty frames, and what becomes of values: a real Spark, no broker, no record."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chronik.pipeline.declarations import Bronze
from chronik.pipeline.expectations import expect
from chronik.pipeline.frames import EmptyFrames
from chronik.pipeline.rows import ERROR_CLASS, ERROR_MESSAGE, RECORD_SCHEMA, decoded, judged
from tests.pipeline.fakes import plan_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

HEAD = "from chronik.pipeline import LINEAGE, bronze, expect, gold, silver\n"
RAW = '@bronze(topic="orders", decode="json", schema="{}")\ndef raw(records):\n    return records\n'
SILVER = "@silver({})\ndef orders(raw):\n    return {}\n"


@pytest.mark.parametrize(
    ("text", "condition", "words"),
    [
        (RAW.format("id lnog"), "SCHEMA_INVALID", "lnog"),
        (RAW.format("id long") + SILVER.format("", "raw.withColumn('a', raw.nothing)"), "FUNCTION_FAILED", "nothing"),
        (RAW.format("id long") + SILVER.format("", "1 / 0"), "FUNCTION_FAILED", "division by zero"),
        (RAW.format("id long") + SILVER.format("", "None"), "FUNCTION_RETURNS", "NoneType"),
        (RAW.format("id long") + SILVER.format("", "raw.select('id')"), "LINEAGE_LOST", "_topic_id, _partition"),
        (RAW.format("id long") + SILVER.format("keys=['ID'], sequence_by='id'", "raw"), "COLUMN_NOT_FOUND", "'ID'"),
        (
            RAW.format("id long") + SILVER.format("expectations=[expect('a', 'idd > 1')]", "raw"),
            "EXPECTATION_INVALID",
            "idd",
        ),
        (RAW.format("id long") + SILVER.format("expectations=[expect('a', 'id')]", "raw"), "EXPECTATION_INVALID", "id"),
        (RAW.format("id long") + SILVER.format("", "raw.select(*LINEAGE, 'id')"), "", ""),
    ],
)
def test_what_a_function_gets_wrong_is_told_before_it_runs(
    spark: SparkSession, tmp_path: Path, text: str, condition: str, words: str
) -> None:
    """With the line of the function, in one line, and without a plan of Spark's."""
    plan = plan_of(tmp_path, HEAD + text, frames=EmptyFrames(spark))
    assert [error.condition for error in plan.errors] == ([condition] if condition else [])
    for error in plan.errors:
        assert words in error.sentence
        assert error.line in (3, 6)
        assert "\n" not in error.sentence


CASES: list[tuple[bytes | None, str | None]] = [
    (b'{"n": 1, "t": "x"}', None),
    (b'  {"n": 1}\n', None),
    (b"{}", None),
    (b'{"n": null}', None),
    (b'{"n": 1, "new": 2}', None),
    (b'{"n": 1, "t": 5}', None),
    (None, None),
    (b'{"n": 1', "VALUE_NOT_JSON"),
    (b"null", "VALUE_NOT_JSON"),
    (b"[]", "VALUE_NOT_JSON"),
    (b'"n"', "VALUE_NOT_JSON"),
    (b"", "VALUE_NOT_JSON"),
    (b'{"n": 1} x', "VALUE_NOT_JSON"),
    (b'{"n": 1}{"n": 1}', "VALUE_NOT_JSON"),
    (b'{"n": 1},{"n": 1}', "VALUE_NOT_JSON"),
    (b"{'n': 1}", "VALUE_NOT_JSON"),
    (b'{"n": 1, "n": 2}', "VALUE_NOT_JSON"),
    (b'{"t": "\\ud800"}', "VALUE_NOT_JSON"),
    (b'{"n": "1"}', "VALUE_WRONG_TYPE"),
    (b'{"n": 1.5}', "VALUE_WRONG_TYPE"),
    (b'{"n": true}', "VALUE_WRONG_TYPE"),
    (b'{"n": 99999999999999999999}', "VALUE_WRONG_TYPE"),
    (b'{"n": {"a": 1}}', "VALUE_WRONG_TYPE"),
    (b'{"t": "\xff"}', "VALUE_NOT_UTF8"),
    (b"\xed\xa0\x80", "VALUE_NOT_UTF8"),
]


def test_every_kind_of_value_is_decoded_or_has_a_class(spark: SparkSession) -> None:
    """Spark's own parser stops after the first value and takes half of a broken one: neither may pass as a row."""
    records = [
        (None, None if value is None else bytearray(value), "t", 0, i, None, 0, None)
        for i, (value, _) in enumerate(CASES)
    ]
    frame = decoded(
        spark.createDataFrame(records, RECORD_SCHEMA), Bronze("b", "t", decode="json", schema="n long, t string"), "id"
    )
    found: dict[int, Any] = {row["_offset"]: row for row in frame.collect()}
    assert {CASES[offset][0]: row[ERROR_CLASS] for offset, row in found.items()} == dict(CASES)
    assert [offset for offset, row in found.items() if row["_unknown"] is not None and not row[ERROR_CLASS]] == [4]
    assert [offset for offset, row in found.items() if row["_deleted"]] == [6]
    assert found[0].n == 1


TYPED = "at timestamp, wall timestamp_ntz, day date, price decimal(10,2), f float, d double, n long"
TYPED += ", items array<struct<n:long, at:timestamp>>, by map<string,struct<price:decimal(4,1)>>"
# A field and its value as JSON, with the value that the row has, or with the words by which the letter names it.
RIGHT: list[tuple[str, str, Any]] = [
    ("at", '"2026-01-01T10:00:00Z"', datetime(2026, 1, 1, 10, tzinfo=UTC)),
    ("at", '"2026-01-01 10:00:00.123456789+02:00"', datetime(2026, 1, 1, 8, 0, 0, 123456, tzinfo=UTC)),
    ("at", '"2026-01-01"', datetime(2026, 1, 1, tzinfo=UTC)),
    ("at", "null", None),
    ("wall", '"2026-01-01T10:00"', datetime(2026, 1, 1, 10)),  # noqa: DTZ001 - it has none
    ("day", '"2026-01-31"', date(2026, 1, 31)),
    ("price", "12345678.90", Decimal("12345678.90")),
    ("price", "1.100", Decimal("1.10")),
    ("price", "-1", Decimal("-1.00")),
    ("price", "1e2", Decimal("100.00")),
    ("price", "null", None),
    ("f", "0.5", 0.5),
    ("f", "1", 1.0),
    ("d", "1e308", 1e308),
    ("items", '[{"n": 1, "at": "2026-01-01T00:00:00Z"}, null]', [(1, datetime(2026, 1, 1, tzinfo=UTC)), None]),
    ("by", '{"a": {"price": 1.5}}', {"a": (Decimal("1.5"),)}),
]
WRONG: list[tuple[str, str, str]] = [
    ("at", "1700000000000", "at is no timestamp: 1700000000000; declare it long"),
    ("at", "1700000000", "at is no timestamp"),
    ("at", '"1700000000000"', "at is no timestamp"),
    ("at", '"10:00"', "at is no timestamp: 10:00"),
    ("at", '"T10:00"', "at is no timestamp"),
    ("at", '"+57440-01-01"', "at is no timestamp"),
    ("at", '"2026-02-30T00:00:00Z"', "at is no timestamp"),
    ("at", "true", "at is no timestamp"),
    ("wall", '"2026-01-01T10:00:00Z"', "wall is no timestamp_ntz"),
    ("wall", "1700000000000", "wall is no timestamp_ntz"),
    ("day", '"20260101"', "day is no date: 20260101"),
    ("day", '"2026-01-01T10:00:00Z"', "day is no date"),
    ("day", "20454", "day is no date"),
    ("price", "1.239", "price is no decimal(10,2): 1.239"),
    ("price", '"1.5"', 'price is no decimal(10,2): "1.5"'),
    ("price", "true", "price is no decimal(10,2)"),
    ("price", "{}", "price is no decimal(10,2)"),
    ("price", "123456789.00", "price is no decimal(10,2)"),
    ("price", "1.5e-3", "price is no decimal(10,2)"),
    ("f", "1e39", "f is no float: 1.0E39"),
    ("f", '"1"', "the value begins"),
    ("d", "1e400", "d is no double: Infinity"),
    ("d", '"NaN"', "the value begins"),
    ("items", '[{"n": 1}, {"at": 1700000000000}]', "items[].at is no timestamp"),
    ("items", "{}", "the value begins"),
    ("by", '{"a": {"price": 1.23}}', "by{}.price is no decimal(4,1)"),
]


def decoded_values(spark: SparkSession, bronze: Bronze, values: list[bytes], *columns: str) -> list[Any]:
    """A row for each value, in their order."""
    records = [(None, bytearray(value), "t", 0, offset, None, 0, None) for offset, value in enumerate(values)]
    rows = decoded(spark.createDataFrame(records, RECORD_SCHEMA), bronze, "id").orderBy("_offset")
    return rows.select(*columns or ("*",)).collect()


def test_a_value_is_of_its_type_or_a_dead_letter_that_names_the_field(spark: SparkSession) -> None:
    """Spark would convert milliseconds to the year 55840, which moves a watermark beyond all later rows; round a price;
    and convert too large numbers to infinity."""
    right, wrong = ([f'{{"n": 7, "{each[0]}": {each[1]}}}'.encode() for each in cases] for cases in (RIGHT, WRONG))
    bronze = Bronze("b", "t", decode="json", schema=TYPED)
    for (field, value, expected), row in zip(RIGHT, decoded_values(spark, bronze, right), strict=True):
        assert (field, value, row[ERROR_CLASS], row.n) == (field, value, None, 7)
        held = row[field]
        if isinstance(held, datetime) and field == "at":
            held = held.astimezone(UTC)
        if isinstance(held, list):
            held = [item and (item.n, item.at.astimezone(UTC)) for item in held]
        assert held == expected, (field, value)
    found = decoded_values(spark, bronze, wrong, ERROR_CLASS, ERROR_MESSAGE)
    for (field, value, words), row in zip(WRONG, found, strict=True):
        assert (field, value, row[ERROR_CLASS]) == (field, value, "VALUE_WRONG_TYPE")
        assert words in row[ERROR_MESSAGE], (field, value)


NESTED = "a struct<b:long, c:struct<d:long>>, items array<struct<b:long>>, by map<string,struct<b:long>>, t string"
UNKNOWN: list[tuple[str, str]] = [
    ('{"a": {"b": 1, "new": 2}}', "a.new"),
    ('{"a": {"c": {"d": 1, "e": {"f": 1}}}}', "a.c.e"),
    ('{"items": [{"b": 1}, {"b": 2, "new": 3}]}', "items[].new"),
    ('{"by": {"any key": {"b": 1, "new": 2}}}', "by{}.new"),
    ('{"a": {"new": null}, "z": 1}', "z, a.new"),
    ('{"a": {"b": 1, "c": {"d": 1}}, "items": [{"b": 1}, null], "by": {"any": null}, "t": {"free": 1}}', ""),
    ('{"a": null, "items": [], "by": {}}', ""),
]


def test_fields_that_the_schema_does_not_know_are_found_at_every_depth(spark: SparkSession) -> None:
    """A producer that adds a field adds it where it belongs, and that is seldom the top."""
    values = [value.encode() for value, _ in UNKNOWN]
    keeping = decoded_values(spark, Bronze("b", "t", decode="json", schema=NESTED), values)
    for (value, paths), row in zip(UNKNOWN, keeping, strict=True):
        assert (value, row[ERROR_CLASS], row["_unknown"]) == (value, None, value if paths else None)
    strict = Bronze("b", "t", decode="json", schema=NESTED, unknown_fields="dlq")
    for (value, paths), row in zip(UNKNOWN, decoded_values(spark, strict, values), strict=True):
        assert (value, row[ERROR_CLASS]) == (value, "VALUE_UNKNOWN_FIELD" if paths else None)
        assert row[ERROR_MESSAGE] == (f"the schema does not know {paths}" if paths else None)


def test_a_row_without_key_is_kept_out_of_a_table_by_key(spark: SparkSession) -> None:
    """Unless an expectation has said what becomes of it."""
    rows = spark.createDataFrame([(1, "x"), (None, "x"), (2, None), (None, None)], "id long, part string")
    assert [row._outcome for row in judged(rows, (), ("id", "part")).collect()] == ["keep", *["keyless"] * 3]
    expectation = expect("has id", "id IS NOT NULL", on_fail="drop")
    found = judged(rows, (expectation,), ("id", "part")).collect()
    assert [row._outcome for row in found] == ["keep", "drop", "keyless", "drop"]


def test_the_hardest_failed_expectation_decides_and_null_holds(spark: SparkSession) -> None:
    """A row that was to be a dead letter is not written because it was also to be dropped or warned of."""
    expectations = (
        expect("w", "n != 1", on_fail="warn"),
        expect("d", "n != 2 AND n != 4", on_fail="drop"),
        expect("q", "n != 3 AND n != 4 AND n != 5", on_fail="dlq"),
        expect("f", "n != 5", on_fail="fail"),
    )
    rows = judged(spark.createDataFrame([(n,) for n in (None, 0, 1, 2, 3, 4, 5)], "n long"), expectations).collect()
    assert [(row.n, row._outcome, row._failed) for row in rows] == [
        (None, "keep", []),
        (0, "keep", []),
        (1, "keep", ["w"]),
        (2, "drop", ["d"]),
        (3, "dlq", ["q"]),
        (4, "dlq", ["d", "q"]),
        (5, "fail", ["q", "f"]),
    ]
