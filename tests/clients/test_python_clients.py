"""The Python clients: librdkafka, kafka-python old and new, aiokafka."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from kafka import KafkaProducer

from chronik.testing import Cluster
from tests.clients.contract import ClientContract, ConsumerGroupContract
from tests.clients.driver import Driver
from tests.clients.drivers.aiokafka import AiokafkaDriver
from tests.clients.drivers.confluent import ConfluentDriver
from tests.clients.drivers.kafka_python import KafkaPythonDriver

pytestmark = pytest.mark.slow  # twenty seconds of rebalances


class TestConfluent(ClientContract):
    @pytest.fixture
    def driver(self, cluster: Cluster) -> Iterator[Driver]:
        yield from closing(ConfluentDriver(cluster.bootstrap))


class TestConfluentInConsumerGroups(ConsumerGroupContract):
    """group.protocol=consumer: the coordinator assigns."""

    @pytest.fixture
    def driver(self, cluster: Cluster) -> Iterator[Driver]:
        yield from closing(ConfluentDriver(cluster.bootstrap, group_protocol="consumer"))


class TestKafkaPython(ClientContract):
    @pytest.fixture
    def driver(self, cluster: Cluster) -> Iterator[Driver]:
        yield from closing(KafkaPythonDriver(cluster.bootstrap))


class TestKafkaPythonOf2016(ClientContract):
    """Talks to us as to a broker of version 0.10.1: Produce v2, Fetch v3, magic 1, no headers."""

    @pytest.fixture
    def driver(self, cluster: Cluster) -> Iterator[Driver]:
        yield from closing(KafkaPythonDriver(cluster.bootstrap, api_version=(0, 10, 1)))

    @pytest.mark.filterwarnings("ignore:value_serializer does not implement:DeprecationWarning")
    def test_send_with_a_json_serializer_returns_the_offset(self, cluster: Cluster) -> None:
        """A response whose throttle_time_ms stood first made exactly this call time out."""
        producer = KafkaProducer(
            bootstrap_servers=cluster.bootstrap,
            api_version=(0, 10, 1),
            value_serializer=lambda value: json.dumps(value).encode(),
        )
        offsets = [producer.send("json-0-10-1", {"n": n}, partition=0).get(timeout=60).offset for n in range(3)]
        producer.close()
        assert offsets == [0, 1, 2]


class TestAiokafka(ClientContract):
    @pytest.fixture
    def driver(self, cluster: Cluster) -> Iterator[Driver]:
        yield from closing(AiokafkaDriver(cluster.bootstrap))


def closing(driver: Driver) -> Iterator[Driver]:
    yield driver
    driver.close()
