"""Sends dead letters and old records through a flow again. Repeating a replay does not duplicate rows.

A replay takes letters (or, for a backfill, a range of the topic itself), lets the user's `fix` change key and value,
and applies the flow's own functions and expectations. Accepted rows enter the table by (_topic_id, _partition,
_offset), or by the table's keys; rows that fail again stay dead letters and are counted. Nothing is deleted from the
DLQ: a replayed letter is recognised by its row in the table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from chronik.pipeline import dead_letters, letters, table_writes
from chronik.pipeline.conditions import PipelineFault
from chronik.pipeline.dead_letters import COORDINATES
from chronik.pipeline.declarations import Silver
from chronik.pipeline.frontier import processed
from chronik.pipeline.letters import Letter
from chronik.pipeline.registry import load_module
from chronik.pipeline.rows import RECORD_SCHEMA, chain, decoded, good, judged, kept, passed_through

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame, SparkSession

    from chronik.pipeline.flows import Flow
    from chronik.pipeline.plan import Plan

Fix = Callable[[Letter], Any]  # a Letter, or None to skip it


@dataclass(frozen=True, slots=True)
class Replayed:
    flow: str
    letters: int  # records rejected by this flow, each counted once
    added: int  # rows that are new in the table
    still_dead: int  # failed again, or skipped by `fix`
    table_version: int


def load_fix(path: str | Path) -> Fix:
    """The function `fix` of a file: def fix(letter): return dataclasses.replace(letter, value=...)."""
    module = load_module(Path(path))
    fix = getattr(module, "fix", None)
    if not callable(fix):
        raise PipelineFault("FIX_INVALID", file=str(path))
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)
    return fix  # type: ignore[no-any-return]


def replay(spark: SparkSession, plan: Plan, flow: Flow, reach: Mapping[str, str], fix: Fix | None = None) -> Replayed:
    """Replays all letters of one flow."""
    found = dead_letters.read(spark, reach, flow.dlq_topic)
    said = F.col("letter")
    mine = (said[letters.PIPELINE] == flow.pipeline) & (said[letters.FLOW] == flow.name)
    topic_id = plan.topics[flow.source_topic].topic_id
    # A letter of a deleted topic has the coordinates of another record.
    mine &= said[letters.TOPIC_ID] == topic_id
    once = found.where(mine).orderBy("letter_offset").dropDuplicates(list(COORDINATES))
    records = once.select(
        "key",
        "value",
        F.lit(flow.source_topic).alias("topic"),
        F.col("_partition").alias("partition"),
        F.col("_offset").alias("offset"),
        F.timestamp_millis(said[letters.TIMESTAMP].cast("long")).alias("timestamp"),
        F.lit(0).alias("timestampType"),
        "headers",
        "letter",
    ).persist()
    try:
        count = records.count()
        fixed = records.drop("letter") if fix is None else records.mapInPandas(_applied(fix), RECORD_SCHEMA)
        added, passed = _taken(plan, flow, fixed, topic_id, "replay")
        return Replayed(flow.name, count, added, count - passed, table_writes.version_of(flow.table))
    finally:
        records.unpersist()


def backfill(
    spark: SparkSession, plan: Plan, flow: Flow, reach: Mapping[str, str], since_ms: int | None = None
) -> Replayed:
    """Processes the topic's records again that the flow has read already: all of them, or those from a time on.

    Records that the flow has not read yet are not included, because the flow appends rows without checking whether they
    exist.

    Rejected records are counted but get no letter: the flow already wrote one when it read them.
    """
    reader = spark.read.format("chronik").options(**reach)
    reader = reader.option("subscribe", flow.source_topic).option("includeHeaders", "true")
    if since_ms is not None:
        reader = reader.option("startingTimestamp", str(since_ms))
        reader = reader.option("startingOffsetsByTimestampStrategy", "latest")
    topic_id = plan.topics[flow.source_topic].topic_id
    records = reader.load().where(_is_before(processed(flow.checkpoint, flow.source_topic, topic_id)))
    count = records.count()
    added, passed = _taken(plan, flow, records, topic_id, "backfill")
    return Replayed(flow.name, count, added, count - passed, table_writes.version_of(flow.table))


def _is_before(ends: Mapping[int, int]) -> Column:
    """Records below these offsets, by partition."""
    found = F.lit(False)
    for partition, end in ends.items():
        found |= (F.col("partition") == partition) & (F.col("offset") < end)
    return found


def _taken(plan: Plan, flow: Flow, records: DataFrame, topic_id: str, purpose: str) -> tuple[int, int]:
    """The number of rows added to the table, and of records that passed the flow."""
    bottom = plan.pipeline.topic_of(flow.declaration)
    assert bottom is not None
    rows = good(decoded(records, bottom, topic_id))
    declaration = flow.declaration
    expectations, keys = (declaration.expectations, declaration.keys) if isinstance(declaration, Silver) else ((), ())
    passed = kept(judged(passed_through(rows, chain(plan.pipeline, declaration)), expectations, keys)).persist()
    try:
        count = passed.count()
        if not count:
            return 0, 0
        before = _size(flow)
        # A separate application, because the flow's batch numbers must not change. A repeated replay is recognised row
        # by row, so its number only has to increase.
        table_writes.add_missing(passed, flow, f"{flow.group}/{purpose}", time.time_ns() // 1_000_000)
        return _size(flow) - before, count
    finally:
        passed.unpersist()


def _size(flow: Flow) -> int:
    """The table's row count, from its log."""
    from chronik.pipeline.tables.place import Place

    found = Place.of(flow.table).find()
    return 0 if found is None else int(found.count())


def _applied(fix: Fix) -> Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]:
    """The user's function over rows of letters, on the executors."""

    def run(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            kept_rows = []
            for row in frame.to_dict("records"):
                fixed = fix(_letter(row))
                if fixed is None:
                    continue
                place = {name: row[name] for name in ("topic", "partition", "offset", "timestamp", "timestampType")}
                headers = [{"key": name, "value": value} for name, value in fixed.headers]
                kept_rows.append({"key": fixed.key, "value": fixed.value, **place, "headers": headers})
            columns = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
            yield type(frame)(kept_rows, columns=columns).astype({"partition": "int32", "offset": "int64"})

    return run


def _letter(row: dict[str, Any]) -> Letter:
    said = dict(row["letter"])
    headers = row["headers"] if row["headers"] is not None else ()
    return Letter(
        topic=row["topic"],
        topic_id=said[letters.TOPIC_ID],
        partition=int(row["partition"]),
        offset=int(row["offset"]),
        timestamp_ms=int(said[letters.TIMESTAMP]),
        pipeline=said[letters.PIPELINE],
        flow=said[letters.FLOW],
        error=said[letters.ERROR],
        message=said[letters.MESSAGE],
        key=_bytes(row["key"]),
        value=_bytes(row["value"]),
        headers=tuple((header["key"], _bytes(header["value"])) for header in headers),
    )


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
