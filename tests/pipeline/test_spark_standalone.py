"""The same file on two cores of this process's Spark and on a standalone master with two workers: the same tables."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from chronik.pipeline.live_cluster import LiveCluster
from chronik.testing import Cluster
from tests.house.repository import ROOT, SOURCE
from tests.pipeline.pipelines import Bench, as_json
from tests.pipeline.standalone import WORKERS, Standalone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Six JVMs: a master, two workers with an executor each, and a driver.
pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(900),
]

EXAMPLE = ROOT / "examples/orders_cdc/pipeline.py"
TABLES = ("order_changes", "orders", "spending")
ORDERS, CHANGES = 50, 600


def digest(storage: Path, table: str) -> str:
    """Of all rows, whatever their order and the files they are in."""
    rows = DeltaTable(str(storage / "tables" / table)).to_pyarrow_table().to_pylist()
    assert rows, f"{table} is empty"
    return hashlib.sha256("\n".join(sorted(repr(sorted(row.items())) for row in rows)).encode()).hexdigest()


@pytest.mark.parametrize("only", ["order_changes", None])
def test_a_standalone_master_with_two_workers_gives_the_same_tables(
    spark: SparkSession, our_broker: Cluster, unique: Callable[[str], str], tmp_path: Path, only: str | None
) -> None:
    """A pipeline that was tried on a laptop runs on a cluster: one file, another --master, the same hash of each
    table."""
    topic = unique("orders")
    file = tmp_path / "orders_cdc.py"
    file.write_text(EXAMPLE.read_text().replace('topic="orders"', f'topic="{topic}"'))
    local = Bench(spark, LiveCluster(our_broker.bootstrap), file, tmp_path / "local")
    local.cluster.create_topic(topic, 4)
    for first in range(0, CHANGES, 100):
        local.send(topic, [change(number) for number in range(first, first + 100)])
    local.run(only=only)
    lake = tmp_path / "cluster"
    words = ["--only", only] if only else []
    words += ["--once", "--storage", str(lake), "--bootstrap-server", our_broker.bootstrap, "--format", "json"]
    with Standalone(tmp_path / "spark") as cluster:
        done = subprocess.run(
            [sys.executable, "-m", "chronik.cli", "pipeline", "run", str(file), "--master", cluster.master, *words],
            env=cluster.environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert len(cluster.executors()) == WORKERS
    told = {row["flow"]: row for row in json.loads(done.stdout)}
    assert told["order_changes"]["rows_in"] == CHANGES
    assert told["order_changes"]["rows_dead"] == CHANGES // 100
    tables = [only] if only else TABLES
    assert {name: digest(lake, name) for name in tables} == {name: digest(local.storage, name) for name in tables}


def test_a_spark_that_does_not_start_is_told_in_one_sentence(
    our_broker: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """A wrong --master is a mistake in typing; eighty lines of Java do not say so."""
    topic = unique("orders")
    LiveCluster(our_broker.bootstrap).create_topic(topic, 1)
    file = tmp_path / "orders_cdc.py"
    file.write_text(EXAMPLE.read_text().replace('topic="orders"', f'topic="{topic}"'))
    words = [str(file), "--master", "locale[2]", "--storage", str(tmp_path), "--bootstrap-server", our_broker.bootstrap]
    command = [sys.executable, "-m", "chronik.cli", "pipeline", "dry-run", *words]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "SPARK_NOT_STARTED: Spark does not start on locale[2]: " in last
    assert "Could not parse Master URL" in last


def change(number: int) -> tuple[bytes, bytes | None]:
    key = b"%d" % (number % ORDERS)
    if number % 100 == 7:
        return key, b'{"customer": "ada", "amo'
    if number % 37 == 0:
        return key, None
    updated = f"2026-01-01T10:{number // 60 % 60:02}:{number % 60:02}Z"
    return key, as_json(customer=f"c{number % 11}", amount=number / 4, status="new", updated=updated)
