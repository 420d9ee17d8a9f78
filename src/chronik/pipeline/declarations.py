"""The declarations of a pipeline as values: bronze, silver, gold and to_topic. Does not import Spark.

    from chronik.pipeline import bronze, expect, silver

    @bronze(topic="orders", decode="json", key="id long", schema="amount double, updated timestamp")
    def bronze_orders(records):
        return records

    @silver(keys=["id"], sequence_by="updated", expectations=[expect("paid", "amount > 0", on_fail="dlq")])
    def orders(bronze_orders):
        return bronze_orders.withColumn("cents", (F.col("amount") * 100).cast("long"))

A decorator creates a frozen value that records its file and line, and returns it in place of the function: loading a
file runs nothing. A function reads the tables that its parameters are named after, gets DataFrames, and returns one.
`registry` collects the values, `plan` checks them, `running` runs them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from chronik.pipeline.expectations import Expectation

# The columns of every row of a bronze or a silver that identify its record.
LINEAGE: Final = ("_topic_id", "_partition", "_offset", "_timestamp")
DELETED: Final = "_deleted"  # a record without a value deletes its key
UNKNOWN: Final = "_unknown"  # the whole value, if it has fields unknown to the schema

Transform = Callable[..., Any]  # DataFrames in, a DataFrame out
Decorator = Callable[[Transform], Any]


@dataclass(frozen=True, slots=True)
class SourceLine:
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Bronze:
    """A topic as rows: every record is either in the table or a dead letter, never both."""

    name: str
    topic: str
    decode: str = "none"  # none | json
    schema: str = ""  # schema of the value, in Spark's DDL; required for json
    key: str = ""  # one column in Spark's DDL, read from the record's key as text; a null key is then a dead letter
    unknown_fields: str = "keep"  # ignore | keep (in the column _unknown) | dlq
    value_bytes_max: int | None = None  # larger values are dead letters
    on_error: str = "dlq"  # for records that cannot be decoded: dlq | drop | fail
    start: str = "earliest"  # where the first run begins: earliest | latest | ms since 1970
    is_stored: bool = True  # False: no table; its reader handles records that cannot be decoded
    partition_by: tuple[str, ...] = ()
    transform: Transform | None = None
    declared_at: SourceLine | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Silver:
    """A keyed table: of two rows with equal keys it keeps the later by `sequence_by`, or else by log order.

    Without keys every row is appended. A row for which `delete_when` holds removes its key from the table. A deletion
    without a value of `sequence_by`, such as a tombstone, removes every row before it in the log.
    `sequence_by="_offset"` is log order itself. `tables.order` defines the complete rule.
    """

    name: str
    reads: tuple[str, ...]
    keys: tuple[str, ...] = ()
    sequence_by: str = ""
    delete_when: str = ""
    expectations: tuple[Expectation, ...] = ()
    partition_by: tuple[str, ...] = ()
    transform: Transform | None = None
    declared_at: SourceLine | None = None


@dataclass(frozen=True, slots=True)
class Gold:
    """A result computed over many rows.

    With a watermark it is a stream: results are appended when no row within the watermark can change them, and the
    input has a column `window` if `window` is set. Without, it is recomputed from its input tables whenever one of them
    changes.
    """

    name: str
    reads: tuple[str, ...]
    watermark: tuple[str, str] | None = None  # the column with a row's time, and the allowed lateness: "10 minutes"
    window: str = ""  # its length: "5 minutes"
    partition_by: tuple[str, ...] = ()
    transform: Transform | None = None
    declared_at: SourceLine | None = None

    @property
    def is_stream(self) -> bool:
        return self.watermark is not None


@dataclass(frozen=True, slots=True)
class ToTopic:
    """Writes rows back to a topic: columns key, value and headers unchanged, or else each row as JSON.

    At least once: a batch that a crash interrupted is written again.
    """

    name: str
    reads: tuple[str, ...]
    topic: str
    key: str = ""  # the column that becomes the record's key, as text
    transform: Transform | None = None
    declared_at: SourceLine | None = None


Declaration = Bronze | Silver | Gold | ToTopic


def bronze(
    *,
    topic: str,
    decode: str = "none",
    schema: str = "",
    key: str = "",
    unknown_fields: str = "keep",
    value_bytes_max: int | None = None,
    on_error: str = "dlq",
    start: str = "earliest",
    is_stored: bool = True,
    partition_by: Sequence[str] = (),
    name: str | None = None,
) -> Decorator:
    """A topic as a table. The function's one parameter, whatever its name, receives the decoded rows."""

    def declare(function: Transform) -> Bronze:
        return Bronze(
            name or function.__name__,
            topic,
            decode=decode,
            schema=schema,
            key=key,
            unknown_fields=unknown_fields,
            value_bytes_max=value_bytes_max,
            on_error=on_error,
            start=start,
            is_stored=is_stored,
            partition_by=tuple(partition_by),
            transform=function,
            declared_at=line_of(function),
        )

    return declare


def silver(
    *,
    keys: Sequence[str] = (),
    sequence_by: str = "",
    delete_when: str = "",
    expectations: Sequence[Expectation] = (),
    partition_by: Sequence[str] = (),
    name: str | None = None,
) -> Decorator:
    """A table of clean rows, by key if keys are given. Reads the table that its one parameter is named after."""

    def declare(function: Transform) -> Silver:
        return Silver(
            name or function.__name__,
            parameters_of(function),
            keys=tuple(keys),
            sequence_by=sequence_by,
            delete_when=delete_when,
            expectations=tuple(expectations),
            partition_by=tuple(partition_by),
            transform=function,
            declared_at=line_of(function),
        )

    return declare


def gold(
    *,
    watermark: tuple[str, str] | None = None,
    window: str = "",
    partition_by: Sequence[str] = (),
    name: str | None = None,
) -> Decorator:
    """A table of results computed from the tables that its parameters are named after."""

    def declare(function: Transform) -> Gold:
        return Gold(
            name or function.__name__,
            parameters_of(function),
            watermark=watermark,
            window=window,
            partition_by=tuple(partition_by),
            transform=function,
            declared_at=line_of(function),
        )

    return declare


def to_topic(*, topic: str, key: str = "", name: str | None = None) -> Decorator:
    """Writes the rows of the table that its one parameter is named after to a topic."""

    def declare(function: Transform) -> ToTopic:
        return ToTopic(
            name or function.__name__,
            parameters_of(function),
            topic,
            key=key,
            transform=function,
            declared_at=line_of(function),
        )

    return declare


def parameters_of(function: Transform) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


def line_of(function: Transform) -> SourceLine:
    """The line of `def`, where an editor should open the file; decorators precede it."""
    code = function.__code__
    lines, first = inspect.getsourcelines(code)
    for number, text in enumerate(lines):
        if text.lstrip().startswith("def "):
            return SourceLine(code.co_filename, first + number)
    return SourceLine(code.co_filename, code.co_firstlineno)
