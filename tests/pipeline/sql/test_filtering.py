"""Conditions on a record: what they can express, and that they have access to nothing else."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("duckdb")

from chronik.pipeline.sql.errors import SqlError
from chronik.pipeline.sql.filtering import Condition


def row(offset: int, value: str | None, **others: Any) -> dict[str, Any]:
    return {
        "_topic": "t",
        "_partition": 0,
        "_offset": offset,
        "_timestamp": 1_772_362_800_000,
        "value": value,
        **others,
    }


ROWS = [
    row(0, '{"city": "Bern", "n": 5}', key="a", _headers=[("from", "x")]),
    row(1, "not json", key=None),
    row(2, None),
    row(3, '{"city": "Basel", "n": 50}', _timestamp=None),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("value->>'$.city' = 'Bern'", [0]),
        ("(value->>'$.n')::int > 4", [0, 3]),
        ("NOT (value->>'$.city' = 'Bern')", [3]),
        ("_offset BETWEEN 1 AND 2", [1, 2]),
        ("value IS NULL OR key = 'a' -- why not", [0, 2]),
        ("_timestamp < '2026-03-02T00:00:00Z'", [0, 1, 2]),
        ("list_contains(map_keys(_headers), 'from')", [0]),
        ("_offset = (SELECT max(_offset) FROM records)", [3]),
        ("_topic = 't' AND _partition = 0", [0, 1, 2, 3]),
    ],
)
def test_records_match_or_do_not(text: str, expected: list[int]) -> None:
    """A record of which it cannot be asked, such as text that is not JSON, does not match and stops nothing."""
    condition = Condition(text)
    assert condition.matching(ROWS) == expected
    assert condition.matching([]) == []
    condition.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("valu = 'x'", "valu"),
        ("_timestamp > 'yesterday'", "invalid timestamp"),
        ("value ==", "syntax error"),
        ("", "no condition"),
        ("true) UNION (SELECT 1", "only one condition"),
        ("true; SELECT 1", "syntax error"),
    ],
)
def test_a_mistake_is_told_before_a_record_is_read(text: str, message: str) -> None:
    """Not as a condition that never matches. The line shows where it is."""
    with pytest.raises(SqlError, match=message):
        Condition(text)


@pytest.mark.parametrize(
    "text",
    [
        "EXISTS (SELECT * FROM read_text('/etc/hostname'))",
        "EXISTS (FROM '/etc/passwd')",
        "EXISTS (FROM read_csv('http://127.0.0.1:1/x.csv'))",
        "EXISTS (FROM glob('/*'))",
        "getenv('HOME') IS NOT NULL",
    ],
)
def test_nothing_but_the_record_can_be_seen(text: str) -> None:
    """A condition may come from a bug report or a web page."""
    with pytest.raises(SqlError):
        Condition(text)


def test_the_lock_cannot_be_opened() -> None:
    """Not even by a separate statement, if one were ever executed."""
    import duckdb

    condition = Condition("true")
    for statement in (
        "SET enable_external_access = true",
        "SET memory_limit = '1TB'",
        "SET threads = 64",
        "COPY (SELECT 1) TO '/tmp/x'",
        "ATTACH '/tmp/x.db'",
        "INSTALL httpfs",
    ):
        with pytest.raises(duckdb.Error):
            condition._connection.execute(statement)


def test_memory_is_bounded() -> None:
    """Nothing is spilled to a disk either."""
    with pytest.raises(SqlError, match=r"[Mm]emory|temp"):
        Condition("(SELECT count(*) FROM (SELECT DISTINCT i, i::varchar FROM range(30000000) t(i))) > 0")
