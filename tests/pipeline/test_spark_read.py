"""`chronik.read` beside a real Spark: the rows of both readers are those of the flow, also while it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import chronik
from chronik.pipeline import replaying
from chronik.pipeline.declarations import Bronze
from chronik.pipeline.errors import PipelineError
from chronik.pipeline.live_cluster import LiveCluster
from chronik.pipeline.plain_rows import PlainRows
from chronik.pipeline.rows import ERROR_CLASS, RECORD_SCHEMA, decoded
from chronik.testing import Cluster
from tests.pipeline.pipelines import Bench, as_json
from tests.pipeline.test_read import _require_once, topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

SCHEMA = (
    "b boolean, i int, l long, f float, d double, s string, x binary, day date, at timestamp, local timestamp_ntz,"
    " price decimal(6,2), tags array<string>, more map<string, int>, deep struct<n: long, list: array<struct<a: int>>>"
)
TEXTS = [
    *('"2026-01-02"', '"2026-1-2"', '"2026-02-30"', '"2026-01-02 "', '"02026-01-02"', '"2026-01-02T"', '"12:30:00"'),
    *('"2026-01-02T03:04"', '"2026-01-02 3:4:5"', '"2026-01-02T03:04:05.123456789"', '"2026-01-02T03:04:05Z"'),
    *('"2026-01-02T03:04:05+02:00"', '"2026-01-02T03:04:05+2"', '"2026-01-02T03:04:05-0230"', '"2026-01-02T25:00:00"'),
    *('"2026-01-02T03:04:05 Europe/Bern"', '"2026-01-02T03:04:05Europe/Berlin"', '"2026-01-02T03:04:05 UTC"', '"now"'),
    *('"2026-01-02T03:04:05."', '"1767323045"', '""', '"x"', '"AQID"', '"AQI"', '"1"', '"NaN"', '"true"', '"\\u00e9"'),
]
NUMBERS = [
    *("0", "-1", "1.0", "1.5", "1e2", "1.25e1", "127", "128", "2147483647", "2147483648", "9223372036854775807"),
    *("9223372036854775808", "-9223372036854775808", "3.4e38", "3.5e38", "1e308", "1e400", "9999.99", "10000", "0.001"),
    *("0.005", "-0.0", "12345678901234567890123", "1.10"),
]
OTHERS = ["null", "true", "false", "[]", '["a", null, 1]', "[[1]]", "{}", '{"k": 1}', '{"k": "1"}', '{"k": null}']
NESTED = ['{"n": 1}', '{"n": "1"}', '{"list": [{"a": 1}, null]}', '{"list": [{"a": "x"}]}', '{"list": {"a": 1}}']
WHOLE = [
    *(b"{}", b" {} ", b"[1]", b"1", b"null", b'"a"', b"", b"{", b"{} {}", b"{}x", b'{"i": 1,}', b'{"i": NaN}', b"\xff"),
    *(b'{"i": 1, "i": 2}', b'{"z": 1}', b'{"deep": {"z": 1}}', b'{"deep": {"list": [{"z": 1}]}}', b'{"s": {"a" : 1}}'),
    *(b'{"s": [1, {"b":  2}]}', b'{"s": 1.50}', b'{"tags": [{"a":  1}]}', b'{"i": 01}', b"{'i': 1}", b'{"s": "a\tb"}'),
]
# Where the two differ, and are allowed to: what Spark makes of a value that no producer of ours writes.
ALLOWED: dict[bytes, str] = {}


def values() -> list[bytes]:
    names = [each.split(" ")[0] for each in SCHEMA.replace(", ", ",").split(",") if " " in each and "<" not in each]
    names += ["tags", "more", "deep"]
    found = [f'{{"{name}": {text}}}'.encode() for name in names for text in (*TEXTS, *NUMBERS, *OTHERS, *NESTED)]
    return [*found, *WHOLE]


def test_json_is_read_as_spark_reads_it(spark: SparkSession) -> None:
    """Each type with each kind of value: the same error class, and the same value where there is none."""
    bronze = Bronze("b", "t", decode="json", schema=SCHEMA)
    every = values()
    records = spark.createDataFrame(
        [(b"k", value, "t", 0, offset, None, 0, None) for offset, value in enumerate(every)], RECORD_SCHEMA
    )
    told = decoded(records, bronze, "id").toArrow().sort_by("_offset")
    errors = told[ERROR_CLASS].to_pylist()
    # Of a row with an error only the error has a meaning.
    good = {row["_offset"]: row for row in told.filter(pc.is_null(told[ERROR_CLASS])).to_pylist()}
    plain = PlainRows(bronze, "id")
    different = []
    for offset, value in enumerate(every):
        record = {"key": b"k", "value": value, "partition": 0, "offset": offset, "timestamp": None}
        error, row = plain.try_row(record)
        [ours] = pa.RecordBatch.from_pylist([row], schema=plain.schema).to_pylist() if error is None else [{}]
        theirs = {name: good[offset][name] for name in plain.schema.names} if offset in good else {}
        if error != errors[offset] or ours != theirs:
            said = {name: (ours[name], theirs.get(name)) for name in ours if ours[name] != theirs.get(name)}
            different.append((value, error, errors[offset], said))
    left = [each for each in different if each[0] not in ALLOWED]
    assert not left, "\n".join(map(str, left))


@pytest.mark.parametrize("kind", ["long", "int", "string", "short", "byte"])
def test_keys_are_read_as_spark_reads_them(spark: SparkSession, kind: str) -> None:
    """The record's key by its type."""
    bronze = Bronze("b", "t", key=f"id {kind}")
    keys = [
        None,
        b"",
        b"1",
        b" 1 ",
        b"+1",
        b"-1",
        b"007",
        b"1.0",
        b"1.",
        b"x",
        b"\xff",
        b"128",
        b"40000",
        b"3000000000",
    ]
    keys += [b"9223372036854775808", b"1e3", b"- 1", b"--1", b"+-1"]
    records = spark.createDataFrame(
        [(key, b"v", "t", 0, offset, None, 0, None) for offset, key in enumerate(keys)], RECORD_SCHEMA
    )
    rows = decoded(records, bronze, "id").sort("_offset").collect()
    plain = PlainRows(bronze, "id")
    for offset, (key, row) in enumerate(zip(keys, rows, strict=True)):
        record = {"key": key, "value": b"v", "partition": 0, "offset": offset, "timestamp": None, "headers": None}
        error, ours = plain.try_row(record)
        assert (key, error) == (key, row[ERROR_CLASS])
        assert error is not None or ours["id"] == row["id"]


