"""What a pipeline is made of, as values: bronze, silver, gold and to_topic. No Spark import in this file.

    from chronik.pipeline import bronze, expect, silver

    @bronze(topic="orders", decode="json", key="id long", schema="amount double, updated timestamp")
    def bronze_orders(records):
        return records

    @silver(keys=["id"], sequence_by="updated", expectations=[expect("paid", "amount > 0", on_fail="dlq")])
    def orders(bronze_orders):
        return bronze_orders.withColumn("cents", (F.col("amount") * 100).cast("long"))

A decorator builds one frozen value that remembers its file and line, and gives it back in place of the function:
loading a file runs nothing. A function reads what its parameters are named after, gets DataFrames, and returns one.
Who collects the values is `registry`; who checks them is `plan`; who runs them is `running`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from chronik.pipeline.expectations import Expectation

# Columns that every row of a bronze or a silver carries: where its record stands.
LINEAGE: Final = ("_topic_id", "_partition", "_offset", "_timestamp")
DELETED: Final = "_deleted"  # a record without a value: the key is gone
UNKNOWN: Final = "_unknown"  # the whole value, where it has fields that the schema does not know

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
    """A topic as rows: every record is in the table or among the dead letters, none in both."""

    name: str
    topic: str
    decode: str = "none"  # none | json
    schema: str = ""  # of the value, in Spark's DDL; needed by json
    key: str = ""  # one column in Spark's DDL, read from the record's key as text; a null key is then a dead letter
    unknown_fields: str = "keep"  # ignore | keep (in the column _unknown) | dlq
    value_bytes_max: int | None = None  # larger values are dead letters
    on_error: str = "dlq"  # what becomes of records that cannot be decoded: dlq | drop | fail
    start: str = "earliest"  # where the very first run begins: earliest | latest | ms since 1970
    is_stored: bool = True  # False: no table; who reads it takes care of what cannot be decoded
    partition_by: tuple[str, ...] = ()
    transform: Transform | None = None
    declared_at: SourceLine | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Silver:
    """A table kept by key: of two rows with equal keys the one later by `sequence_by` stands, or else by the log.

    Without keys every row is appended. A row for which `delete_when` holds takes its key out of the table. A deletion
    without a value of `sequence_by`, such as a tombstone, ends every row before it in the log. `sequence_by="_offset"`
    is the order of the log itself. `tables.order` has the whole rule.
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
    """What is computed over many rows.

    With a watermark it is a stream: results are appended when no row within the watermark can change them, and the
    input has a column `window` if one is asked for. Without, it is computed anew from the tables it reads, whenever one
    of them has changed.
    """

    name: str
    reads: tuple[str, ...]
    watermark: tuple[str, str] | None = None  # the column of a row's time, and how late it may come: "10 minutes"
    window: str = ""  # its length: "5 minutes"
    partition_by: tuple[str, ...] = ()
    transform: Transform | None = None
    declared_at: SourceLine | None = None

    @property
    def is_stream(self) -> bool:
        return self.watermark is not None


@dataclass(frozen=True, slots=True)
class ToTopic:
    """Rows back to a topic: columns key, value and headers as they are, or else each row as JSON.

    At least once: a batch that a crash has interrupted is written again.
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
    """A topic as a table. The function gets one parameter, the decoded rows, whatever its name."""

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
    """A table of clean rows, by key if keys are given. Reads what its one parameter is named after."""

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
    """A table of results over what its parameters are named after."""

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
    """Rows of what its one parameter is named after, as records of a topic."""

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
    """The line of `def`, where an editor should go; decorators stand above it."""
    code = function.__code__
    lines, first = inspect.getsourcelines(code)
    for number, text in enumerate(lines):
        if text.lstrip().startswith("def "):
            return SourceLine(code.co_filename, first + number)
    return SourceLine(code.co_filename, code.co_firstlineno)
