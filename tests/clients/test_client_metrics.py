"""Metrics that Kafka's clients push (KIP-714) are shown on /metrics, for the clients that a subscription selects."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from chronik.testing import Cluster
from chronik.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
    DescribeQuorumResponse,
)
from tests.clients.drivers.kafka_tools import KafkaTools
from tests.cluster.load import Asked, eventually

pytestmark = pytest.mark.java

RECORDS = 100


@pytest.fixture(scope="module")
def tools() -> Iterator[KafkaTools]:
    tools = KafkaTools("4.3.1")
    yield tools
    tools.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(settings={"chronik.admin.listener": "127.0.0.1:0"}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def page(cluster: Cluster) -> str:
    """Where the metrics are."""
    whole = [DescribeQuorumRequestPartition(partition_index=0)]
    topic = DescribeQuorumRequestTopic(topic_name="__cluster_metadata", partitions=whole)
    node = Asked(cluster, 1)
    answer = node.ask(DescribeQuorumRequest(topics=[topic]), DescribeQuorumResponse, 2)
    node.close()
    (port,) = [at.port for member in answer.nodes for at in member.listeners if at.name == "CHRONIK-ADMIN"]
    return f"http://127.0.0.1:{port}/metrics"


def pushed(page: str, client_id: str) -> dict[str, float]:
    """The newest value of each metric of the client, its labels aside."""
    text = urllib.request.urlopen(page, timeout=5).read().decode()
    lines = re.findall(rf'(kafka_client_\w+){{[^}}]*client_id="{client_id}"[^}}]*}} (\S+)', text)
    return {name: float(value) for name, value in lines}


def test_a_subscription_is_made_shown_and_deleted_with_kafkas_tool(tools: KafkaTools, cluster: Cluster) -> None:
    where = ("--bootstrap-server", cluster.bootstrap)
    made = ("--name", "made", "--metrics", "a,b", "--interval", "60000", "--match", "client_id=nobody")
    assert "Altered client metrics config for made." in tools.run("ClientMetricsCommand", *where, "--alter", *made)
    described = tools.run("ClientMetricsCommand", *where, "--describe", "--name", "made")
    assert all(each in described for each in ("interval.ms=60000", "match=client_id=nobody", "metrics=a,b"))
    assert "made" in tools.run("ClientMetricsCommand", *where, "--list")
    wrong = ("--name", "made", "--match", "no_such=x")
    assert "'no_such=x'" in tools.refused("ClientMetricsCommand", *where, "--alter", *wrong)
    tools.run("ClientMetricsCommand", *where, "--delete", "--name", "made")
    assert "made" not in tools.run("ClientMetricsCommand", *where, "--list")


def test_producers_of_two_libraries_are_shown_with_their_rates(tools: KafkaTools, cluster: Cluster, page: str) -> None:
    where = ("--bootstrap-server", cluster.bootstrap)
    made = ("--name", "producers", "--metrics", "*", "--interval", "200", "--match", "client_id=pushing-.*")
    tools.run("ClientMetricsCommand", *where, "--alter", *made)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "client.id": "pushing-librdkafka"})
    for _ in range(RECORDS):
        producer.produce("pushing", b"x")
    producer.flush()
    seen = eventually(lambda: pushed(page, "pushing-librdkafka"), "metrics of librdkafka")
    assert {"kafka_client_producer_connection_creation_rate", "kafka_client_producer_request_latency_avg"} <= set(seen)
    properties = [f"bootstrap.servers={cluster.bootstrap}", "client.id=pushing-java"]
    load = ("--topic", "pushing", "--num-records", str(RECORDS), "--record-size", "10", "--throughput", "50")
    sent = "kafka_client_producer_record_send_total"

    def is_shown() -> bool:
        """A producer pushes once more when it is closed, but only if it has its subscription by then."""
        tools.run("ProducerPerformance", *load, "--producer-props", *properties)
        return pushed(page, "pushing-java").get(sent) == RECORDS

    eventually(is_shown, "metrics of the Java client")
    seen = pushed(page, "pushing-java")
    assert seen["kafka_client_producer_record_send_rate"] > 0