SHOP = """
from pyspark.sql import functions as F
from chronik.pipeline import bronze, expect, silver

@bronze(topic="{topic}", decode="json", key="id long", schema="n long", partition_by=[])
def changes(records):
    return records

@silver(keys=["id"], sequence_by="_offset", delete_when="_deleted")
def newest(changes):
    return changes

@silver(expectations=[expect("even", "n % 2 = 0", on_fail="drop")])
def even(changes):
    return changes.withColumn("double", F.col("n") * 2)
"""


def test_both_readers_give_the_rows_of_the_flow(
    spark: SparkSession, our_broker: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Before and after the batch that brings the records into the table: appended, by key, and by functions."""
    topic = unique("both")
    cluster = LiveCluster(our_broker.bootstrap)
    cluster.create_topic(topic, 2)
    file = tmp_path / "shop.py"
    file.write_text(SHOP.replace("{topic}", topic))
    shop = Bench(spark, cluster, file, tmp_path / "lake")

    def send(numbers: range) -> None:
        records: list[Any] = [(b"%d" % (n % 7), None if n % 10 == 9 else as_json(n=n)) for n in numbers]
        shop.send(topic, [*records, (b"x", b"{}"), (b"1", b"{")])

    def rows(name: str, **options: Any) -> list[dict[str, Any]]:
        frame = chronik.read(name, bootstrap=our_broker.bootstrap, storage=shop.storage, **options)
        table = frame.toArrow() if "spark" in options else frame.to_arrow()
        found: list[dict[str, Any]] = table.sort_by([("_partition", "ascending"), ("_offset", "ascending")]).to_pylist()
        return found

    send(range(30))
    shop.run()
    send(range(30, 60))
    told = {"spark": spark, "pipeline": str(file)}
    ahead = {name: rows(name, **told) for name in ("changes", "newest", "even")}
    plain = {name: rows(name) for name in ("changes", "newest")}
    noted = {name: rows(name, spark=spark) for name in ("changes", "newest")}
    with pytest.raises(PipelineError, match="READ_NEEDS_SPARK"):
        rows("even")
    with pytest.raises(PipelineError, match="READ_NEEDS_PIPELINE"):
        rows("even", spark=spark)
    shop.run()
    table = {
        name: sorted(shop.rows(name), key=lambda row: (row["_partition"], row["_offset"]))
        for name in ("changes", "newest", "even")
    }
    assert ahead == table
    assert plain == {name: table[name] for name in plain} == noted
    assert {name: rows(name, **told) for name in table} == table
    assert (len(table["changes"]), len(table["even"])) == (60, 36)


def test_a_backfill_leaves_records_to_the_flow_that_it_has_not_read(
    spark: SparkSession, our_broker: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """The flow appends them without looking, so they would be in the table twice."""
    topic = unique("ahead")
    cluster = LiveCluster(our_broker.bootstrap)
    cluster.create_topic(topic, 2)
    file = tmp_path / "shop.py"
    file.write_text(SHOP.replace("{topic}", topic))
    shop = Bench(spark, cluster, file, tmp_path / "lake")
    shop.send(topic, [(b"%d" % n, as_json(n=n)) for n in range(10)])
    shop.run(only="changes")
    shop.send(topic, [(b"%d" % n, as_json(n=n)) for n in range(10, 15)])
    done = replaying.backfill(spark, shop.plan(), shop.flow("changes"), cluster.options)
    assert (done.letters, done.added) == (10, 0)
    shop.run(only="changes")
    assert sorted(row["n"] for row in shop.rows("changes")) == list(range(15))


@pytest.mark.long
def test_each_read_has_each_record_once_while_the_pipeline_is_killed(
    our_broker: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """`chronik pipeline run` and its JVM, killed again and again between its start and its end."""
    topic = unique("killed")
    topics.create(our_broker.bootstrap, topic, 3)
    file, storage = tmp_path / "shop.py", tmp_path / "lake"
    file.write_text(
        "from chronik.pipeline import bronze\n\n"
        f'@bronze(topic="{topic}", decode="json", key="id long", schema="n long")\n'
        "def orders(records):\n    return records\n"
    )
    from tests.pipeline.test_read import Shop

    shop = Shop(our_broker.bootstrap, topic, storage, "", is_new=False)
    ends = threading.Event()

    def produce() -> None:
        while not ends.is_set():
            shop.send(30)
            time.sleep(0.02)

    def kill() -> None:
        for number in range(int(os.environ.get("CHRONIK_SPARK_KILLS", "5"))):
            driver = subprocess.Popen(
                [
                    *(sys.executable, "-m", "chronik.cli", "pipeline", "run", str(file), "--storage", str(storage)),
                    *("--bootstrap", our_broker.bootstrap, "--master", "local[2]", "--interval-ms", "200"),
                ],
                start_new_session=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            version = _version(storage)
            deadline_s = time.monotonic() + 120
            while _version(storage) < version + 2 and driver.poll() is None and time.monotonic() < deadline_s:
                time.sleep(0.05)
            time.sleep(0.11 * number)
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
        ends.set()

    workers = [threading.Thread(target=produce), threading.Thread(target=kill)]
    for worker in workers:
        worker.start()
    reads, versions = 0, set()
    try:
        while not ends.is_set():
            if _version(storage) < 0:
                time.sleep(0.1)
                continue
            floor = shop.sent
            frame = shop.read()
            _require_once(frame.to_arrow(), floor)
            versions.add(frame.version)
            reads += 1
    finally:
        ends.set()
        for worker in workers:
            worker.join()
    print(f"{reads} reads of {len(versions)} versions, {shop.sent} records")
    assert len(versions) > 3


def _version(storage: Path) -> int:
    log = storage / "tables" / "orders" / "_delta_log"
    return max((int(each.stem) for each in log.glob("*.json") if each.stem.isdecimal()), default=-1)
