"""An SQL condition on one record, for `chronik consume --where`. It can access nothing but the row.

DuckDB evaluates it without files, network, extensions or other threads, in bounded memory, and its configuration is
locked. A record for which the condition is NULL or fails, for example because its value is not JSON, does not match.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import duckdb
import pyarrow as pa

from chronik.pipeline.sql.errors import SqlError
from chronik.pipeline.sql.parsing import tidied, why_unreadable

LOCKED: Final = {
    "python_enable_replacements": "false",
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "memory_limit": "512MB",
    "temp_directory": "",
    "threads": "1",
}
SCHEMA: Final = pa.schema(
    [
        ("_topic", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_timestamp", pa.timestamp("ms", "UTC")),
        ("key", pa.string()),
        ("value", pa.string()),
        ("_headers", pa.map_(pa.string(), pa.string())),
    ]
)
FIELDS_HINT: Final = f"The columns are {', '.join(SCHEMA.names)}; a field of a JSON value is value->>'$.NAME'"


class Condition:
    """Raises SqlError for an invalid condition, or an unknown column."""

    def __init__(self, text: str) -> None:
        self._connection = duckdb.connect(config=LOCKED)
        self._connection.execute("SET enable_progress_bar = false; SET lock_configuration = true")
        try:
            self._query = self._prepared(text)
        except BaseException:
            self.close()
            raise

    def matching(self, rows: Sequence[Mapping[str, Any]]) -> list[int]:
        """Indexes of the matching rows, ascending. A row has the columns of SCHEMA."""
        table = pa.Table.from_pylist([dict(row) for row in rows], schema=SCHEMA)
        table = table.append_column("_place", pa.array(range(len(rows)), pa.int64()))
        try:
            self._connection.register("records", table)
            return [place for (place,) in self._connection.execute(self._query).fetchall()]
        except duckdb.Error as error:
            raise SqlError("SQL_FAILED", reason=tidied(str(error))) from error
        finally:
            self._connection.unregister("records")

    def close(self) -> None:
        self._connection.close()

    def _prepared(self, text: str) -> str:
        if not text.strip():
            raise SqlError("SQL_SYNTAX", reason="there is no condition")
        # The line break ends a trailing comment in the condition.
        query = f"SELECT _place FROM records WHERE ({text}\n)"  # noqa: S608 - what the user asks is what runs
        [[answer]] = self._connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchall()
        tree = json.loads(answer)
        if tree["error"]:
            raise SqlError("SQL_SYNTAX", reason=why_unreadable(self._connection, query, tree))
        statements = tree["statements"]
        # `1) OR (1` is still one condition; `1) UNION (SELECT 1` is something else.
        if len(statements) != 1 or statements[0]["node"]["type"] != "SELECT_NODE":
            raise SqlError("SQL_CONDITION_ONLY")
        guarded = f"SELECT _place FROM records WHERE TRY(({text}\n)) ORDER BY _place"  # noqa: S608
        try:
            # On a row of NULLs only real mistakes fail: names, types, literals. They are reported; TRY would hide them.
            schema = SCHEMA.append(pa.field("_place", pa.int64()))
            self._connection.register("records", pa.Table.from_pylist([{}], schema=schema))
            self._connection.execute(query).fetchall()
        except duckdb.BinderException as error:
            raise SqlError("SQL_FAILED", reason=f"{tidied(str(error))}\n{FIELDS_HINT}") from error
        except duckdb.Error as error:
            raise SqlError("SQL_FAILED", reason=tidied(str(error))) from error
        try:
            self._connection.execute(guarded).fetchall()
        except duckdb.Error:  # TRY cannot contain a subquery
            return f"{query} ORDER BY _place"
        return guarded
