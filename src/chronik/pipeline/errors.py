"""The errors of a pipeline: one exception, and a table of named conditions with their texts.

A condition's name is part of the contract: Spark shows it in front of the message, alerts match on it, and tests assert
it. The text may change. Each says what happened, where, and what to do.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

CONDITIONS: Final[dict[str, str]] = {
    # --- options
    "UNKNOWN_OPTION": "there is no option {option!r}{hint}",
    "UNSUPPORTED_OPTION": "option {option!r} cannot be set: {reason}",
    "OPTION_REQUIRED": "option {option!r} is missing: {reason}",
    "INVALID_OPTION": "option {option!r} is {value!r}: {reason}",
    "CONFLICTING_OPTIONS": "{options} do not go together: {reason}",
    "UNSUPPORTED_SECURITY": "{option} is {value!r}, which cannot be used: {reason}",
    # --- columns
    "UNKNOWN_COLUMN": "topics have no column {column!r}{hint}; they have {columns}",
    "COLUMN_TYPE_MISMATCH": "column {column!r} is {found}, but must be {expected}",
    "COLUMN_REQUIRED": "column {column!r} is missing: {reason}",
    # --- the cluster
    "TOPIC_NOT_FOUND": "the cluster has no topic {topics}: create it, or correct the option {option!r}",
    "PARTITION_NOT_FOUND": "the cluster has no partition {partitions} any more, or not yet: {reason}",
    "TOPIC_ID_CHANGED": (
        "topic {topic!r} was deleted and created again: the query has read the one with id {before}, the cluster has"
        " {after}. Their offsets have nothing in common: start a new query with a new checkpoint"
    ),
    "PARTITIONS_MISMATCH": "option {option!r} must name every partition that is read: {reason}",
    "DATA_LOSS": (
        "offsets {start} to {end} of {topic}-{partition} are gone: the log holds {log_start} to {log_end}. They were"
        " deleted before the query read them (retention.ms, retention.bytes, DeleteRecords), or the log was cut short."
        " Set failOnDataLoss=false to continue with the remaining records"
    ),
    "NO_OFFSET_AT_TIME": (
        "{topic}-{partition} has no record at or after {timestamp_ms} ms: set startingOffsetsByTimestampStrategy=latest"
        " to start such partitions at their end"
    ),
    "INVALID_OFFSETS": "the checkpoint's offsets cannot be read: {reason}",
    "ACCESS_DENIED": ("{principal} may not {operation} {resource} {name!r} ({error}). To allow it: {command}"),
    # --- records
    "UNREADABLE_BATCH": "the batch at offset {offset} of {topic}-{partition} cannot be read: {reason}",
    "TIMESTAMP_OUT_OF_RANGE": (
        "the record at offset {offset} of {topic}-{partition} has timestamp {timestamp_ms} ms, which Spark cannot hold:"
        ' leave the column out with .schema("key binary, value binary, offset long")'
    ),
    "RECORD_REFUSED": "records for topic {topic!r} were not written: {reason}",
    "RECORD_TOO_LARGE": (
        "a record for topic {topic!r} takes {size_bytes} bytes, at most {size_bytes_max} are allowed: raise"
        " kafka.max.request.size and the topic's max.message.bytes, or set onTooLarge=dlq to note it in {topic}.dlq"
    ),
    "NO_TOPIC": "a row names no topic (row {row} of its task): set the option 'topic', or fill the column 'topic'",
    # --- exactly once
    "NOT_A_QUERY": "exactlyOnce=true needs a streaming query: Spark told the task no {missing}. Use writeStream",
    "QUERY_SUPERSEDED": (
        "run {run} of query {query} was superseded by run {by}: two drivers use one checkpoint, or did. Stop"
        " one of them"
    ),
    "BATCH_ABORTED": (
        "batch {batch} of query {query} was not committed: {reason}. None of its rows is visible; start the query again"
        " to write them"
    ),
    "BATCH_TORN": (
        "batch {batch} of query {query} is incomplete: the rows of tasks {tasks} are lost. The driver stopped while it"
        " committed the batch, and did not come back within kafka.transaction.timeout.ms. Write these rows again by"
        " hand, then delete the consumer group chronik-spark/{query}"
    ),
    "TOO_MANY_TASKS": (
        "{tasks} tasks have written one batch, and listing them takes {pieces} offsets; __consumer_offsets has room for"
        " {room}: use fewer tasks with .coalesce(n)"
    ),
    "OVERWRITE_REFUSED": "records of a topic cannot be overwritten: use .mode('append')",
    # --- contracts
    "CONTRACT_INVALID": "{file} is not a schema that can be checked: {reason}",
    # --- chronik.read
    "EXTRA_MISSING": "{what} needs {package}, which is not installed: pip install '{install}'",
    "SCHEMA_UNREADABLE": "the schema {schema!r} cannot be read: {reason}",
    "READ_NAME_UNKNOWN": (
        "there is no table {name!r} in {folder}{hint}. A pipeline or `chronik materialize` makes tables; storage= names"
        " their folder"
    ),
    "READ_FLOW_UNKNOWN": (
        "the table {name!r} does not say from which records it is made: start its pipeline once with this release, or"
        " name the file with pipeline="
    ),
    "READ_FLOW_NOT_DECLARED": "{file} declares no table {name!r}{hint}",
    "READ_NOT_FROM_RECORDS": (
        "{name!r} is computed over many rows (a gold), so no record of the topic is one of its rows: read a bronze or a"
        " silver, or the table itself with deltalake"
    ),
    "READ_NEEDS_SPARK": (
        "{name!r} is made with functions, SQL or expectations, which only Spark can apply to the topic's newest"
        " records: chronik.read({name!r}, spark=spark, pipeline={file!r})"
    ),
    "READ_NEEDS_PIPELINE": (
        "{name!r} is made with functions, SQL or expectations: name the file that has them, as in"
        " chronik.read({name!r}, spark=spark, pipeline={file!r})"
    ),
    "READ_NO_LINEAGE": "the table {name!r} has no columns {columns}, so nothing tells where it ends",
    "RECORDS_MISSING": (
        "records of {topic!r} are in neither the table nor the topic: {missing}. They were deleted from the topic"
        " before the pipeline had written them (retention.ms, retention.bytes, DeleteRecords). Raise the topic's"
        " retention and start the pipeline; to read without them, fail_on_data_loss=False"
    ),
    "READ_OVERTAKEN": (
        "{name!r} was not read: {attempts} times in a row records were deleted from the topic while they were read."
        " Raise the topic's retention (retention.ms, retention.bytes)"
    ),
}


class PipelineError(Exception):
    """`PipelineError("DATA_LOSS", topic="orders", ...)`. Two are equal when condition and parameters are."""

    def __init__(self, condition: str, /, **parameters: Any) -> None:
        super().__init__(condition, parameters)
        self.condition = condition
        self.parameters = parameters

    def __str__(self) -> str:
        return f"[{self.condition}] {CONDITIONS[self.condition].format(**self.parameters)}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PipelineError) and self.args == other.args

    def __hash__(self) -> int:
        return hash(self.condition)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.condition, self.parameters)


def _again(condition: str, parameters: dict[str, Any]) -> PipelineError:
    return PipelineError(condition, **parameters)


def hint_for(name: str, known: Iterable[str]) -> str:
    """`: did you mean 'subscribe'?`, or nothing if no name is similar."""
    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_lower, n=1)
    return f": did you mean {by_lower[near[0]]!r}?" if near else ""
