"""The same file on two cores of this machine and on a standalone cluster of two workers: the same tables."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chronik.pipeline.live_cluster import LiveCluster
from chronik.testing import Cluster
from tests.house.repository import SOURCE
from tests.pipeline.pipelines import Bench, as_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.xdist_group("spark")]

SHOP = '''
from pyspark.sql import functions as F
from chronik.pipeline import bronze, silver

@F.udf("string")
def shouted(text):
    """Defined here, so executors cannot import it: it must travel by value."""
    return None if text is None else text.upper()

@bronze(topic="{topic}", decode="json", key="id long", schema="name string, at timestamp", is_stored=False)
def changes(records):
    return records

@silver(keys=["id"], sequence_by="at", delete_when="_deleted")
def orders(changes):
    return changes.withColumn("name", shouted("name"))
'''
POLL_S = 0.1
MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = re.compile(r"Registering worker")


class Daemon:
    """A master or a worker of the pip package, until it is closed."""

    def __init__(self, log: Path, *words: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        environment = os.environ | {"PYTHONPATH": str(SOURCE), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(home)}
        environment |= {"SPARK_DAEMON_MEMORY": "256m", "PYSPARK_PYTHON": sys.executable}
        self.log = log
        with log.open("wb") as out:
            command = [str(home / "bin/spark-class"), *words]
            self.process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, start_new_session=True)

    def says(self, wanted: re.Pattern[str], count: int = 1) -> str:
        """Waits for a line of its log; pytest's own time-out ends it."""
        while True:
            found = wanted.findall(self.log.read_text(errors="replace"))
            if len(found) >= count:
                return str(found[0])
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(POLL_S)
                pytest.fail(self.log.read_text(errors="replace")[-2000:])

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(30)


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[str]:
    prefix = "org.apache.spark.deploy"
    master = Daemon(tmp_path / "master.log", f"{prefix}.master.Master", "--host", "127.0.0.1", "--port", "0")
    daemons = [master]
    try:
        url = master.says(MASTER)
        for index in range(2):
            words = [f"{prefix}.worker.Worker", url, "--cores", "1", "--memory", "1g", "--host", "127.0.0.1"]
            work = ["--webui-port", "0", "--work-dir", str(tmp_path / f"work{index}")]
            daemons.append(Daemon(tmp_path / f"worker{index}.log", *words, *work))
        master.says(REGISTERED, count=2)
        yield url
    finally:
        for daemon in reversed(daemons):
            daemon.close()


def table_hash(bench: Bench) -> str:
    rows = [{name: str(value) for name, value in row.items()} for row in bench.rows("orders")]
    return hashlib.sha256(json.dumps(sorted(rows, key=lambda row: int(row["id"]))).encode()).hexdigest()


def test_a_cluster_of_two_workers_makes_the_same_table(
    spark: SparkSession, our_broker: Cluster, unique: Callable[[str], str], tmp_path: Path, standalone: str
) -> None:
    """Scaling out is Spark's business: nothing in a pipeline file says where it runs."""
    topic = unique("scaled")
    cluster = LiveCluster(our_broker.bootstrap)
    cluster.create_topic(topic, 4)
    file = tmp_path / "shop.py"
    file.write_text(SHOP.replace("{topic}", topic))
    here = Bench(spark, cluster, file, tmp_path / "here")
    here.send(
        topic,
        [
            (b"%d" % (index % 70), None if index % 19 == 0 else as_json(name=f"n{index}", at="2026-01-01T00:00:00Z"))
            for index in range(400)
        ],
    )
    here.send(topic, [(b"1", b"{")])
    here.run()
    there = Bench(spark, cluster, file, tmp_path / "there")
    command = [sys.executable, "-m", "chronik.cli", "pipeline", "run", str(file), "--once", "--format", "json"]
    command += ["--bootstrap", our_broker.bootstrap, "--storage", str(there.storage), "--master", standalone]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    environment |= {"PYTHONPATH": str(SOURCE), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    [told] = json.loads(done.stdout)
    assert (told["rows_in"], told["rows_out"], told["rows_dead"], told["lag_messages"]) == (401, 400, 1, 0)
    assert table_hash(there) == table_hash(here)
    assert len(here.rows("orders")) > 50
