"""The testing kit is what users build their tests on: it must be isolated, ready when it says so, and clean up."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from confluent_kafka import Producer

from chronik.testing import Cluster


def produce_one(cluster: Cluster, topic: str) -> int:
    offsets: list[int] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    producer.produce(topic, b"x", on_delivery=lambda error, message: offsets.append(message.offset()))
    assert producer.flush(30) == 0
    return offsets[0]


def test_the_fixture_gives_a_broker_that_is_ready(chronik_cluster: Cluster) -> None:
    assert produce_one(chronik_cluster, "orders") == 0


def test_two_clusters_share_nothing() -> None:
    with Cluster() as one, Cluster() as other:
        assert one.port != other.port
        assert produce_one(one, "t") == 0
        assert produce_one(other, "t") == 0


@pytest.mark.parametrize("in_process", [True, False])
def test_a_restart_keeps_data_and_address(*, in_process: bool) -> None:
    with Cluster(in_process=in_process) as cluster:
        bootstrap = cluster.bootstrap
        assert produce_one(cluster, "t") == 0
        cluster.restart()
        assert cluster.bootstrap == bootstrap
        assert produce_one(cluster, "t") == 1


def test_nothing_is_left_behind() -> None:
    with Cluster() as cluster:
        data, port = cluster.data, cluster.port
        assert data.exists()
    assert not data.exists()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 1):
        pass


def test_data_of_ones_own_stays(tmp_path: Path) -> None:
    with Cluster(data=tmp_path) as cluster:
        assert produce_one(cluster, "t") == 0
    with Cluster(data=tmp_path) as cluster:
        assert produce_one(cluster, "t") == 1


def test_settings_are_kafkas_own() -> None:
    with Cluster(settings={"auto.create.topics.enable": "false"}) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0, "message.timeout.ms": 1500})
        failures: list[str] = []
        producer.produce("none", b"x", on_delivery=lambda error, message: failures.append(error.name()))
        producer.flush(30)
        assert failures
