"""What Spark takes from a topic, and writes to one: ours on our broker, beside Spark's own on Kafka, in one run.

    make bench-spark                                  prints the page, writes docs/benchmarks/spark.md and spark.json
    make bench-spark ARGS="--records 500000"          a smaller topic
    make bench-spark ARGS="--only decoder"            record batches into Arrow alone, no broker and no Spark

Each source gets a Spark of its own (local[2], 2 GB), which counts the rows and the bytes of the topic three times: the
first is cold, the best of the others warm. Then it writes the topic to Parquet, twice, of which the better counts, and
a million rows with keys into another topic, three times, of which the better of the last two counts. Ours
also fills a Delta table from records of 1 KB, as a stream, with its start and its end in the time. Workers are watched
from outside, in the first pass over the topic and in the last. Both Sparks start their Python processes as `chronik
pipeline` does. Nothing here is a test: a slow machine fails nobody, and a missed bar is printed as such.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from load.pages import table, write_page
from load.servers import KAFKA_VERSION, CannotRun, chronik, kafka

ROOT = Path(__file__).resolve().parents[1]
CACHE = Path(os.environ.get("CHRONIK_CACHE", ROOT / ".cache"))
CORES = 2
SMALL, LARGE, SINK = "small", "large", "sink"  # topics
SMALL_BYTES, LARGE_BYTES = 100, 1024
LARGE_RECORDS = 2_000_000
VALUES = 20_000  # different values in turn, so that no file gets away with a dictionary
DECODER_BAR, SOURCE_BAR, DELTA_BAR = 2_000_000, 1.0, 50
DECODER_ROUNDS = 12
COUNTS, PARQUETS, DELTAS, SINKS = 3, 2, 2, 3
SINK_ROWS = 1_000_000
WATCH_S = 0.1
SHARES = {"a tenth": 0.1, "a quarter": 0.25, "half": 0.5, "three quarters": 0.75, "all": 1.0}  # of a pass
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def measure_decoder() -> dict[str, int]:
    """Records a second of one core, best of many rounds; batches as producers with little and with much to send."""
    from chronik.pipeline.decode import decode_batches
    from chronik.wire.batches import build
    from chronik.wire.compression import Codec
    from chronik.wire.records import Record

    found = {}
    chance = random.Random(1)
    records = [Record(i, 1_700_000_000_000 + i, b"k%06d" % i, chance.randbytes(SMALL_BYTES)) for i in range(64_000)]
    for work, size, codec in (
        ("150 records a batch", 150, Codec.NONE),
        ("1,000 records a batch", 1000, Codec.NONE),
        ("1,000 records a batch, zstd", 1000, Codec.ZSTD),
    ):
        data = b"".join(build(records[at : at + size], codec) for at in range(0, len(records), size))
        best_s = float("inf")
        for _ in range(DECODER_ROUNDS):
            started = time.process_time()
            count = sum(each.num_rows for each in decode_batches(data, topic=SMALL, partition=0))
            best_s = min(best_s, time.process_time() - started)
        found[work] = round(count / best_s)
    return found


def fill(bootstrap: str, topic: str, records: int, partitions: int, value_bytes: int) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 500_000})
    chance = random.Random(2)
    values = [chance.randbytes(value_bytes // 2).hex().encode() for _ in range(VALUES)]
    for i in range(records):
        while True:
            try:
                producer.produce(topic, values[i % VALUES], b"%d" % i, partition=i * partitions // records)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(300):
        raise SystemExit("the topic could not be filled")


# --- one source, in a process of its own, so that none finds a JVM that another has warmed up


class Workers:
    """The memory of the largest Python worker while something runs, looked at from outside."""

    def __init__(self) -> None:
        self._seen_mb: list[float] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Workers:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(WATCH_S):
            self._seen_mb.append(max(map(self._resident_mb, Path("/proc").iterdir())))

    def most_mb(self) -> list[float]:
        """Up to each share of the time."""
        return [
            max(self._seen_mb[: max(1, round(len(self._seen_mb) * share))], default=0.0) for share in SHARES.values()
        ]

    def _resident_mb(self, process: Path) -> float:
        try:
            command = (process / "cmdline").read_bytes()
            pages = int((process / "statm").read_text().split()[1])
        except OSError:
            return 0.0
        return pages * PAGE_BYTES / 1e6 if b"pyspark.daemon" in command else 0.0


def measure(source: str, bootstrap: str, jars: str) -> dict[str, Any]:
    os.environ.update(SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
    from chronik.pipeline import spark_home

    spark_home.settle_in()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{CORES}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "2g").config("spark.ui.showConsoleProgress", "false")
    session = (builder.config("spark.jars", jars) if jars else builder).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    options = {"kafka.bootstrap.servers": bootstrap, "startingOffsets": "earliest"}
    sinks = {"kafka.bootstrap.servers": bootstrap}
    frame = session.read.format(source).options(subscribe=SMALL, **options).load()
    rows = 0

    def count() -> None:
        nonlocal rows
        [told] = frame.selectExpr("count(*) rows", "sum(length(value)) bytes").collect()
        rows = told.rows

    def parquet() -> None:
        with tempfile.TemporaryDirectory() as folder:
            frame.write.mode("overwrite").parquet(folder)

    def delta() -> None:
        with tempfile.TemporaryDirectory() as folder:
            stream = session.readStream.format("chronik").options(subscribe=LARGE, **options).load()
            writer = stream.writeStream.format("chronik-table").option("checkpointLocation", f"{folder}/checkpoint")
            writer.trigger(availableNow=True).start(f"{folder}/table").awaitTermination()

    def sink() -> None:
        """Made by the JVM itself, so that nothing is measured but writing."""
        rows = session.range(0, SINK_ROWS, numPartitions=CORES)
        key, value = (
            "cast(id % 5000 as string) key",
            f"cast(rpad(cast(id as string), {SMALL_BYTES}, 'x') as binary) value",
        )
        rows.selectExpr(key, value).write.format(source).mode("append").options(topic=SINK, **sinks).save()

    counts_s, counts_mb = passes(count, COUNTS)
    found: dict[str, Any] = {"count, cold": rows / counts_s[0], "count, warm": rows / min(counts_s[1:])}
    found["to Parquet, warm"] = rows / min(passes(parquet, PARQUETS)[0])
    found["into a topic, warm"] = SINK_ROWS / min(passes(sink, SINKS)[0][1:])
    if source == "chronik":
        deltas_s, deltas_mb = passes(delta, DELTAS)
        found["to Delta, MB/s"] = LARGE_RECORDS * LARGE_BYTES / 1e6 / min(deltas_s)
        found["workers, MB"] = {"count": counts_mb, "to Delta": deltas_mb}
    session.stop()
    return found


def passes(work: Callable[[], None], times: int) -> tuple[list[float], list[list[float]]]:
    """Seconds of each pass, and the MB of its largest worker up to each share of it."""
    seconds, megabytes = [], []
    for _ in range(times):
        started = time.monotonic()
        with Workers() as workers:
            work()
            seconds.append(time.monotonic() - started)
        megabytes.append(workers.most_mb())
    return seconds, megabytes


def measure_apart(source: str, bootstrap: str) -> dict[str, Any]:
    from tests.oracle.jars import spark_kafka_jars
    from tests.pipeline.spark_session import SPARK_KAFKA

    jars = ",".join(map(str, spark_kafka_jars(SPARK_KAFKA))) if source == "kafka" else ""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, __file__, "--measure", source, "--bootstrap", bootstrap, "--jars", jars]
    ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def measure_sources(records: int, partitions: int) -> dict[str, dict[str, Any]]:
    found = {}
    with tempfile.TemporaryDirectory(prefix="chronik-bench-") as folder:
        for source in ("kafka", "chronik"):
            try:
                server = chronik(Path(folder), 1) if source == "chronik" else kafka(Path(folder), 1, CACHE)
            except CannotRun as reason:
                print(f"{source} is left out: {reason}")
                continue
            try:
                server.start()
                fill(server.bootstrap, SMALL, records, partitions, SMALL_BYTES)
                fill(server.bootstrap, SINK, 0, partitions, SMALL_BYTES)
                if source == "chronik":
                    fill(server.bootstrap, LARGE, LARGE_RECORDS, partitions, LARGE_BYTES)
                found[source] = measure_apart(source, server.bootstrap)
            finally:
                server.stop()
    return found


# --- the page


def verdict(*, is_met: bool) -> str:
    return "met" if is_met else "**missed**"


def decoder_section(found: dict[str, int]) -> str:
    rows = [
        [work, f"{speed:,}", f"{DECODER_BAR:,}", verdict(is_met=speed >= DECODER_BAR)] for work, speed in found.items()
    ]
    head = f"## The decoder alone (records/s of one core, {SMALL_BYTES} B)\n\n"
    return head + table(["batches", "Chronik", "bar", ""], rows)


def source_sections(found: dict[str, dict[str, Any]], records: int, partitions: int) -> list[str]:
    ours, theirs = found["chronik"], found.get("kafka", {})
    rows = []
    for work in ("count, cold", "count, warm", "to Parquet, warm", "into a topic, warm"):
        ratio = ours[work] / theirs[work] if theirs else None
        beside = ["-", "-", ""] if ratio is None else [f"{theirs[work]:,.0f}", f"{ratio:.2f}x", ""]
        if ratio is not None and "warm" in work:
            beside[-1] = f"bar {SOURCE_BAR}x, {verdict(is_met=ratio >= SOURCE_BAR)}"
        rows.append([work, f"{ours[work]:,.0f}", *beside])
    head = f"## Rows a second, {records:,} records of {SMALL_BYTES} B in {partitions} partitions, local[{CORES}]\n\n"
    columns = ["work", 'format("chronik") on Chronik', f'format("kafka") on Kafka {KAFKA_VERSION}', "ratio", ""]
    sources = head + table(columns, rows)
    mb_s = ours["to Delta, MB/s"] / CORES
    delta = (
        f"## A topic into a Delta table, {LARGE_RECORDS:,} records of {LARGE_BYTES} B, as a stream\n\n"
        f"{mb_s:.0f} MB/s a core on {CORES} cores, broker included; bar {DELTA_BAR}, "
        f"{verdict(is_met=mb_s >= DELTA_BAR)}."
    )
    memory = [
        [f"{work}, {which} pass", *(f"{mb:,.0f}" for mb in each[index])]
        for work, each in ours["workers, MB"].items()
        for which, index in (("first", 0), ("last", -1))
    ]
    head = "## Memory of the largest Python worker, in MB: the most until so much of a pass was over\n\n"
    return [sources, delta, head + table(["work", *SHARES], memory)]


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
    figures: dict[str, Any] = {}
    sections = []
    if asked.only != "spark":
        figures["decoder"] = measure_decoder()
        sections.append(decoder_section(figures["decoder"]))
    if asked.only != "decoder":
        figures["sources"] = measure_sources(asked.records, asked.partitions)
        sections += source_sections(figures["sources"], asked.records, asked.partitions)
    if asked.only is not None:
        print("\n\n".join(sections))
        return
    command = "make bench-spark" + ("" if asked.records == 5_000_000 else f' ARGS="--records {asked.records}"')
    page = write_page("spark", title="From a topic into Spark", command=command, sections=sections, figures=figures)
    print(page.read_text())


if __name__ == "__main__":
    main()
