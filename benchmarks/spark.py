"""Rows a second that Spark takes from a topic: our source on our broker, beside Spark's own source on Kafka.

    make bench-spark                                  prints the table, writes docs/benchmarks/spark.md and spark.json
    make bench-spark ARGS="--records 500000"          a smaller topic
    make bench-spark ARGS="--only decoder"            record batches into Arrow alone, no broker and no Spark

Each source gets a Spark of its own (local[2], 2 GB) and reads the topic three times: the first is cold, the best of the
others warm. Then it is written to Parquet. The other side runs only when its jars are there (`make jars`). Nothing here
is a test: a slow machine fails nobody.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "docs" / "benchmarks"
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

VALUE_BYTES = 100
DECODER_RECORDS_S_BAR = 2_000_000
ROUNDS = 12
TOPIC = "bench"


def measure_decoder() -> list[dict[str, Any]]:
    """Seconds of one core, best of many rounds; batches as producers make them with little and with much to send."""
    import random

    from chronik.pipeline.decode import decode_batches
    from chronik.wire.batches import build
    from chronik.wire.compression import Codec
    from chronik.wire.records import Record

    found = []
    chance = random.Random(1)
    for work, size, codec in (
        ("150 records a batch", 150, Codec.NONE),
        ("1000 records a batch", 1000, Codec.NONE),
        ("1000 records a batch, zstd", 1000, Codec.ZSTD),
    ):
        records = [Record(i, 1_700_000_000_000 + i, b"k%06d" % i, chance.randbytes(VALUE_BYTES)) for i in range(64_000)]
        data = b"".join(build(records[at : at + size], codec) for at in range(0, len(records), size))
        best_s = float("inf")
        for _ in range(ROUNDS):
            started = time.process_time()
            count = sum(table.num_rows for table in decode_batches(data, topic=TOPIC, partition=0))
            best_s = min(best_s, time.process_time() - started)
        found.append({"work": f"decoder, {work}", "chronik": round(count / best_s), "bar": DECODER_RECORDS_S_BAR})
    return found


def fill(bootstrap: str, records: int, partitions: int) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, partitions, 1)])[TOPIC].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 500_000})
    value = os.urandom(VALUE_BYTES)
    for i in range(records):
        while True:
            try:
                producer.produce(TOPIC, value, b"%d" % i, partition=i * partitions // records)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(300):
        raise SystemExit("the topic could not be filled")


@contextmanager
def our_broker() -> Iterator[str]:
    from chronik.testing import Cluster

    with Cluster(in_process=False) as cluster:
        yield cluster.bootstrap


@contextmanager
def kafka() -> Iterator[str]:
    from tests.oracle import kafka_server

    kafka_server.JVM_OPTIONS = ("-Xmx1g",)  # the tests' options make it start soon and run slowly
    with tempfile.TemporaryDirectory() as folder, kafka_server.KafkaServer(Path(folder)) as server:
        yield server.bootstrap


def measure_spark(source: str, bootstrap: str) -> dict[str, int]:
    """In a process of its own, so that no source finds a JVM that another has warmed up."""
    from tests.oracle.jars import spark_kafka_jars
    from tests.pipeline.spark_session import SPARK_KAFKA

    jars = ",".join(map(str, spark_kafka_jars(SPARK_KAFKA))) if source == "kafka" else ""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, __file__, "--measure", source, "--bootstrap", bootstrap, "--jars", jars]
    ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, int] = json.loads(ran.stdout.splitlines()[-1])
    return found


def measure(source: str, bootstrap: str, jars: str) -> dict[str, int]:
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "2g").config("spark.ui.showConsoleProgress", "false")
    session = (builder.config("spark.jars", jars) if jars else builder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC, "startingOffsets": "earliest"}
    speeds = []
    for _ in range(3):
        started = time.monotonic()
        frame = session.read.format(source).options(**options).load()
        [row] = frame.selectExpr("count(*) rows", "sum(length(value)) bytes").collect()
        speeds.append(round(row.rows / (time.monotonic() - started)))
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        frame.write.mode("overwrite").parquet(folder)
        parquet = round(row.rows / (time.monotonic() - started))
    session.stop()
    return {"count, cold": speeds[0], "count, warm": max(speeds[1:]), "to Parquet": parquet}


def measure_sources(records: int, partitions: int) -> list[dict[str, Any]]:
    from tests.oracle.jars import cache_folder, spark_kafka_jars
    from tests.pipeline.spark_session import SPARK_KAFKA

    sides = {"chronik": our_broker}
    if spark_kafka_jars(SPARK_KAFKA) and (cache_folder() / "kafka-4.3.1").exists():
        sides["kafka"] = kafka
    found: dict[str, dict[str, int]] = {}
    for source, broker in sides.items():
        with broker() as bootstrap:
            fill(bootstrap, records, partitions)
            found[source] = measure_spark(source, bootstrap)
    return [
        {"work": f"{work}, {records:,} rows", "chronik": speed, "bar": found.get("kafka", {}).get(work)}
        for work, speed in found["chronik"].items()
    ]


def report(found: list[dict[str, Any]]) -> str:
    lines = [
        "# Rows a second into Spark",
        "",
        f"`make bench-spark`, Python {platform.python_version()}, {os.cpu_count()} cores, {VALUE_BYTES}-byte records.",
        "The bar of the decoder is ours; the others are Spark's own Kafka source on Kafka 4.3.1 in the same run.",
        "",
        "| work | chronik | bar | |",
        "|---|--:|--:|---|",
    ]
    for each in found:
        bar = each["bar"]
        mark = "" if bar is None else f"{each['chronik'] / bar:.2f}x" + ("" if each["chronik"] >= bar else ", MISSED")
        lines.append(f"| {each['work']} | {each['chronik']:,} | {'-' if bar is None else f'{bar:,}'} | {mark} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--only", choices=["decoder", "spark"])
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", help=argparse.SUPPRESS)
    parser.add_argument("--jars", default="", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        print(json.dumps(measure(asked.measure, asked.bootstrap, asked.jars)))
        return
    found = measure_decoder() if asked.only != "spark" else []
    found += measure_sources(asked.records, asked.partitions) if asked.only != "decoder" else []
    print(report(found))
    if asked.only is None:
        OUTPUT.mkdir(parents=True, exist_ok=True)
        (OUTPUT / "spark.json").write_text(json.dumps(found, indent=2) + "\n")
        (OUTPUT / "spark.md").write_text(report(found))


if __name__ == "__main__":
    main()
