"""Executes one query: resolves its names and returns rows batch by batch. Owns the DuckDB connection meanwhile.

with QueryResult.to("SELECT count(*) FROM orders", catalog) as answer:
    for row in answer.rows(): ...
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final, TypeVar

import duckdb

from chronik.pipeline.errors import hint_for
from chronik.pipeline.sql.errors import SqlError
from chronik.pipeline.sql.filtering import LOCKED
from chronik.pipeline.sql.parsing import parse, tidied
from chronik.pipeline.sql.relations import Catalog, Relation

ROWS_AT_ONCE: Final = 10_000
T = TypeVar("T")
_NO_COLUMN: Final = re.compile(r'(?:Referenced column|column named|Column) "([^"]+)"')


class QueryResult:
    """`columns` are the result's column names, made unique."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, columns: list[str], known: set[str]) -> None:
        self._connection = connection
        self._known = known
        self.columns = columns

    @classmethod
    def to(cls, text: str, catalog: Catalog, *, locked: Mapping[str, str] | None = None) -> QueryResult:
        """`locked` is for untrusted queries: DuckDB then has no access to files, network or extensions, uses these
        settings as well, and its configuration cannot be changed."""
        settings = {"python_enable_replacements": "false"} if locked is None else {**LOCKED, **locked}
        connection = duckdb.connect(config=settings)
        known: set[str] = set()
        try:
            # After two seconds DuckDB would draw a progress bar on stdout, inside the output.
            connection.execute("SET enable_progress_bar = false")
            if locked is not None:
                connection.execute("SET lock_configuration = true")
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

    def types(self) -> list[str]:
        """DuckDB's name for the type of each column."""
        return [str(each[1]) for each in self._connection.description or ()]

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
    """The result of `work`. Ctrl-C interrupts it at once.

    In the main thread DuckDB would check for signals only rarely, many seconds apart on a busy machine.
    """
    with ThreadPoolExecutor(1) as lane:
        working = lane.submit(work)
        try:
            return working.result()
        except KeyboardInterrupt:
            connection.interrupt()
            raise


def _offer(connection: duckdb.DuckDBPyConnection, number: int, schema: str, name: str, rows: Relation) -> None:
    """Registers rows under the name that the query uses."""
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
    """Renames duplicates to `id`, `id_2`: JSON keys must be unique."""
    seen: dict[str, int] = {}
    distinct = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        distinct.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return distinct


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
