"""The errors of a query, each with its text. As in the whole pipeline, the names are part of the contract."""

from __future__ import annotations

from typing import Any, Final

from chronik.pipeline.errors import PipelineError

CONDITIONS: Final[dict[str, str]] = {
    "SQL_SYNTAX": "the query cannot be read: {reason}",
    "SQL_READS_ONLY": "only one read-only statement is allowed: SELECT, FROM, WITH, DESCRIBE or SUMMARIZE",
    "SQL_NAME_UNKNOWN": "there is neither a topic nor a table {name!r}{hint}{reason}",
    "SQL_NAME_AMBIGUOUS": "{name!r} is a topic and a table: write topics.{name} or tables.{name}",
    "SQL_CONDITION_ONLY": "only one condition on a record is allowed, such as value->>'$.city' = 'Bern'",
    "SQL_COLUMN_UNKNOWN": "there is no column {column!r}{hint}; there are: {columns}",
    "SQL_FAILED": "the query failed: {reason}",
}


class SqlError(PipelineError):
    """`SqlError("SQL_NAME_UNKNOWN", name="oders", ...)`."""

    def __str__(self) -> str:
        return CONDITIONS[self.condition].format(**self.parameters)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.condition, self.parameters)


def _again(condition: str, parameters: dict[str, Any]) -> SqlError:
    return SqlError(condition, **parameters)
