"""Which records `chronik consume` shows: those that hold a pattern, and those for which a condition in SQL is true."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from chronik.cli.errors import CommandFailed, Misused

if TYPE_CHECKING:
    from chronik.client.topology import TopicPartition
    from chronik.pipeline.sql.filtering import Condition
    from chronik.wire.records import Record

Pattern = Callable[[str], Any]


def pattern_in(text: str, option: str) -> Pattern:
    """A search in RE2 syntax, whose time is linear in what it reads. Raises Misused."""
    import re2  # type: ignore[import-untyped]

    try:
        options = re2.Options()
        options.log_errors = False
        return re2.compile(text, options).search  # type: ignore[no-any-return]
    except (re2.error, UnicodeError) as error:
        raise Misused(f"{option} {text!r}: not a regular expression: {_reason(error)}") from error


class Choice:
    """Chooses records. Counts those that it looked at."""

    def __init__(self, pattern: Pattern | None, condition: Condition | None) -> None:
        self._pattern, self._condition = pattern, condition
        self.seen_count = 0

    @property
    def chooses(self) -> bool:
        return self._pattern is not None or self._condition is not None

    def of(self, at: TopicPartition, records: Sequence[Record]) -> list[Record]:
        self.seen_count += len(records)
        chosen = list(records)
        if self._pattern is not None:
            chosen = [each for each in chosen if self._is_found(each.value) or self._is_found(each.key)]
        if self._condition is not None and chosen:
            chosen = [chosen[place] for place in self._condition.matching([_row(at, each) for each in chosen])]
        return chosen

    def _is_found(self, data: bytes | None) -> bool:
        return data is not None and self._pattern is not None and self._pattern(_text(data)) is not None


def condition_of(text: str) -> Condition:
    """Needs the extra `sql`. Raises Misused for a condition that makes no sense."""
    from importlib.util import find_spec

    for package in ("duckdb", "pyarrow"):
        if find_spec(package) is None:
            raise CommandFailed(f"--where needs {package}, which is not installed: pip install 'chronik[sql]'")
    from chronik.pipeline.sql.errors import SqlError
    from chronik.pipeline.sql.filtering import Condition

    try:
        return Condition(text)
    except (SqlError, UnicodeError) as error:
        raise Misused(f"--where: {error}") from error


def _row(at: TopicPartition, record: Record) -> dict[str, Any]:
    return {
        "_topic": at.topic,
        "_partition": at.partition,
        "_offset": record.offset,
        "_timestamp": record.timestamp if record.timestamp >= 0 else None,
        "key": None if record.key is None else _text(record.key),
        "value": None if record.value is None else _text(record.value),
        "_headers": [
            (name.encode("utf-8", "replace").decode(), None if value is None else _text(value))
            for name, value in record.headers
        ],
    }


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


def _reason(error: Exception) -> str:
    told = error.args[0] if error.args else error
    return told.decode(errors="replace") if isinstance(told, bytes) else str(told)
