"""Records that a flow rejected, in the topic `<topic>.dlq`, unchanged, with headers that describe origin and reason.

A dead letter's bytes come from the batch's own record at its partition and offset, never through functions that might
have changed them. Key, value and headers are the producer's; ours follow its last header. Letters are written before
their batch is committed, so nothing is lost. Only the first batch of a run can be a repetition; it looks for the
letters of its first attempt and writes only the missing ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from chronik.pipeline.conditions import PipelineFault
from chronik.pipeline.letters import (
    ADDED,
    ERROR,
    FLOW,
    MESSAGE,
    OFFSET,
    PARTITION,
    PIPELINE,
    TIMESTAMP,
    TOPIC,
    TOPIC_ID,
)
from chronik.pipeline.rows import ERROR_CLASS, ERROR_MESSAGE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from chronik.pipeline.flows import Flow

# A letter is as large as its record plus headers; the topic decides what is too large.
RECORD_BYTES_MAX: Final = 1 << 30
COORDINATES: Final = ("_topic_id", "_partition", "_offset")


def write(records: DataFrame, reach: Mapping[str, str], flow: Flow, dead: DataFrame, *, may_be_repeated: bool) -> int:
    """Writes a letter for every row of `dead` (lineage, error class, message); returns the number now in the topic.

    `records` are the batch's records as the source returned them; `reach` are the source's options for connecting to
    the cluster.
    """
    dead = dead.select(*COORDINATES, ERROR_CLASS, ERROR_MESSAGE).persist()
    try:
        at = (F.col("partition") == F.col("_partition")) & (F.col("offset") == F.col("_offset"))
        letters = records.join(F.broadcast(dead), at).persist()
        try:
            wanted, found = dead.count(), letters.count()
            if found != wanted:
                raise PipelineFault(
                    "RECORDS_DIFFER", name=flow.name, topic=flow.source_topic, found=found, wanted=wanted
                )
            missing = letters
            if may_be_repeated:
                written = _written_before(records.sparkSession, reach, flow)
                missing = letters.join(written, list(COORDINATES), "left_anti")
            _send(missing, reach, flow)
        finally:
            letters.unpersist()
        return int(wanted)
    finally:
        dead.unpersist()


def _send(letters: DataFrame, reach: Mapping[str, str], flow: Flow) -> None:
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
        .options(**reach)
        .option("topic", flow.dlq_topic)
        .option("kafka.max.request.size", str(RECORD_BYTES_MAX))
        .save()
    )


def _header(name: str, text: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value"))


def read(spark: SparkSession, reach: Mapping[str, str], dlq_topic: str) -> DataFrame:
    """Letters as rows: COORDINATES, the headers in ADDED as the map `letter`, and the producer's bytes.

    A record may have failed in several flows, or twice in one; the caller distinguishes them.
    """
    records = (
        spark.read.format("chronik")
        .options(**reach)
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


def _written_before(spark: SparkSession, reach: Mapping[str, str], flow: Flow) -> DataFrame:
    letters = read(spark, reach, flow.dlq_topic)
    mine = (F.col("letter")[PIPELINE] == flow.pipeline) & (F.col("letter")[FLOW] == flow.name)
    return letters.where(mine).select(*COORDINATES).distinct()
