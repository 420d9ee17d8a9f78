"""format("chronik-table") in Spark: found without a call, written by streams and batches, read at any version."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.errors import PySparkException

from chronik.pipeline.sql.errors import SqlError
from chronik.pipeline.sql.with_spark import ask_spark
from chronik.pipeline.table_frames import table_frame
from chronik.pipeline.tables.options import TableOptions
from chronik.pipeline.tables.order import Keeping, last_per_key
from chronik.pipeline.tables.place import Place
from chronik.pipeline.tables.provenance import with_provenance
from chronik.pipeline.tables.rewriting import last_rows, upsert, upsert_frame
from chronik.pipeline.tables.transactions import BatchName
from chronik.testing import Cluster
from tests.pipeline.tables import keyed_histories
from tests.pipeline.tables.keyed_histories import History, Record
from tests.pipeline.tables.rows import batches_in_history

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

RECORD = "topic string, partition int, offset long, timestamp timestamp, id long, value string"
ROW = "id long, value string, _topic_id string, _partition int, _offset long, _timestamp timestamp, _deleted boolean"


class Topic:
    """A folder of JSON files, one per batch, that replaces a topic: a stream reads each file once, in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.ends = [0, 0, 0]
        self.batches = 0

    def add(self, records: list[tuple[int, str | None]], rng: random.Random) -> None:
        """Records in the order of the log; a key has its partition, and clocks are not to be trusted."""
        lines = []
        for key, value in records:
            partition = key % len(self.ends)
            record = {"topic": "t", "partition": partition, "offset": self.ends[partition], "id": key, "value": value}
            lines.append(json.dumps(record | {"timestamp": f"2026-01-01T00:00:{rng.randrange(60):02}Z"}))
            self.ends[partition] += 1
        rng.shuffle(lines)
        (self.folder / f"{self.batches:04}.json").write_text("\n".join(lines))
        self.batches += 1

    def stream(self, spark: SparkSession) -> DataFrame:
        reader = spark.readStream.schema(RECORD).option("maxFilesPerTrigger", "1").option("latestFirst", "false")
        return with_provenance(reader.json(str(self.folder)), topic_ids={"t": "T"})


def contents(uri: str) -> dict[int, str]:
    rows = DeltaTable(uri).to_pyarrow_table().to_pylist()
    assert len({each["id"] for each in rows}) == len(rows)
    return {each["id"]: each["value"] for each in rows}


def told(expected: dict[int, str], records: list[tuple[int, str | None]]) -> None:
    """The oracle: a dict that gets every record in order."""
    for key, value in records:
        if value is None:
            expected.pop(key, None)
        else:
            expected[key] = value


def test_a_stream_is_appended_once_per_batch_and_read_at_any_version(spark: SparkSession, tmp_path: Path) -> None:
    """A second run of a finished query, and a repeated last batch, add nothing."""
    rng = random.Random(3)
    topic, table, checkpoint = Topic(tmp_path / "topic"), str(tmp_path / "table"), tmp_path / "checkpoint"
    for _ in range(3):
        topic.add([(rng.randrange(9), "x") for _ in range(20)], rng)

    def run() -> str:
        writer = topic.stream(spark).writeStream.format("chronik-table").option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start(table)
        query.awaitTermination()
        return str(query.id)

    query_id = run()
    assert batches_in_history(Place.of(table)) == [(query_id, number) for number in range(3)]
    (checkpoint / "commits" / "2").unlink()  # as after a crash between the table's commit and Spark's
    for crc in checkpoint.glob("commits/.2*"):
        crc.unlink()
    run()
    assert batches_in_history(Place.of(table)) == [(query_id, number) for number in range(3)]
    rows = spark.read.format("chronik-table").load(table)
    assert rows.count() == 60
    assert rows.select("_topic_id", "_partition", "_offset").distinct().count() == 60
    assert rows.columns == ["id", "value", "_topic_id", "_partition", "_offset", "_timestamp"]
    older = spark.read.format("chronik-table").option("versionAsOf", "0").option("withFile", "true").load(table)
    assert older.count() == 20
    assert {each["_file"][:3] for each in older.select("_file").distinct().collect()} == {"b0-"}


