"""`exactlyOnce` in a real Spark: tasks that fail, drivers that start again, kill -9 of drivers, tasks and brokers."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException

from chronik.pipeline import spark_home
from chronik.testing import Cluster
from tests.oracle.kafka_server import KafkaServer
from tests.pipeline import topics
from tests.pipeline.batch_writer import visible
from tests.pipeline.driver_processes import COMMITS, TASKS, wait_until_planning, workers_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(3600),
]

SHORT_KILLS = 5
KILLS = int(os.environ.get("CHRONIK_SPARK_KILLS", SHORT_KILLS))
SEED = int(os.environ.get("CHRONIK_SPARK_KILLS_SEED", "5"))
BATCH_ROWS = 300
DRIVER, BROKER = "driver", "broker"
VICTIMS = [TASKS, DRIVER, BROKER, COMMITS]
SPAN_S = 4.0


def fill(bootstrap: str, topic: str, first: int, count: int) -> list[str]:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    values = [f"{i:06}" for i in range(first, first + count)]
    for i, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=i % 2)
    assert producer.flush(60) == 0
    return values


def test_rows_are_written_once_through_tasks_that_fail_and_other_numbers_of_tasks(
    spark: SparkSession, our_broker: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Each start of the query divides rows among another number of tasks, and its tasks fail after some rows."""
    bootstrap = our_broker.bootstrap
    source, target = (topics.create(bootstrap, unique(name), partitions=2) for name in ("from", "to"))
    values = fill(bootstrap, source, 0, 1200)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "20")
    random = Random(SEED)
    failures = 0
    for start in range(40):
        poison = random.choice(values) if start < 6 else "none"

        def checked(rows: Iterator, poison: str = poison) -> Iterator:  # type: ignore[type-arg]
            for frame in rows:
                if bytes(poison, "utf-8") in {bytes(value) for value in frame["value"]}:
                    raise ValueError("a task fails")
                yield frame

        records = (
            spark.readStream.format("chronik")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", source)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", BATCH_ROWS)
            .load()
            .selectExpr("value AS key", "value")
        )
        query = (
            records.repartition(random.randint(1, 4))
            .mapInPandas(checked, "key binary, value binary")
            .writeStream.format("chronik")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", target)
            .option("exactlyOnce", "true")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except PySparkException as fault:
            if "a task fails" not in str(fault) and "Python worker failed to connect back" not in str(fault):
                raise
            failures += 1
        else:
            break
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert failures > 0
    assert visible(bootstrap, target) == values


def test_a_batch_frame_has_no_batches_to_write_once(spark: SparkSession, our_broker: Cluster) -> None:
    """Without numbers there is nothing to recognise a repetition by."""
    frame = spark.createDataFrame([("v",)], "value string").write.format("chronik").mode("append")
    frame = frame.option("kafka.bootstrap.servers", our_broker.bootstrap).option("topic", "any")
    with pytest.raises(PySparkException, match=r"\[UNSUPPORTED_OPTION\].*writeStream"):
        frame.option("exactlyOnce", "true").save()


class Broker:
    """A broker that can be killed and comes back on the same data and port: ours, or the real Kafka."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._ours = Cluster(in_process=False) if kind == "chronik" else None
        self._kafka = KafkaServer(folder).start() if self._ours is None else None

    @property
    def bootstrap(self) -> str:
        return self._ours.bootstrap if self._ours is not None else self._kafka.bootstrap  # type: ignore[union-attr]

    def kill_and_restart(self) -> None:
        if self._ours is not None:
            self._ours.kill()
            self._ours.start_again()
        else:
            assert self._kafka is not None
            self._kafka.restart()

    def close(self) -> None:
        if self._ours is not None:
            self._ours.close()
        else:
            assert self._kafka is not None
            self._kafka.stop()


@contextlib.contextmanager
def driver(*words: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.topic_to_topic", *words],
            env=environment,
            start_new_session=True,
            stdout=out,
            stderr=out,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["chronik", "kafka"])
def test_kills_of_drivers_tasks_and_brokers_lose_and_double_nothing(kind: str, tmp_path: Path) -> None:
    """Each kill falls at any moment of a batch; each driver has another number of tasks than the one before."""
    spark_home.settle_in()
    random = Random(SEED)
    broker = Broker(kind, tmp_path / "kafka")
    try:
        bootstrap = broker.bootstrap
        topics.create(bootstrap, "from", partitions=2)
        topics.create(bootstrap, "to", partitions=2)
        fallen: list[str] = []
        values: list[str] = []
        log = tmp_path / "drivers.log"
        is_done = False
        while len(fallen) < KILLS or not is_done:
            if len(fallen) < KILLS:
                values += fill(bootstrap, "from", len(values), BATCH_ROWS * 5)
            checkpoint, tasks = str(tmp_path / "checkpoint"), str(random.randint(1, 4))
            with driver(bootstrap, "from", "to", checkpoint, str(BATCH_ROWS), tasks, log=log) as process:
                wait_until_planning(process)
                while process.poll() is None and len(fallen) < KILLS:
                    time.sleep(random.random() * SPAN_S)
                    victim = VICTIMS[len(fallen) % len(VICTIMS)]
                    if process.poll() is not None:
                        break
                    if victim == DRIVER:
                        os.killpg(process.pid, signal.SIGKILL)
                    elif victim == BROKER:
                        broker.kill_and_restart()
                    elif pids := workers_of(process.pid, victim):
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(random.choice(pids), signal.SIGKILL)
                    else:
                        continue
                    fallen.append(victim.rpartition(".")[2])
                is_done = process.wait() == 0
        assert visible(bootstrap, "to") == values
        print(f"{kind}: {len(fallen)} kills {dict(Counter(fallen))}, {len(values)} rows, each once")
    finally:
        broker.close()
