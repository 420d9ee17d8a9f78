"""`format("chronik")` read by a real Spark: rows, offsets, limits, lag, and what stops a query."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chronik.testing import Cluster
from tests.pipeline import topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.xdist_group("spark")]


def options(broker: Cluster, topic: str, **more: Any) -> dict[str, str]:
    named = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}
    return named | {name: str(value) for name, value in more.items()}


def read(spark: SparkSession, broker: Cluster, topic: str, **more: Any) -> DataFrame:
    return spark.read.format("chronik").options(**options(broker, topic, **more)).load()


def run_available(spark: SparkSession, folder: Path, given: dict[str, str], batches: list[int] | None = None) -> Any:
    """A streaming query over what is there now, into Parquet with a checkpoint; the query when it is done."""
    stream = spark.readStream.format("chronik").options(**given).load()

    def write(frame: DataFrame, _: int) -> None:
        frame.write.mode("append").parquet(str(folder / "out"))
        if batches is not None:
            batches.append(frame.count())

    query = (
        stream.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    return query


def rows_in(spark: SparkSession, folder: Path) -> list[tuple[int, int]]:
    found = spark.read.parquet(str(folder / "out")).select("partition", "offset").collect()
    return sorted((row.partition, row.offset) for row in found)


def as_tuple(row: Any) -> topics.Row:
    made = tuple(bytes(value) if isinstance(value, bytearray) else value for value in row)
    headers = made[7] and [{"key": each.key, "value": each.value and bytes(each.value)} for each in made[7]]
    return (*made[:5], made[5].replace(tzinfo=UTC), made[6], headers)


def test_rows_are_those_that_librdkafka_reads(
    spark: SparkSession, our_broker: Cluster, unique: Callable[[str], str]
) -> None:
    """The README's promise: no registration, no jar, and every column as any consumer sees it."""
    topic = topics.create(our_broker.bootstrap, unique("rows"), partitions=2)
    topics.fill(our_broker.bootstrap, topic, 500, headers=[("a", b"1"), ("b", b"")], **{"compression.type": "zstd"})
    topics.fill(our_broker.bootstrap, topic, 300, partition=1)
    found = [as_tuple(row) for row in read(spark, our_broker, topic, includeHeaders="true").collect()]
    expected = topics.dump(our_broker.bootstrap, topic, count=500)
    expected += topics.dump(our_broker.bootstrap, topic, 1, count=300)
    assert sorted(found, key=lambda row: row[3:5]) == expected