@pytest.mark.parametrize("name", ["merged", pytest.param("rewritten", marks=pytest.mark.long)])
def test_updates_and_tombstones_of_a_stream_equal_a_dict(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Through format("chronik-table"), and through foreachBatch with the rewrite in Spark; the same oracle for both."""
    rng = random.Random(10)
    topic, expected = Topic(tmp_path / "topic"), dict[int, str]()
    for batch in range(3):
        records = [(rng.randrange(300), rng.choice([None, f"{batch}-{n}", f"{batch}+{n}"])) for n in range(400)]
        topic.add(records, rng)
        told(expected, records)
    marked = topic.stream(spark).selectExpr("*", "value IS NULL AS _deleted")
    writers = {
        "merged": marked.writeStream.format("chronik-table").option("mode", "upsert").option("keys", "id"),
        "rewritten": marked.writeStream.foreachBatch(
            upsert(str(tmp_path / "rewritten"), keys=["id"], merge_rows_max=0)
        ),
    }
    path = str(tmp_path / name)
    writer = writers[name].option("path", path).option("checkpointLocation", f"{path}-c")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    assert contents(path) == expected
    assert batches_in_history(Place.of(path)) == [(str(query.id), n) for n in range(3)]


@pytest.mark.long
def test_a_rewrite_keeps_sequence_partitions_and_untouched_files(spark: SparkSession, tmp_path: Path) -> None:
    """A row that is older loses to the table; a key may move to another partition; odd names are columns too."""
    place = Place.of(str(tmp_path / "table"))
    options = TableOptions(place, "upsert", ("the id",), ("at",), partition_by=("day",))
    schema = "`the id` long, day string, at long, n long"

    def write(number: int, rows: list[tuple[Any, ...]]) -> bool:
        frame = spark.createDataFrame(rows, schema)
        return upsert_frame(frame, BatchName("q", number), options, merge_rows_max=number % 2 * 99)

    assert write(0, [(1, "mon", 5, 0), (2, "a b/ä=%", 5, 0), (3, None, 5, 0)])
    before = set(DeltaTable(place.uri).file_uris())
    assert write(1, [(1, "tue", 6, 1), (2, "x", 4, 1)])
    assert write(2, [(1, "wed", 7, 2), (2, "a b/ä=%", 6, 2), (4, "mon", 1, 2)])
    assert not write(2, [(9, "mon", 9, 9)])
    rows = DeltaTable(place.uri).to_pyarrow_table().to_pylist()
    assert sorted((row["the id"], row["day"], row["at"], row["n"]) for row in rows) == [
        (1, "wed", 7, 2),
        (2, "a b/ä=%", 6, 2),
        (3, None, 5, 0),
        (4, "mon", 1, 2),
    ]
    assert len(before & set(DeltaTable(place.uri).file_uris())) == 1


def test_spark_and_arrow_agree_on_the_last_row(spark: SparkSession) -> None:
    """Two implementations of one rule, on rows with ties, nulls and keys in several partitions."""
    rng = random.Random(4)
    rows = [
        (rng.randrange(40), rng.choice([None, "x", "y"]), "T", rng.randrange(3), offset, rng.randrange(5), False)
        for offset in range(400)
    ]
    frame = spark.createDataFrame([(*row[:5], None, row[6]) for row in rows], ROW).selectExpr(
        "id", "value", "_topic_id", "_partition", "_offset", "timestamp_millis(_offset * 7 % 11) _timestamp"
    )
    for keeping in (Keeping(("id",)), Keeping(("id",), ("value",)), Keeping(("id", "_partition"), ("_timestamp",))):
        spark_says = {tuple(each) for each in last_rows(frame, keeping).select("id", "_partition", "_offset").collect()}
        found = last_per_key(frame.toArrow(), keeping).select(["id", "_partition", "_offset"]).to_pylist()
        assert {tuple(each.values()) for each in found} == spark_says


@pytest.mark.long
@pytest.mark.parametrize("by_sequence", [False, True], ids=["log", "sequence"])
def test_a_rewrite_follows_the_same_rule_as_a_merge(spark: SparkSession, tmp_path: Path, *, by_sequence: bool) -> None:
    """Keys that move between partitions, late rows and deletions, through the executors alone; a dict is the oracle."""
    hard = keyed_histories.BY_SEQUENCE[0] if by_sequence else keyed_histories.BY_LOG[0]
    history = History(random.Random(5), 60, hard, keys=9)
    place = Place.of(str(tmp_path / "table"))
    options = TableOptions(place, "upsert", ("id",), ("updated",) if by_sequence else (), delete_column="_deleted")
    read: list[Record] = []
    for number, batch in enumerate(history.batches(4)):
        read += batch
        frame = spark.createDataFrame(history.table(batch))
        assert upsert_frame(frame, BatchName("q", number), options, merge_rows_max=0)
        assert contents(place.uri) == keyed_histories.told(read, by_sequence=by_sequence)


def test_batches_append_overwrite_and_repeat_by_name(spark: SparkSession, tmp_path: Path) -> None:
    """df.write as people know it, and a write that may be repeated."""
    table = str(tmp_path / "table")
    frame = spark.range(10).selectExpr("id", "cast(id % 3 as int) p", "array(struct(id)) nested", "now() at")
    frame.write.format("chronik-table").mode("append").option("partitionBy", "p").save(table)
    for _ in range(2):
        named = frame.write.format("chronik-table").mode("append").option("txnAppId", "job").option("txnVersion", "1")
        named.save(table)
    read = spark.read.format("chronik-table").load(table)
    assert read.count() == 20
    assert (
        read.exceptAll(
            frame.unionAll(frame)
            .drop("at")
            .join(read.select("id", "at").distinct(), "id")
            .select("id", "p", "nested", "at")
        ).count()
        == 0
    )
    frame.where("id < 4").write.format("chronik-table").mode("overwrite").save(table)
    assert spark.read.format("chronik-table").load(table).count() == 4


@pytest.mark.long
def test_what_is_wrong_is_named_in_sparks_own_error(spark: SparkSession, tmp_path: Path) -> None:
    """People read the last line of a stack trace; alerts match the name. One error of the driver's, one of a task's."""
    frame = spark.range(10)
    for options, condition in (
        ({"mode": "upsert", "keys": "idd"}, "TABLE_COLUMN_UNKNOWN"),
        ({"mode": "upsert", "keys": "id", "sequenceBy": "id", "upsertBytesMax": "10"}, "TABLE_BATCH_TOO_LARGE"),
    ):
        writer = frame.write.format("chronik-table").mode("append").options(**options)
        with pytest.raises(PySparkException, match=rf"\[{condition}\]"):
            writer.save(str(tmp_path / "table"))
    with pytest.raises(PySparkException, match=r"\[TABLE_NOT_FOUND\]"):
        spark.read.format("chronik-table").load(str(tmp_path / "none"))


def every_type(spark: SparkSession, first: int, end: int) -> DataFrame:
    """Every third value is null, at every level."""
    columns = [
        "cast(id as int) number",
        "cast(id % 100 as short) small",
        "cast(id % 100 as byte) tiny",
        "cast(id / 3 as float) share",
        "id / 7 ratio",
        "id % 2 = 0 flag",
        "concat('text ', id) text",
        "cast(concat('bytes ', id) as binary) bytes",
        "date_add(date'1899-12-30', cast(id * 400 as int)) day",
        "timestamp_micros(id * 1234567890123 - 100000000000000) at",
        "cast(timestamp_micros(id * 1234567) as timestamp_ntz) local",
        "cast(id * 1.0001 as decimal(20,4)) price",
        "array('a', if(id % 3 = 0, null, text)) tags",
        "map('x', if(id % 3 = 0, null, cast(id as int))) counts",
        "named_struct('city', text, 'codes', array(cast(id as int), null)) place",
    ]
    made = spark.range(first, end)
    for column in columns:
        expression, _, name = column.rpartition(" ")
        made = made.selectExpr("*", f"if(id % 3 = 1, null, {expression}) {name}")
    return made


def test_a_frame_of_the_files_has_the_rows_of_the_format(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's own Parquet reader takes another way to the same files: types, nulls, versions and later columns."""
    uri = str(tmp_path / "a table, 100%")
    every_type(spark, 0, 40).write.format("chronik-table").mode("append").save(uri)
    wider = every_type(spark, 40, 60).selectExpr("*", "id * 2 twice")
    wider.write.format("chronik-table").option("mergeSchema", "true").mode("append").save(uri)
    spark.range(0).selectExpr("id", "id * 2 twice").write.format("chronik-table").mode("overwrite").save(uri)
    counts = []
    for version in range(DeltaTable(uri).version() + 1):
        expected = spark.read.format("chronik-table").option("versionAsOf", version).load(uri)
        found = table_frame(spark, uri, version=version)
        assert found.schema == expected.schema
        rows = found.orderBy("id").collect()
        assert rows == expected.orderBy("id").collect()
        assert "Python" not in plan_of(found)
        counts.append(len(rows))
    assert counts == [40, 40, 60, 0]  # the second version adds the column
    assert table_frame(spark, uri).count() == 0


@pytest.mark.parametrize("folder", ["partitioned", "a[b]c"])
def test_a_table_that_spark_could_read_differently_goes_through_the_format(
    spark: SparkSession, tmp_path: Path, folder: str
) -> None:
    """Folder names with partition values are escaped in ways of their own, and brackets are a pattern to Spark."""
    uri = str(tmp_path / folder)
    writer = spark.range(6).selectExpr("id", "concat('a/b%', id % 2) part").write.format("chronik-table")
    (writer.option("partitionBy", "part") if folder == "partitioned" else writer).mode("append").save(uri)
    assert sorted(table_frame(spark, uri).collect()) == [(number, f"a/b%{number % 2}") for number in range(6)]


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())  # type: ignore[operator, union-attr]


@pytest.mark.long
def test_spark_answers_the_same_questions_as_duckdb(spark: SparkSession, tmp_path: Path) -> None:
    """`chronik sql --engine spark`: a topic and a table in one query, and the nearest name for a wrong one."""
    spark.range(10).write.format("chronik-table").mode("append").save(str(tmp_path / "tables" / "ids"))
    with Cluster() as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for number in range(5):
            producer.produce("orders", b"%d" % number, partition=0)
        assert producer.flush(60) == 0
        query = "SELECT id, value, _offset FROM orders JOIN ids ON id = cast(value AS int) * 2 ORDER BY id"
        answer = ask_spark(query, cluster.bootstrap, str(tmp_path), master="local[2]")
        assert answer.columns == ["id", "value", "_offset"]
        assert list(answer.rows()) == [(2 * number, str(number), number) for number in range(5)]
        with pytest.raises(SqlError, match="did you mean 'orders'"):
            ask_spark("SELECT * FROM oders", cluster.bootstrap, str(tmp_path), master="local[2]")
