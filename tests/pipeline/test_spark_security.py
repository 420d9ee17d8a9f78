"""A secured cluster in a real Spark: source and sink over SASL_SSL with access rules, and what Spark shows of secrets."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from chronik.pipeline import spark_home
from chronik.pipeline.reading import read_range
from chronik.pipeline.session import REDACTED
from tests.pipeline.secured import ADMIN, ALICE, MECHANISMS, PASSWORD, PLAIN, SCRAM, Secured, as_options
from tests.pipeline.spark_session import patiently

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

Make = Callable[[str], str]
KEY = "-----BEGIN PRIVATE KEY"


def committed(secured: Secured, topic: str) -> list[bytes]:
    end = secured.admin.ends(topic)[0]
    found = read_range(secured.main, topic, 0, start=0, end=end, columns=["value"], security=secured.admin.security)
    return [value for batch in found for value in batch.column("value").to_pylist()]


def shown_by(spark: SparkSession, query: StreamingQuery, checkpoint: Path) -> Iterator[str]:
    """What Spark keeps of a query, for people, for its pages and for its next run."""
    yield query._jsq.explainInternal(True)  # type: ignore[attr-defined]
    yield from (progress.json for progress in query.recentProgress)
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    for index in range(executions.size()):
        execution = executions.apply(index)
        yield f"{execution.description()} {execution.details()} {execution.physicalPlanDescription()}"
    for file in checkpoint.rglob("*"):
        if file.is_file():
            yield file.read_bytes().decode("latin-1")


def test_a_restricted_user_reads_and_writes_exactly_once_over_sasl_ssl(
    spark: SparkSession, secured: Secured, unique: Make, tmp_path: Path
) -> None:
    """Driver and tasks log in, on both sides of a query, and nothing that Spark keeps of it has the password."""
    source, target = secured.topic(unique("from"), ("a", "b", "c")), secured.topic(unique("to"))
    for rule in (
        f"--operation read --topic {source} --topic __consumer_offsets",
        f"--operation write --topic {target}",
        "--operation read --group reader",
        "--operation read --group chronik-spark/ --prefix",
        "--operation write --transactional-id chronik-spark/ --prefix",
    ):
        secured.allow(f"chronik acl add --principal {ALICE} {rule}")
    frame = (
        spark.readStream.format("chronik")
        .options(**secured.options(ALICE))
        .option("subscribe", source)
        .option("kafka.group.id", "reader")
        .option("startingOffsets", "earliest")
        .load()
    )
    checkpoint = tmp_path / "checkpoint"

    def run() -> StreamingQuery:
        query = (
            frame.select("value")
            .writeStream.format("chronik")
            .options(**secured.options(ALICE))
            .options(topic=target, exactlyOnce="true", checkpointLocation=str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query

    query = patiently(run)
    assert committed(secured, target) == [b"a", b"b", b"c"]
    plans = frame._jdf.queryExecution().toString()
    everything = [plans, *shown_by(spark, query, checkpoint)]
    assert any(source in text for text in everything[1:])  # so there is something to look at
    assert [text for text in everything if PASSWORD in text] == []
