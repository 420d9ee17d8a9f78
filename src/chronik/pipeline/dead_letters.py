"""Records that a flow could not take, in the topic `<topic>.dlq`: as they were, with headers that say where and why.

A dead letter is fetched from its topic again by partition and offset, not carried through functions that might have
changed it: key, value and headers are the producer's bytes, and ours are added after the last of its headers. A letter
is written before the batch that it belongs to is committed, so nothing is lost. A batch that runs again, which only the
first of a run can, looks for the letters of its first attempt and writes those that are missing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from chronik.pipeline.conditions import PipelineFault
from chronik.pipeline.rows import ERROR_CLASS, ERROR_MESSAGE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from chronik.pipeline.flows import Flow
    from chronik.pipeline.live_cluster import LiveCluster
    from chronik.pipeline.plan import TopicFacts
    from chronik.wire.records import Record

PREFIX: Final = "chronik.dlq."
# What a letter says of itself, in this order, each as text.
TOPIC, TOPIC_ID, PARTITION, OFFSET = f"{PREFIX}topic", f"{PREFIX}topic.id", f"{PREFIX}partition", f"{PREFIX}offset"
TIMESTAMP = f"{PREFIX}timestamp"  # of the record, in ms
PIPELINE, FLOW = f"{PREFIX}pipeline", f"{PREFIX}flow"
ERROR, MESSAGE = f"{PREFIX}error", f"{PREFIX}message"
ADDED: Final = (TOPIC, TOPIC_ID, PARTITION, OFFSET, TIMESTAMP, PIPELINE, FLOW, ERROR, MESSAGE)
# Room for what is added to a record that was as large as its topic allows.
HEADER_BYTES_MAX: Final = 64 << 10
COORDINATES: Final = ("_topic_id", "_partition", "_offset")


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter as people see it, and as `fix` gets it."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    timestamp_ms: int
    pipeline: str
    flow: str
    error: str
    message: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]  # the producer's


def letter_of(record: Record) -> Letter | None:
    """None for a record that no flow has written: anybody may write to a topic."""
    said = {name: (text or b"").decode("utf-8", "replace") for name, text in record.headers if name in ADDED}
    own = tuple((name, value) for name, value in record.headers if name not in ADDED)
    try:
        return Letter(
            topic=said[TOPIC],
            topic_id=said[TOPIC_ID],
            partition=int(said[PARTITION]),
            offset=int(said[OFFSET]),
            timestamp_ms=int(said[TIMESTAMP]),
            pipeline=said[PIPELINE],
            flow=said[FLOW],
            error=said[ERROR],
            message=said[MESSAGE],
            key=record.key,
            value=record.value,
            headers=own,
        )
    except (KeyError, ValueError):
        return None


def prepare(cluster: LiveCluster, flow: Flow, source: TopicFacts) -> None:
    """Makes the topic, with room for the headers, and for ever: what is in it is nowhere else for long."""
    limit = int(cluster.configs_of([flow.source_topic])[flow.source_topic]["max.message.bytes"])
    settings = {"retention.ms": "-1", "max.message.bytes": str(min(limit + HEADER_BYTES_MAX, 2**31 - 1))}
    cluster.create_topic(flow.dlq_topic, source.partition_count, settings)


def write(spark: SparkSession, bootstrap: str, flow: Flow, dead: DataFrame, *, may_be_repeated: bool) -> int:
    """Writes a letter for every row of `dead` (lineage, error class, message); how many there are now."""
    dead = dead.select(*COORDINATES, ERROR_CLASS, ERROR_MESSAGE).persist()
    try:
        spans = dead.groupBy("_partition").agg(F.min("_offset"), F.max("_offset"), F.count("*")).collect()
        wanted = sum(span[3] for span in spans)
        if not wanted:
            return 0
        originals = _originals(spark, bootstrap, flow.source_topic, {span[0]: (span[1], span[2]) for span in spans})
        at = (F.col("partition") == F.col("_partition")) & (F.col("offset") == F.col("_offset"))
        letters = dead.join(originals, at).persist()
        try:
            if (found := letters.count()) != wanted:
                raise PipelineFault(
                    "RECORDS_DIFFER", name=flow.name, topic=flow.source_topic, found=found, wanted=wanted
                )
            missing = letters
            if may_be_repeated:
                missing = letters.join(_written_before(spark, bootstrap, flow), list(COORDINATES), "left_anti")
            _send(missing, bootstrap, flow)
        finally:
            letters.unpersist()
        return int(wanted)
    finally:
        dead.unpersist()


def _originals(spark: SparkSession, bootstrap: str, topic: str, spans: Mapping[int, tuple[int, int]]) -> DataFrame:
    starts = {str(partition): first for partition, (first, _) in spans.items()}
    ends = {str(partition): last + 1 for partition, (_, last) in spans.items()}
    return (
        spark.read.format("chronik")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("assign", json.dumps({topic: sorted(spans)}))
        .option("startingOffsets", json.dumps({topic: starts}))
        .option("endingOffsets", json.dumps({topic: ends}))
        .option("includeHeaders", "true")
        .load()
    )


def _send(letters: DataFrame, bootstrap: str, flow: Flow) -> None:
    said = {
        TOPIC: F.lit(flow.source_topic),
        TOPIC_ID: F.col("_topic_id"),
        PARTITION: F.col("_partition").cast("string"),
        OFFSET: F.col("_offset").cast("string"),
        TIMESTAMP: F.unix_millis("timestamp").cast("string"),
        PIPELINE: F.lit(flow.pipeline),
        FLOW: F.lit(flow.name),
        ERROR: F.col(ERROR_CLASS),
        MESSAGE: F.col(ERROR_MESSAGE),
    }
    added = F.array(*(_header(name, text) for name, text in said.items()))
    kept = F.coalesce(F.col("headers"), F.array().cast("array<struct<key:string,value:binary>>"))
    records = letters.select("key", "value", F.concat(kept, added).alias("headers"))
    (
        records.write.format("chronik")
        .mode("append")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", flow.dlq_topic)
        .save()
    )


def _header(name: str, text: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value"))


def read(spark: SparkSession, bootstrap: str, dlq_topic: str) -> DataFrame:
    """Letters as rows: COORDINATES, what is said in ADDED as `letter` (a map), and the producer's bytes.

    A record may have died in several flows, or twice in one; telling them apart is for the reader.
    """
    records = (
        spark.read.format("chronik")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", dlq_topic)
        .option("includeHeaders", "true")
        .load()
    )
    is_ours = F.col("headers.key")
    texts = F.expr(
        f"map_from_entries(transform(slice(headers, -{len(ADDED)}, {len(ADDED)}), "
        "h -> struct(h.key, try_validate_utf8(cast(h.value as string)))))"
    )
    own = F.expr(f"slice(headers, 1, size(headers) - {len(ADDED)})")
    letters = records.where(F.size("headers") >= len(ADDED)).where(
        F.slice(is_ours, -len(ADDED), len(ADDED)) == F.array(*map(F.lit, ADDED))
    )
    return letters.select(
        F.col("key"),
        F.col("value"),
        own.alias("headers"),
        F.col("offset").alias("letter_offset"),
        texts.alias("letter"),
    ).select(
        "*",
        F.col("letter")[TOPIC_ID].alias("_topic_id"),
        F.col("letter")[PARTITION].try_cast("int").alias("_partition"),
        F.col("letter")[OFFSET].try_cast("long").alias("_offset"),
    )


def _written_before(spark: SparkSession, bootstrap: str, flow: Flow) -> DataFrame:
    letters = read(spark, bootstrap, flow.dlq_topic)
    mine = (F.col("letter")[PIPELINE] == flow.pipeline) & (F.col("letter")[FLOW] == flow.name)
    return letters.where(mine).select(*COORDINATES).distinct()
