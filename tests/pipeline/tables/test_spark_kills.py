"""kill -9 of drivers and workers while a topic becomes a table, and two drivers where there should be one.

The guarantee: per partition, rows == distinct offsets == records in the topic, and each batch id is committed once.
`test_kills` does the same without Spark, with many more kills in the same time; `test_transactions` has concurrent
writers.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from chronik.pipeline import spark_home
from chronik.pipeline.tables.place import Place
from chronik.testing import Cluster
from tests.pipeline.driver_processes import COMMITS, PLANNING, TASKS, wait_until_planning, workers_of
from tests.pipeline.tables.rows import batches_in_history

# A driver takes seconds to start, minutes on a machine that is busy with other things.
pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark-kills"),  # its drivers are separate, so tests that share a session need not wait
    pytest.mark.timeout(3600),
]

SHORT_KILLS = 3
KILLS = int(os.environ.get("CHRONIK_SPARK_KILLS", SHORT_KILLS))  # CHRONIK_SPARK_KILLS=30 is the long run
SEED = int(os.environ.get("CHRONIK_SPARK_KILLS_SEED", "3"))
TOPIC = "killed"
PARTITIONS = 3
BATCH_ROWS = 400
BATCHES_PER_DRIVER = 5
DRIVER = "driver"
VICTIMS = [DRIVER, TASKS, COMMITS, PLANNING]
# After a kill, or after planning has begun, the next kill comes within so long: a few batches of a warm driver, or the
# first of one that is cold.
SPAN_S = 4.0


class Run:
    """A topic, its table, and the drivers that copy one to the other."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.place = Place.of(str(folder / "table"))
        self.checkpoint = folder / "checkpoint"
        self.bootstrap = cluster.bootstrap
        self.values: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
        self._producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", "linger.ms": 5, "log_level": 0})

    def produce(self, count: int) -> None:
        for _ in range(count):
            partition = sum(map(len, self.values.values())) % PARTITIONS
            value = b"%d" % len(self.values[partition])
            self.values[partition].append(value)
            self._producer.produce(TOPIC, value, partition=partition)
            self._producer.poll(0)
        assert self._producer.flush(60) == 0

    @contextlib.contextmanager
    def driver(self) -> Iterator[subprocess.Popen[bytes]]:
        words = [self.bootstrap, TOPIC, self.place.uri, str(self.checkpoint), str(BATCH_ROWS)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.tables.topic_to_table", *words],
            env=environment,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def finish(self) -> None:
        """Drivers until one gets to the end of the topic."""
        for _ in range(5):
            with self.driver() as process:
                if process.wait() == 0:
                    return
        raise AssertionError("no driver gets through")

    def finish_twice(self) -> None:
        """Two drivers at once. Spark stops one of them, sooner or later; until then both do the same work."""
        with self.driver() as one, self.driver() as two:
            ended = [one.wait(), two.wait()]
        if 0 not in ended:  # each stopped the other
            self.finish()

    def phase(self) -> str:
        """Where in its life the batch under way is, by the files that Spark and its tasks leave."""
        planned, done = (
            max((int(each.name) for each in (self.checkpoint / folder).glob("[0-9]*")), default=-1)
            for folder in ("offsets", "commits")
        )
        if planned == done:
            return "planning"
        table = self.place.find()
        query = json.loads((self.checkpoint / "metadata").read_text())["id"]
        if table is not None and (table.transaction_version(query) or -1) >= planned:
            return "committed, not noted"
        finished = {each.name.split("-")[1] for each in Path(self.place.uri).glob(f"b{planned}-*")}
        return ("reading and writing", "writing", "writing", "committing")[len(finished)]

    def check(self) -> None:
        rows = DeltaTable(self.place.uri).to_pyarrow_table(columns=["_partition", "_offset", "value", "_topic_id"])
        found: dict[int, dict[int, bytes]] = {partition: {} for partition in range(PARTITIONS)}
        for partition, offset, value in zip(
            *(rows[name].to_pylist() for name in ("_partition", "_offset", "value")), strict=True
        ):
            assert offset not in found[partition], f"{partition}/{offset} is in the table twice"
            found[partition][offset] = value
        for partition, values in self.values.items():
            assert sorted(found[partition]) == list(range(len(values))), f"partition {partition} has gaps"
            assert [found[partition][offset] for offset in range(len(values))] == values
        assert len(set(rows["_topic_id"].to_pylist())) == 1
        batches = batches_in_history(self.place)
        assert [number for _, number in batches] == list(range(len(batches))), "a batch id has not exactly one commit"
        assert len({application for application, _ in batches}) == 1

    def summary(self) -> str:
        records = sum(map(len, self.values.values()))
        return f"{records} records in {len(batches_in_history(self.place))} batches, each once"


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    spark_home.settle_in()  # once, for all drivers
    with Cluster(settings={"num.partitions": str(PARTITIONS)}) as cluster:
        yield Run(tmp_path, cluster)


def test_kills_of_drivers_and_workers_lose_and_double_nothing(run: Run) -> None:
    """Each kill falls at any moment of a batch: while it is planned, read, written, committed, or noted as committed.

    In the long run, two drivers then do the rest at the same time, as if the job were started again while it runs.
    """
    random = Random(SEED)
    fallen: list[tuple[str, str]] = []
    while len(fallen) < KILLS:
        run.produce(BATCH_ROWS * BATCHES_PER_DRIVER)
        with run.driver() as process:
            wait_until_planning(process)
            while process.poll() is None and len(fallen) < KILLS:
                time.sleep(random.random() * SPAN_S)
                victim = VICTIMS[(len(fallen) + SEED) % len(VICTIMS)]
                pids = [process.pid] if victim == DRIVER else workers_of(process.pid, victim)
                if process.poll() is not None or not pids:
                    continue
                phase = run.phase()
                if victim == DRIVER:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                else:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(random.choice(pids), signal.SIGKILL)
                fallen.append((victim.rpartition(".")[2], phase))
            ended = process.wait()  # a driver whose task was killed continues
    if KILLS > SHORT_KILLS:
        run.produce(BATCH_ROWS * 2)
        run.finish_twice()
    elif ended != 0:
        run.finish()
    run.check()
    print(f"{len(fallen)} kills: {dict(Counter(fallen))}; {run.summary()}")


@pytest.mark.long
def test_two_drivers_on_one_checkpoint_commit_each_batch_once(run: Run) -> None:
    """The job is started twice, on an empty table."""
    run.produce(BATCH_ROWS * 4)
    run.finish_twice()
    run.check()
