"""Materialized topics on a real Spark: configs set by a Kafka tool become tables, with states that are true."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from chronik.pipeline.live_cluster import LiveCluster, Outgoing
from chronik.pipeline.materialize import Materializer
from chronik.pipeline.storage import Storage
from chronik.pipeline.supervisor import tables_listed
from chronik.testing import Cluster
from tests.pipeline.pipelines import as_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.spark, pytest.mark.long, pytest.mark.xdist_group("spark")]


def create(bootstrap: str, topic: str, **config: str) -> str:
    """With another client's admin, because any tool may change the settings."""
    own = {f"chronik.table.{name.replace('_', '.')}": value for name, value in config.items()}
    new = NewTopic(topic, 1, 1, config={"chronik.table.enable": "true"} | own)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([new])[topic].result(30)
    return topic


def test_topics_become_tables_and_their_states_are_true(
    spark: SparkSession, our_broker: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """By key, suspended at a broken record, and waiting for a first record: three tables, one application."""
    bootstrap = our_broker.bootstrap
    cluster = LiveCluster(bootstrap)
    kept = create(bootstrap, unique("kept"), mode="upsert", decode="json", target_lag_ms="1000")
    broken = create(bootstrap, unique("broken"), decode="json", on_error="suspend", target_lag_ms="1000")
    empty = create(bootstrap, unique("empty"), decode="json")
    cluster.send(kept, [Outgoing(b"%d" % (index % 5), as_json(n=index)) for index in range(20)])
    cluster.send(kept, [Outgoing(b"4", None), Outgoing(b"3", b"{")])
    cluster.send(broken, [Outgoing(None, as_json(n=1)), Outgoing(None, b"{")])
    materializer = Materializer(spark, cluster, Storage(tmp_path))
    materializer.prepare()
    wanted = {kept: "RUNNING", broken: "SUSPENDED", empty: "PENDING"}
    try:
        while True:  # pytest's own time-out ends it
            states = {state.topic: state for state in materializer.tick() if state.topic in wanted}
            lag = cluster.lag_of(f"materialized.{kept.replace('-', '_')}", kept)
            if (
                {topic: state.state for topic, state in states.items()} == wanted
                and lag is not None
                and lag.messages == 0
            ):
                break
        listed = {row["topic"]: row for row in tables_listed(cluster, tmp_path, time.time_ns() // 1_000_000)}
    finally:
        materializer.stop()
    assert {topic: listed[topic]["state"] for topic in wanted} == wanted
    # Three sources of a table's lag: the list, the group, the query's progress.
    assert (listed[kept]["lag_messages"], listed[kept]["lag_ms"], listed[kept]["rows_dead"]) == (0, 0, 1)
    assert listed[broken]["lag_messages"] == 2
    assert "RECORD_REFUSED" in listed[broken]["error"]
    from deltalake import DeltaTable

    rows = DeltaTable(listed[kept]["table"]).to_pyarrow_table().to_pylist()
    assert {row["_key"]: row["n"] for row in rows} == {"0": 15, "1": 16, "2": 17, "3": 18}
