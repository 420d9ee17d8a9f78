"""Columns on empty frames, and what becomes of values: a real Spark, no broker, no record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chronik.pipeline.declarations import Bronze
from chronik.pipeline.expectations import expect
from chronik.pipeline.frames import EmptyFrames
from chronik.pipeline.rows import ERROR_CLASS, RECORD_SCHEMA, decoded, judged
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
