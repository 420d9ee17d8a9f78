"""`chronik.read` with a SparkSession: the table at a version and the records after it, as one DataFrame.

The records are processed by the flow's decoding, functions and expectations, like a batch of a run. For a keyed table,
they are merged with the rows of the same keys on the driver; all other rows stay on the executors.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

from chronik.pipeline.cluster import BlockingCluster
from chronik.pipeline.declarations import DELETED, Bronze, Declaration, Silver
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.flow_notes import FlowNote
from chronik.pipeline.keyed_tail import KeyedTail
from chronik.pipeline.registry import Pipeline
from chronik.pipeline.rows import chain, decoded, good, judged, kept, marked, passed_through
from chronik.pipeline.snapshot import CLIENT_ID, Joint, Source, joint_of
from chronik.pipeline.table_frames import table_frame
from chronik.pipeline.tables.order import Keeping
from chronik.pipeline.tables.place import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def joint_now(source: Source, *, fail_on_data_loss: bool) -> Joint:
    """Determines the join of table and topic. Raises READ_NEEDS_PIPELINE if it is unknown how records become rows."""
    if not source.note.is_plain and source.pipeline is None:
        raise PipelineError("READ_NEEDS_PIPELINE", name=source.name, file=source.note.file)
    cluster = BlockingCluster(source.bootstrap, client_id=CLIENT_ID, security=source.security, is_patient=False)
    try:
        return joint_of(source, cluster, fail_on_data_loss=fail_on_data_loss)
    finally:
        cluster.close()


def frame_of(spark: SparkSession, source: Source, joint: Joint, *, fail_on_data_loss: bool) -> DataFrame:
    """The rows of the version, and the rows that the flow computes from the records after it."""
    pipeline = source.pipeline or _plain(source.note)
    declaration = pipeline.named(source.name)
    assert declaration is not None
    tail = _tail(spark, source, joint, pipeline, declaration, fail_on_data_loss=fail_on_data_loss)
    if isinstance(declaration, Silver) and declaration.keys:
        return _by_key(spark, source, joint, marked(tail, declaration), declaration)
    if joint.table is None:
        return tail
    return _table(spark, source, joint).unionByName(tail, allowMissingColumns=True)


def _table(spark: SparkSession, source: Source, joint: Joint) -> DataFrame:
    return table_frame(spark, source.table, version=joint.version)


def _tail(
    spark: SparkSession,
    source: Source,
    joint: Joint,
    pipeline: Pipeline,
    declaration: Declaration,
    *,
    fail_on_data_loss: bool,
) -> DataFrame:
    topic = source.note.topic
    records = (
        spark.read.format("chronik")
        .options(**source.security.options)
        .option("kafka.bootstrap.servers", source.bootstrap)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .option("startingOffsets", json.dumps({topic: {str(at): offset for at, offset in joint.starts.items()}}))
        .option("endingOffsets", json.dumps({topic: {str(at): offset for at, offset in joint.ends.items()}}))
        .option("failOnDataLoss", str(fail_on_data_loss).lower())
        .load()
    )
    bottom = pipeline.topic_of(declaration)
    assert bottom is not None
    rows = passed_through(good(decoded(records, bottom, joint.topic_id)), chain(pipeline, declaration))
    if isinstance(declaration, Silver):
        rows = kept(judged(rows, declaration.expectations, declaration.keys))
    return rows


def _by_key(spark: SparkSession, source: Source, joint: Joint, tail: DataFrame, silver: Silver) -> DataFrame:
    names = [name for name in tail.columns if name != DELETED]
    keys = list(silver.keys)
    table = _table(spark, source, joint) if joint.table is not None else tail.drop(DELETED).limit(0)
    for name in [name for name in names if name not in table.columns]:
        table = table.withColumn(name, F.lit(None).cast(tail.schema[name].dataType))
    news = tail.toArrow()
    if not news.num_rows:
        return table
    touched = spark.createDataFrame(news.select(keys)).distinct()
    current = table.join(F.broadcast(touched), keys, "left_semi").select(table.columns).toArrow()
    keeping = Keeping(silver.keys, (silver.sequence_by,), DELETED)
    merging = KeyedTail.of(Place.of(source.table), news, keeping, current.schema, joint.topic_id, joint.ends)
    merged = spark.createDataFrame(merging.all_of(current), table.schema)
    return table.join(F.broadcast(touched), keys, "left_anti").select(table.columns).unionByName(merged)


def _plain(note: FlowNote) -> Pipeline:
    """The declarations of a plain flow, created from its note."""
    if not note.keys:
        return Pipeline(note.pipeline, "", (note.bronze,))
    bottom = Bronze(
        f"{note.name}_records",
        note.topic,
        decode=note.decode,
        schema=note.schema,
        key=note.key,
        unknown_fields=note.unknown_fields,
        value_bytes_max=note.value_bytes_max,
    )
    silver = Silver(
        note.name, (bottom.name,), keys=note.keys, sequence_by=note.sequence_by, delete_when=note.delete_when
    )
    return Pipeline(note.pipeline, "", (bottom, silver))
