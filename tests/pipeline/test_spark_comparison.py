"""The same topics through Spark's own Kafka source and through ours: the same rows, whatever the options.

Both run in one session on one broker, ours. The comparison is equivalent to `exceptAll` in both directions, in Python,
because a shuffle for each would cost more than the reads.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from chronik.testing import Cluster
from tests.oracle.jars import spark_kafka_jars
from tests.pipeline import topics
from tests.pipeline.spark_session import SPARK_KAFKA, patiently

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(600),
]

T = 1_700_000_000_000  # the time of the first record, then one a millisecond
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EVERY = {"includeHeaders": "true"}
OPTION_SETS: list[dict[str, str]] = [
    {"subscribe": "left,right", **EVERY},
    {"subscribe": "left"},
    {"subscribePattern": "l.*|r.*", **EVERY},
    {"subscribePattern": r"\p{Lower}igh"},  # somewhere in the name, by Java's notation
    {"assign": '{"left":[1],"right":[0]}'},
    {"subscribe": "left", "startingOffsets": '{"left":{"0":7,"1":-2}}', "endingOffsets": '{"left":{"0":93,"1":-1}}'},
    {"subscribe": "left", "startingTimestamp": f"{T + 50}", "endingTimestamp": f"{T + 120}"},
    {"subscribe": "left", "startingOffsetsByTimestamp": f'{{"left":{{"0":{T + 10},"1":{T}}}}}'},
    {
        "subscribe": "left",
        "startingTimestamp": f"{T + 140}",
        "startingOffsetsByTimestampStrategy": "latest",
        "kafka.isolation.level": "read_uncommitted",
    },
    {
        "subscribe": "left",
        "endingOffsetsByTimestamp": f'{{"left":{{"0":{T + 60},"1":{T + 9999}}}}}',
        "minPartitions": "5",
    },
    {"subscribe": "left,right", "minPartitions": "7", "maxRecordsPerPartition": "20", **EVERY},
]
REFUSED_BY_BOTH: list[dict[str, str]] = [
    {},
    {"subscribe": "left", "assign": '{"left":[0]}'},
    {"subscribe": "left", "startingOffsets": "latest"},
    {"subscribe": "left", "endingOffsets": "earliest"},
    {"subscribe": "left", "startingOffsets": '{"left":{"0":5}}'},
    {"subscribe": "left", "kafka.auto.offset.reset": "earliest"},
    {"subscribe": "left", "kafka.enable.auto.commit": "true"},
    {"subscribe": "left", "kafka.value.deserializer": "x"},
    {"subscribe": "left", "minPartitions": "0"},
    {"subscribe": "left", "startingTimestamp": f"{T + 9999}"},
]


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    """A broker with two topics: `left` has every codec, headers, nulls; `right` has times of the broker."""
    with Cluster() as cluster:
        topics.create(cluster.bootstrap, "left", partitions=2)
        topics.create(cluster.bootstrap, "right", config={"message.timestamp.type": "LogAppendTime"})
        for index, codec in enumerate(CODECS):
            given = {"compression.type": codec, "headers": [("a", b"1"), ("ä", None), ("", b"")]}
            topics.fill(cluster.bootstrap, "left", 30, partition=0, first=30 * index, **given)
            topics.fill(cluster.bootstrap, "left", 20, partition=1, first=20 * index, value_bytes=3000, **given)
        topics.fill(cluster.bootstrap, "right", 40)
        yield cluster


def rows(spark: SparkSession, source: str, broker: Cluster, given: dict[str, str]) -> Counter[Any]:
    options = {"kafka.bootstrap.servers": broker.bootstrap, **given}
    return Counter(map(frozen, spark.read.format(source).options(**options).load().collect()))


def frozen(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(map(frozen, value))
    return bytes(value) if isinstance(value, bytearray) else value


def test_the_jars_are_there() -> None:
    """A comparison that is skipped proves nothing."""
    assert spark_kafka_jars(SPARK_KAFKA), "`make jars` fetches them"


@pytest.mark.parametrize("given", OPTION_SETS, ids=lambda given: ",".join(given))
def test_both_sources_give_the_same_rows(spark: SparkSession, broker: Cluster, given: dict[str, str]) -> None:
    """Schema, every column, and how often each row comes."""
    ours, theirs = (rows(spark, source, broker, given) for source in ("chronik", "kafka"))
    assert theirs, "nothing was compared"
    assert ours == theirs


@pytest.mark.parametrize("given", REFUSED_BY_BOTH, ids=lambda given: ",".join(given) or "nothing")
def test_what_spark_refuses_is_refused(spark: SparkSession, broker: Cluster, given: dict[str, str]) -> None:
    """A migrated query must not get another meaning."""
    options = {"kafka.bootstrap.servers": broker.bootstrap, "fetchOffset.numRetries": "0", **given}
    for source in ("chronik", "kafka"):
        with pytest.raises((PySparkException, Py4JJavaError)):  # the latter where theirs merely asserts
            spark.read.format(source).options(**options).load().collect()


@pytest.mark.long
def test_both_streams_give_the_same_rows_in_bounded_batches(
    spark: SparkSession, broker: Cluster, tmp_path: Path
) -> None:
    """And the same schema: that of the one can replace that of the other in a query's plan."""
    found = {}
    for source in ("chronik", "kafka"):
        options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "left,right", **EVERY}
        options |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "100"}
        stream = spark.readStream.format(source).options(**options).load()
        batches: list[Any] = []
        writer = stream.writeStream.foreachBatch(lambda frame, _, batches=batches: batches.append(frame.collect()))
        writer = writer.option("checkpointLocation", str(tmp_path / source)).trigger(availableNow=True)
        patiently(lambda writer=writer: writer.start().awaitTermination())
        assert len(batches) >= 3
        found[source] = stream.schema, Counter(map(frozen, itertools.chain.from_iterable(batches)))
    assert found["chronik"] == found["kafka"]
    assert found["chronik"][1].total() == 290
