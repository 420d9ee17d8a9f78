"""Consumer groups through rolling restarts: coordinators move with each, and members notice no more than a pause."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
from confluent_kafka import Consumer, TopicPartition

from chronik.coordinator.partitions import partition_for
from chronik.testing import Cluster
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.clients.driver import Driver
from tests.clients.drivers.confluent import ConfluentDriver
from tests.clients.drivers.kafka_python import KafkaPythonDriver
from tests.clients.test_java_clients import java_driver
from tests.cluster.asking import Asked
from tests.cluster.load import PARTITIONS, PATIENCE_S, Load, check_survived, eventually, rounds, wait_for_full_isr

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

TOPIC, OFFSETS_TOPIC = "grouped", "__consumer_offsets"
NODES = (1, 2, 3)
MEMBERS = ("first", "second")
COORDINATOR_VERSION = 4


@contextmanager
def python_drivers(cluster: Cluster) -> Iterator[dict[str, Driver]]:
    drivers: dict[str, Driver] = {
        "librdkafka": ConfluentDriver(cluster.bootstrap),
        "kafka-python": KafkaPythonDriver(cluster.bootstrap),
    }
    with ExitStack() as closing:
        for driver in drivers.values():
            closing.callback(driver.close)
        yield drivers


@contextmanager
def java_drivers(cluster: Cluster) -> Iterator[dict[str, Driver]]:
    with ExitStack() as running:
        yield {"java": running.enter_context(contextmanager(java_driver)("4.3.1", cluster))}


@pytest.mark.parametrize("made", [python_drivers, pytest.param(java_drivers, marks=pytest.mark.java)])
def test_groups_keep_every_record_through_rolling_restarts(made: object, uncomplaining_nodes: None) -> None:
    """Each record reaches the group at least once, none is skipped, and what was committed stays committed."""
    with Cluster(nodes=3, in_process=False) as cluster, made(cluster) as drivers:  # type: ignore[operator]
        node = Asked(cluster, 1)
        assert node.create(TOPIC) == {TOPIC: 0}
        node.close()
        load = Load(cluster, TOPIC)
        groups = {name: Group(cluster, name, driver) for name, driver in drivers.items()}
        for restarted in range(len(NODES) * rounds(1)):
            load.wait_for_more()
            for group in groups.values():
                group.commit_further()
            cluster.restart(NODES[restarted % len(NODES)])
            check_coordinators(cluster, list(groups))
            for group in groups.values():
                group.check_commits_kept()
            wait_for_full_isr(cluster, OFFSETS_TOPIC)
            wait_for_full_isr(cluster, TOPIC)
        load.stop()
        for group in groups.values():
            group.check_received(load)
        check_survived(cluster, load)


class Group:
    """Two members of one client library, and what the group has committed."""

    def __init__(self, cluster: Cluster, name: str, driver: Driver) -> None:
        self._cluster, self._name, self._driver = cluster, name, driver
        self._committed = [0] * PARTITIONS
        for member in MEMBERS:
            driver.join(member, name, TOPIC)

    def commit_further(self) -> None:
        """Waits until the group gets records in all partitions; a commit that meets a rebalance fails, and may."""
        before = self._received_ends()
        eventually(
            lambda: all(now > then for now, then in zip(self._received_ends(), before, strict=True)),
            f"{self._name} gets more in every partition, beyond {before}",
        )
        for member in MEMBERS:
            with suppress(Exception):
                self._driver.commit(member)
        self.check_commits_kept()

    def check_commits_kept(self) -> None:
        """They never go back, whoever coordinates now."""
        now = committed(self._cluster, self._name)
        went_back = [after < before for before, after in zip(self._committed, now, strict=True)]
        assert not any(went_back), f"{self._name} had committed {self._committed}, now {now}"
        self._committed = now

    def check_received(self, load: Load) -> None:
        def missing() -> set[tuple[int, int]]:
            got = {(seen.partition, seen.offset) for member in MEMBERS for seen in self._driver.received(member)}
            return set(load.acknowledged) - got

        eventually(lambda: not missing(), f"{self._name} gets every record")
        assert any(self._committed), f"{self._name} never committed"
        for member in MEMBERS:
            self._driver.leave(member)

    def _received_ends(self) -> list[int]:
        ends = [0] * PARTITIONS
        for member in MEMBERS:
            for seen in self._driver.received(member):
                ends[seen.partition] = max(ends[seen.partition], seen.offset + 1)
        return ends


def committed(cluster: Cluster, group: str) -> list[int]:
    """By partition; 0 where nothing is."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "log_level": 0})
    found = consumer.committed([TopicPartition(TOPIC, index) for index in range(PARTITIONS)], timeout=PATIENCE_S)
    consumer.close()
    assert not [place.error for place in found if place.error]
    return [max(0, place.offset) for place in found]


def check_coordinators(cluster: Cluster, groups: list[str]) -> None:
    """Every node names the leader of the group's partition, which is the only one that may answer for it."""

    def look() -> bool:
        named, leaders = [], []
        for node_id in NODES:
            node = Asked(cluster, node_id)
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=groups)
            answer = node.ask(request, FindCoordinatorResponse, COORDINATOR_VERSION)
            placed = node.placed(OFFSETS_TOPIC)
            node.close()
            named.append([each.node_id for each in answer.coordinators])
            leaders.append([placed[partition_for(group, len(placed))].leader for group in groups])
        return named == leaders and all(each == named[0] for each in named) and min(named[0]) > 0

    eventually(look, "all nodes name the leader of each group's partition as its coordinator")
