"""`format("chronik")` read by a real Spark: rows, offsets, limits, lag, and what stops a query."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.errors import PySparkException

from chronik.testing import Cluster
from tests.pipeline import topics
from tests.pipeline.readme import readme_query
from tests.pipeline.spark_session import patiently

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(600),
]


def options(broker: Cluster, topic: str, **more: Any) -> dict[str, str]:
    named = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic}
    return named | {name: str(value) for name, value in more.items()}


def read(spark: SparkSession, broker: Cluster, topic: str, **more: Any) -> DataFrame:
    return spark.read.format("chronik").options(**options(broker, topic, **more)).load()


def run_available(spark: SparkSession, folder: Path, given: dict[str, str]) -> StreamingQuery:
    """Runs a streaming query over the existing records into Parquet, with a checkpoint; returns it when it has
    ended."""
    stream = spark.readStream.format("chronik").options(**given).load()
    writer = stream.writeStream.format("parquet").option("path", str(folder / "out"))
    return run_to_end(writer.option("checkpointLocation", str(folder / "checkpoint")))


def run_to_end(writer: DataStreamWriter) -> StreamingQuery:
    def run() -> StreamingQuery:
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    return patiently(run)


def rows_in(spark: SparkSession, folder: Path) -> list[tuple[int, int]]:
    found = spark.read.parquet(str(folder / "out")).select("partition", "offset").collect()
    return sorted((row.partition, row.offset) for row in found)


def read_by_batch(folder: Path, topic: str) -> list[int]:
    """How many records of a topic the query had read after each of its batches, as its checkpoint says.

    The progress of a query would not tell: it begins again when `patiently` starts the query again.
    """
    logs = sorted((folder / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return [sum(json.loads(log.read_text().splitlines()[-1])[topic]["offsets"].values()) for log in logs]


def span(partition: int, start: int, end: int) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in range(start, end)]


def committed(broker: Cluster, group: str, topic: str, partitions: int) -> list[int]:
    """As other Kafka tools request it; a partition without a commit is -1001."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    found = consumer.committed([TopicPartition(topic, each) for each in range(partitions)], 30)
    consumer.close()
    return [each.offset for each in found]


def as_tuple(row: Any) -> topics.Row:
    made = tuple(bytes(value) if isinstance(value, bytearray) else value for value in row)
    headers = made[7] and [{"key": each.key, "value": each.value and bytes(each.value)} for each in made[7]]
    return (*made[:5], made[5].replace(tzinfo=UTC), made[6], headers)


def test_rows_are_those_that_librdkafka_reads(
    spark: SparkSession, our_broker: Cluster, unique: Callable[[str], str]
) -> None:
    """The README's promise: no registration, no jar, and every column as any consumer sees it."""
    topic = topics.create(our_broker.bootstrap, unique("rows"), partitions=2)
    topics.fill(our_broker.bootstrap, topic, 500, headers=[("a", b"1"), ("b", None)], **{"compression.type": "zstd"})
    topics.fill(our_broker.bootstrap, topic, 300, partition=1)
    found = [as_tuple(row) for row in read(spark, our_broker, topic, includeHeaders="true").collect()]
    expected = topics.dump(our_broker.bootstrap, topic, count=500)
    expected += topics.dump(our_broker.bootstrap, topic, 1, count=300)
    assert sorted(found, key=lambda row: row[3:5]) == expected
    assert (
        read(spark, our_broker, topic, subscribe=topic, endingOffsets=f'{{"{topic}":{{"0":0,"1":0}}}}').collect() == []
    )


def test_the_query_of_the_readme_runs(spark: SparkSession, our_broker: Cluster, unique: Callable[[str], str]) -> None:
    """Unchanged; `test_spark_install` runs it where only the wheel is installed."""
    topic = topics.create(our_broker.bootstrap, unique("readme"))
    topics.fill(our_broker.bootstrap, topic, 50)
    reader = eval(readme_query(our_broker.bootstrap, topic), {"spark": spark})
    writer = reader.option("startingOffsets", "earliest").load().writeStream.format("memory").queryName("readme")
    run_to_end(writer)
    found = [as_tuple((*row, None)) for row in spark.table("readme").orderBy("offset").collect()]
    assert found == topics.dump(our_broker.bootstrap, topic, count=50)


def test_workers_import_a_compiled_pyspark(spark: SparkSession) -> None:
    """From the zip that Spark puts first on their path, each of ten processes would compile it again."""

    def where(_: int) -> str:
        import pyspark

        return str(pyspark.__file__)

    [found] = spark.sparkContext.parallelize([0], 1).map(where).collect()
    assert ".zip" not in found


def test_a_users_schema_leaves_columns_out_and_must_be_one_of_topics(
    spark: SparkSession, our_broker: Cluster, unique: Callable[[str], str]
) -> None:
    """The only pruning that Spark offers to a Python source; a wrong schema is reported by name."""
    topic = topics.create(our_broker.bootstrap, unique("pruned"))
    topics.fill(our_broker.bootstrap, topic, 20)
    reader = spark.read.format("chronik").options(**options(our_broker, topic, minPartitions=3))
    found = reader.schema("offset long, value binary").load()
    assert found.rdd.getNumPartitions() == 3
    assert [row.offset for row in found.collect()] == list(range(20))
    for schema, condition in (("vaule binary", "UNKNOWN_COLUMN"), ("value string", "COLUMN_TYPE_MISMATCH")):
        with pytest.raises(PySparkException, match=rf"\[{condition}\]"):
            reader.schema(schema).load().collect()


