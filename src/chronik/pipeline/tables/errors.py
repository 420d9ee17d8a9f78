"""The errors of tables: the text for each condition, in addition to those of the whole pipeline.

The name of a condition is part of the contract; the text is not. Each says what happened, where, and what to do.
"""

from __future__ import annotations

from typing import Any, Final

from chronik.pipeline.errors import PipelineError

CONDITIONS: Final[dict[str, str]] = {
    # --- options
    "TABLE_OPTION_UNKNOWN": 'format("chronik-table") has no option {option!r}{hint}',
    "TABLE_OPTION_INVALID": "option {option!r} is {value!r}: {reason}",
    "TABLE_OPTION_MISSING": "option {option!r} is missing: {reason}",
    "TABLE_OPTIONS_CONFLICT": "{options} do not go together: {reason}",
    # --- columns
    "TABLE_COLUMN_UNKNOWN": "option {option!r} names column {column!r}, which is not there{hint}; there are: {columns}",
    "TABLE_COLUMN_UNFIT": "column {column!r} is {found}: {reason}",
    "TABLE_SCHEMA_MISMATCH": (
        "the rows do not fit the table at {uri}: {reason}. Set mergeSchema=true to add new columns; a column's type is"
        " never changed: cast the column, or write to a new table"
    ),
    "TABLE_PARTITIONING_MISMATCH": (
        "the table at {uri} is partitioned by {found}, not by {asked}: leave the option partitionBy out"
    ),
    "TABLE_KEY_NULL": (
        "{count} of the batch's rows have no {column!r}, which is a key of the table at {uri}: a row without key can"
        " never be found again. Filter such rows, or send them to a dead letter topic, before they are written"
    ),
    # --- tables
    "TABLE_NOT_FOUND": "there is no Delta table at {uri}: correct the path, or write to it first",
    "TABLE_VERSION_NOT_FOUND": "the table at {uri} has no {asked}: {reason}",
    "TABLE_UNREADABLE": "the table at {uri} cannot be read here: {reason}",
    "TABLE_CONTENDED": (
        "batch {batch} of {application!r} was not committed to the table at {uri}: {attempts} times in a row another"
        " writer came first; the last refusal was {reason}. Nothing of the batch is visible: run it again"
    ),
    "TABLE_BATCH_TOO_LARGE": (
        "the batch has {size_bytes} bytes for the table at {uri}, and {limit_bytes} are merged in one process: raise"
        " the option upsertBytesMax, or use foreachBatch(upsert(...)), which has no limit. A lower maxOffsetsPerTrigger"
        " makes later batches smaller; this one is planned already, and Spark repeats it as it is"
    ),
    "TABLE_NO_QUERY_ID": (
        "rows for the table at {uri} came without the id of a streaming query: set the option txnAppId to a name that"
        " stays the same when the query is restarted"
    ),
    "TABLE_TOPIC_ID_UNKNOWN": "the cluster told no id for topic {topic!r}: its broker is older than Kafka 2.8",
    "TABLE_RETENTION_TOO_SHORT": (
        "keeping unreferenced files of the table at {uri} for {keep_hours} hours is refused: a batch may run for"
        " {longest_batch_hours} hours, and its files are referenced only when it commits"
    ),
}


class TableError(PipelineError):
    """`TableError("TABLE_NOT_FOUND", uri="/tables/orders")`."""

    def __str__(self) -> str:
        return f"[{self.condition}] {CONDITIONS[self.condition].format(**self.parameters)}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.condition, self.parameters)


def _again(condition: str, parameters: dict[str, Any]) -> TableError:
    return TableError(condition, **parameters)
