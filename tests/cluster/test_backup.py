"""A backup of a cluster under load, while a node is killed; and its restore into another cluster."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from chronik.testing import Cluster
from tests.cluster.load import PARTITIONS, PATIENCE_S, Load, check_complete, read_all, wait_for_full_isr
from tests.house.repository import SOURCE

GROUP = "billing"


def chronik(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "chronik.cli", *words, "--bootstrap", cluster.bootstrap]
    done = subprocess.run(command, env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def consume_and_commit(cluster: Cluster, topic: str, count: int) -> dict[int, int]:
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "log_level": 0})
    consumer.subscribe([topic])
    left = count
    while left > 0:
        left -= len(consumer.consume(left, PATIENCE_S))
    consumer.commit(asynchronous=False)
    found = committed(consumer, topic)
    consumer.close()
    return found


def committed(consumer: Consumer, topic: str) -> dict[int, int]:
    places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    return {each.partition: each.offset for each in consumer.committed(places, PATIENCE_S)}


@pytest.mark.slow
def test_a_backup_under_load_and_kills_restores_every_record_at_its_offset(tmp_path: Path) -> None:
    """Record by record and group by group. What was acknowledged before the backup began is in it; nothing in it was
    never acknowledged. A second backup, which begins before the others notice that a node is dead, adds what came
    since; then both clusters are equal."""
    where = str(tmp_path / "backup")
    with Cluster(nodes=3, in_process=False) as source:
        chronik(source, "topic", "create", "orders", "--partitions", str(PARTITIONS), "--replication-factor", "3")
        load = Load(source, "orders", value_bytes=2_000)
        load.wait_for_more()
        group_before = consume_and_commit(source, "orders", 60)
        acknowledged_before = dict(load.acknowledged)
        killed = threading.Thread(target=source.kill, args=(2,))
        taking = threading.Thread(target=chronik, args=(source, "backup", where))
        taking.start()
        killed.start()
        killed.join()
        load.wait_for_more()
        source.start_again(2)
        taking.join()
        load.wait_for_more(5)
        load.stop()
        assert not load.failures, load.failures[:3]
        with Cluster() as target:
            chronik(target, "restore", where, "--replication-factor", "1")
            first = read_all(target, "orders")
            assert first.items() <= load.acknowledged.items()
            assert acknowledged_before.items() <= first.items()
            reader = Consumer({"bootstrap.servers": target.bootstrap, "group.id": GROUP, "log_level": 0})
            assert committed(reader, "orders") == group_before
            reader.close()
        wait_for_full_isr(source, "orders")
        source.kill(3)  # nobody has noticed yet when the second backup begins
        chronik(source, "backup", where)
        with Cluster() as target:
            chronik(target, "restore", where, "--replication-factor", "1")
            check_complete(load, read_all(target, "orders"))