def test_mistakes_in_options_are_told_by_load(spark: SparkSession, our_broker: Cluster) -> None:
    """Where the user's line is, before anything runs."""
    with pytest.raises(PySparkException, match=r"\[UNKNOWN_OPTION\].*did you mean 'startingOffsets'"):
        read(spark, our_broker, "any", startingOfsets="earliest")
    with pytest.raises(PySparkException, match=r"\[TOPIC_NOT_FOUND\]"):
        read(spark, our_broker, "no-such-topic").collect()


def test_a_stream_reads_everything_once_in_bounded_batches_and_shows_its_lag(
    spark: SparkSession, our_broker: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Over a restart with more records and a new partition; its group has no lag when it is done."""
    topic = topics.create(our_broker.bootstrap, unique("stream"), partitions=2)
    topics.fill(our_broker.bootstrap, topic, 250)
    topics.fill(our_broker.bootstrap, topic, 30, partition=1)
    given = options(our_broker, topic, startingOffsets="earliest", maxOffsetsPerTrigger=100, groupIdPrefix=topic)
    query = run_available(spark, tmp_path, given)
    assert read_by_batch(tmp_path, topic) == [100, 200, 280]
    assert rows_in(spark, tmp_path) == span(0, 0, 250) + span(1, 0, 30)
    [source] = query.lastProgress.sources
    assert f'"{topic}"' in str(source.latestOffset).replace("'", '"')
    assert committed(our_broker, f"{topic}-{query.id}", topic, 2) == [250, 30]
    # A name for it until the end: with its client, librdkafka throws away the answers that are under way.
    admin = AdminClient({"bootstrap.servers": our_broker.bootstrap})
    groups = admin.list_consumer_groups().result(30)
    assert [each.group_id for each in groups.valid if each.group_id.startswith(f"{topic}-introduction")] == []

    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    topics.fill(our_broker.bootstrap, topic, 40, partition=2)
    topics.fill(our_broker.bootstrap, topic, 10, first=250)
    again = run_available(spark, tmp_path, given)
    assert again.id == query.id
    assert rows_in(spark, tmp_path) == span(0, 0, 260) + span(1, 0, 30) + span(2, 0, 40)
    assert committed(our_broker, f"{topic}-{query.id}", topic, 3) == [260, 30, 40]


def test_a_topic_made_anew_stops_the_query_that_read_the_old_one(
    spark: SparkSession, our_broker: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Going on at the old offset would skip, going back to 0 would double: only a person can know."""
    topic = topics.create(our_broker.bootstrap, unique("anew"))
    topics.fill(our_broker.bootstrap, topic, 20)
    given = options(our_broker, topic, startingOffsets="earliest", failOnDataLoss="false")
    run_available(spark, tmp_path, given)
    topics.delete(our_broker.bootstrap, topic)
    topics.create(our_broker.bootstrap, topic)
    topics.fill(our_broker.bootstrap, topic, 50)
    with pytest.raises(PySparkException, match=r"\[TOPIC_ID_CHANGED\]"):
        run_available(spark, tmp_path, given)
    assert rows_in(spark, tmp_path) == span(0, 0, 20)


def test_records_that_aged_out_stop_the_query_with_the_missing_range(
    spark: SparkSession, our_broker: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """With failOnDataLoss=false it continues with the remaining records."""
    topic = topics.create(our_broker.bootstrap, unique("aged"))
    topics.fill(our_broker.bootstrap, topic, 20)
    given = options(our_broker, topic, startingOffsets="earliest", **{"kafka.group.id": topic})
    run_available(spark, tmp_path, given)
    topics.fill(our_broker.bootstrap, topic, 30, first=20)
    topics.delete_before(our_broker.bootstrap, topic, 0, 35)
    with pytest.raises(PySparkException, match=rf"\[DATA_LOSS\] offsets 20 to 34 of {topic}-0 are gone"):
        run_available(spark, tmp_path, given)
    assert committed(our_broker, topic, topic, 1) == [20]
    run_available(spark, tmp_path, given | {"failOnDataLoss": "false"})
    assert rows_in(spark, tmp_path) == span(0, 0, 20) + span(0, 35, 50)
    assert committed(our_broker, topic, topic, 1) == [50]


@pytest.mark.long
def test_a_topic_is_copied_to_a_topic(
    spark: SparkSession, our_broker: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Source and sink in one stream, then a batch into the same topic; errors are reported before a row is written."""
    source = topics.create(our_broker.bootstrap, unique("from"), partitions=2)
    target = topics.create(our_broker.bootstrap, unique("to"), partitions=2)
    for partition in range(2):
        topics.fill(our_broker.bootstrap, source, 100, partition=partition, headers=[("h", b"1")])
    to = {"kafka.bootstrap.servers": our_broker.bootstrap, "topic": target}
    given = options(our_broker, source, startingOffsets="earliest", includeHeaders="true")
    stream = spark.readStream.format("chronik").options(**given).load()
    writer = stream.select("key", "value", "headers", "partition").writeStream.format("chronik").options(**to)
    run_to_end(writer.option("checkpointLocation", str(tmp_path)))
    for partition in range(2):
        expected = topics.dump(our_broker.bootstrap, source, partition, count=100)
        found = topics.dump(our_broker.bootstrap, target, partition, count=100)
        assert [(*row[:2], row[7]) for row in found] == [(*row[:2], row[7]) for row in expected]
    frame = spark.createDataFrame([("k", "v")], "key string, value string")
    frame.write.format("chronik").options(**to).mode("append").save()
    assert read(spark, our_broker, target).count() == 201
    for options_, mode, condition in (
        (to | {"exactlyOnce": "task"}, "append", "UNSUPPORTED_OPTION"),
        (to, "overwrite", "OVERWRITE_REFUSED"),
    ):
        with pytest.raises(PySparkException, match=rf"\[{condition}\]"):
            frame.write.format("chronik").options(**options_).mode(mode).save()
