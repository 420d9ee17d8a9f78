"""One query: its names are found, its rows come back batch by batch. Owns DuckDB's connection for that long.

with QueryResult.to("SELECT count(*) FROM orders", catalog) as answer:
    for row in answer.rows(): ...
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final, TypeVar

import duckdb

from chronik.pipeline.errors import hint_for
from chronik.pipeline.sql.errors import SqlError
from chronik.pipeline.sql.parsing import parse, tidied
from chronik.pipeline.sql.relations import Catalog, Relation

ROWS_AT_ONCE: Final = 10_000
T = TypeVar("T")
_NO_COLUMN: Final = re.compile(r'(?:Referenced column|column named|Column) "([^"]+)"')


class QueryResult:
    """`columns` are the result's names, each of them once."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, columns: list[str], known: set[str]) -> None:
        self._connection = connection
        self._known = known
        self.columns = columns

    @classmethod
    def to(cls, text: str, catalog: Catalog) -> QueryResult:
        connection = duckdb.connect(config={"python_enable_replacements": "false"})
        known: set[str] = set()
        try:
            # After two seconds it would draw a bar on stdout, in the middle of what programs read.
            connection.execute("SET enable_progress_bar = false")
            query = parse(connection, text)
            for number, name in enumerate(query.names):
                relation = catalog.find(name, query)
                if relation is not None:
                    known.update(relation.columns)
                    _offer(connection, number, name.schema, name.relation, relation)
            _interruptible(connection, lambda: connection.execute(text))
            return cls(connection, _distinct([each[0] for each in connection.description or ()]), known)
        except duckdb.Error as error:
            connection.close()
            raise _explained(error, known) from error
        except BaseException:
            connection.close()
            raise

    def rows(self) -> Iterator[tuple[Any, ...]]:
        try:
            while some := _interruptible(self._connection, lambda: self._connection.fetchmany(ROWS_AT_ONCE)):
                yield from some
        except duckdb.Error as error:
            raise _explained(error, self._known) from error

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> QueryResult:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _interruptible(connection: duckdb.DuckDBPyConnection, work: Callable[[], T]) -> T:
    """The result of `work`, which Ctrl-C ends at once.

    In this thread DuckDB would look for signals only now and then, many seconds apart when the machine is busy.
    """
    with ThreadPoolExecutor(1) as lane:
        working = lane.submit(work)
        try:
            return working.result()
        except KeyboardInterrupt:
            connection.interrupt()
            raise


def _offer(connection: duckdb.DuckDBPyConnection, number: int, schema: str, name: str, rows: Relation) -> None:
    """Makes rows readable under the name that the query uses."""
    if not schema:
        connection.register(name, rows)
        return
    connection.register(f"chronik_{number}", rows)
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_quoted(schema)}")
    view = f"{_quoted(schema)}.{_quoted(name)}"
    connection.execute(f"CREATE VIEW {view} AS SELECT * FROM chronik_{number}")  # noqa: S608 - names are quoted


def _explained(error: duckdb.Error, known: set[str]) -> SqlError:
    message = str(error)
    if isinstance(error, duckdb.BinderException) and (found := _NO_COLUMN.search(message)):
        column = found[1]
        if column not in known:
            return SqlError(
                "SQL_COLUMN_UNKNOWN", column=column, hint=hint_for(column, known), columns=", ".join(sorted(known))
            )
    return SqlError("SQL_FAILED", reason=tidied(message))


def _distinct(names: list[str]) -> list[str]:
    """`id`, `id_2`: JSON has each key once."""
    seen: dict[str, int] = {}
    distinct = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        distinct.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return distinct


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
