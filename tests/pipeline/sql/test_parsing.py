"""What queries name, before anything is looked up."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from chronik.pipeline.sql.errors import SqlError
from chronik.pipeline.sql.parsing import Name, parse


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@pytest.mark.parametrize(
    ("text", "names", "columns"),
    [
        ("SELECT 1", [], []),
        ("SELECT count(*) FROM orders", ["orders"], []),
        ("FROM orders", ["orders"], None),
        ("SELECT o.Key FROM orders o JOIN clicks USING (id)", ["orders", "clicks"], ["o", "key", "id"]),
        ("SELECT a FROM orders NATURAL JOIN clicks", ["orders", "clicks"], None),
        ('SELECT max(_offset) FROM "orders.dlq"', ["orders.dlq"], ["_offset"]),
        ("SELECT value->>'$.city' FROM topics.orders WHERE key = 'a'", ["topics:orders"], ["value", "key"]),
        ("WITH late AS (SELECT * FROM orders) SELECT * FROM late, late l", ["orders"], None),
        ("WITH orders AS (SELECT 1 a) SELECT a FROM topics.orders, orders", ["topics:orders"], ["a"]),
        ("SELECT (SELECT max(x) FROM tables.t) FROM range(3)", ["tables:t"], ["x"]),
        ("DESCRIBE orders", ["orders"], None),
        ("SUMMARIZE orders", ["orders"], None),
        ("SELECT * EXCLUDE (a) FROM 'x.csv'", ["x.csv"], None),
    ],
)
def test_relations_and_columns_are_found_in_every_corner(
    connection: duckdb.DuckDBPyConnection, text: str, names: list[str], columns: list[str] | None
) -> None:
    """A relation that is missed is not found later; a column that is missed is not read."""
    query = parse(connection, text)
    expected = [Name(*each.split(":")) if ":" in each else Name("", each) for each in names]
    assert sorted(query.names) == sorted(expected)
    assert query.is_open == (columns is None)
    if columns is not None:
        assert query.columns == set(columns)


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("selec 1", "SQL_SYNTAX"),
        ("SELECT offset FROM orders", "SQL_SYNTAX"),
        ("DROP TABLE orders", "SQL_READS_ONLY"),
        ("COPY (SELECT 1) TO 'x.csv'", "SQL_READS_ONLY"),
        ("SELECT 1; SELECT 2", "SQL_READS_ONLY"),
        ("", "SQL_READS_ONLY"),
    ],
)
def test_what_does_not_read_is_refused(connection: duckdb.DuckDBPyConnection, text: str, condition: str) -> None:
    """A question must not change anything, not even a file."""
    with pytest.raises(SqlError) as raised:
        parse(connection, text)
    assert raised.value.condition == condition


def test_a_word_of_sql_that_looks_like_a_column_is_explained(connection: duckdb.DuckDBPyConnection) -> None:
    """`offset` is a common first attempt."""
    with pytest.raises(SqlError, match="call that column _offset"):
        parse(connection, "SELECT max(offset) FROM orders")
