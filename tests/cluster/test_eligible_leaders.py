"""In-sync replicas that die one by one (KIP-966): whoever left when nothing more could be acknowledged may lead."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from chronik.testing import Cluster
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.cluster.asking import Asked
from tests.cluster.load import PATIENCE_S, eventually, live_view, read_all
from tests.cluster.produced import ask_to_produce, told
from tests.oracle.comparison import Server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

TOPIC = "eligible"
SETTINGS = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "300"}
WITNESS = 4  # holds no replica and is never killed


def write(cluster: Cluster, count: int) -> dict[tuple[int, int], bytes]:
    """Acknowledged by all in-sync replicas, by partition and offset."""
    acknowledged = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        acknowledged[message.partition(), message.offset()] = message.value()

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    for number in range(count):
        producer.produce(TOPIC, b"record %d" % number, on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0
    assert len(acknowledged) == count
    return acknowledged


def wait_for_isr(cluster: Cluster, isr: set[int]) -> None:
    eventually(lambda: set(live_view(cluster, WITNESS, TOPIC)[0].isr) == isr, f"{isr} in sync")


def wait_for_leader(cluster: Cluster, leader: int) -> None:
    eventually(lambda: live_view(cluster, WITNESS, TOPIC)[0].leader == leader, f"leader {leader}")


def test_the_last_that_left_leads_without_the_last_that_stayed(uncomplaining_nodes: None) -> None:
    """Node 1 dies last and does not come back. Node 3 left while the others went on acknowledging, so it must not lead;
    node 2 left when nothing more could be acknowledged, so it holds everything, and does."""
    with Cluster(nodes=5, settings=SETTINGS, in_process=False) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        topic = NewTopic(TOPIC, 1, replica_assignment=[[1, 2, 3]], config={"min.insync.replicas": "2"})
        admin.create_topics([topic])[TOPIC].result(PATIENCE_S)
        acknowledged = write(cluster, 100)
        cluster.kill(3)
        wait_for_isr(cluster, {1, 2})
        acknowledged |= write(cluster, 100)
        cluster.kill(2)
        wait_for_isr(cluster, {1})
        alone = Server("node 1", cluster.ports[0])
        ask_to_produce(alone, TOPIC, b"alone")
        assert told(alone) == ErrorCode.NOT_ENOUGH_REPLICAS
        alone.close_all()
        cluster.kill(1)
        cluster.start_again(3)
        wait_for_leader(cluster, -1)
        cluster.start_again(2)
        wait_for_leader(cluster, 2)
        wait_for_isr(cluster, {2, 3})  # before that the leader cannot know how far its predecessor had committed
        assert read_all(cluster, TOPIC, partitions=1) == acknowledged
        acknowledged |= write(cluster, 100)
        cluster.start_again(1)
        wait_for_isr(cluster, {1, 2, 3})
        assert read_all(cluster, TOPIC, partitions=1) == acknowledged


def test_clients_learn_that_the_cluster_counts_on_eligible_replicas() -> None:
    """As in a new cluster of Kafka 4.3, and one of our own. Clients before v4 take a feature that may be at level
    0 for a mistake, so they are not told of it."""
    with Cluster(nodes=1) as cluster:
        node = Asked(cluster, 1)
        asked = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        from_level_0 = {
            "eligible.leader.replicas.version",
            "group.version",
            "share.version",
            "streams.version",
            "transaction.version",
        }
        for version, left_out in ((3, from_level_0), (4, set())):
            answer = node.ask(asked, ApiVersionsResponse, version)
            levels = [(each.name, each.max_version_level) for each in answer.finalized_features]
            expected = [
                ("chronik.format", 2),
                ("eligible.leader.replicas.version", 1),
                ("group.version", 1),
                ("share.version", 1),
                ("streams.version", 1),
                ("transaction.version", 2),
            ]
            assert levels == expected
            assert answer.finalized_features_epoch >= 0
            assert {each.name for each in answer.supported_features} == {name for name, _ in expected} - left_out
        node.close()
