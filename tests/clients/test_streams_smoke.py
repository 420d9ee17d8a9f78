"""Kafka Streams' own smoke test with exactly_once_v2 against three nodes of ours; its driver judges the results.

The application counts, sums, joins and suppresses what the driver writes. With exactly_once_v2 all sums must equal
what was written, and each record is echoed once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from chronik.testing import Cluster
from tests.clients.built import DRIVERS, built, run
from tests.clients.drivers.kafka_tools import KafkaTools
from tests.clients.drivers.maven import maven_jar
from tests.clients.drivers.programs import Program, close_all, java
from tests.cluster.load import eventually, rounds
from tests.oracle.jars import kafka_jars

pytestmark = pytest.mark.java

SOURCE = DRIVERS / "java" / "Smoke.java"
RELEASE = "4.3.1"
JARS = {
    "org.apache.kafka:kafka-streams:4.3.1": "bd73f3805e116f711e8456ee89a8a5b43ff5dcf5a5bb865afae29deae89e7c4b",
    "org.apache.kafka:kafka-streams:4.3.1:jar:test": "e36cefd1f630bfe8f9cc46a9d043e46e7a8eee61c5266294153cc59523bc0943",
    "org.apache.kafka:kafka-clients:4.3.1:jar:test": "c51ed05ff7c7fd618f920b147e0bb44af2de5384101c531ccbef5098199f0d44",
    "org.rocksdb:rocksdbjni:10.1.3": "e7f925287d9fe2574fb7c7a86f7facaa9b8ab602a2eed0e598bf633528121498",
}
TEST = "org.apache.kafka.streams.tests.StreamsSmokeTest"
TOPICS = (
    *("data", "fk", "echo", "max", "min", "min-suppressed", "min-raw", "dif", "sum", "sws-raw", "sws-suppressed"),
    *("cnt", "avg", "tagg"),
)
PARTITIONS = 2
PATIENCE_S = 280
STARTED = "SMOKE-TEST-CLIENT-STARTED"


class Smoke:
    """The application's processes and its driver."""

    def __init__(self, cluster: Cluster, folder: Path, group_protocol: str = "classic") -> None:
        self.cluster, self._folder, self._numbers = cluster, folder, count()
        jars = ":".join(str(maven_jar(artifact, sha256)) for artifact, sha256 in JARS.items())
        self._class_path = f"{jars}:{kafka_jars(RELEASE)}/*"
        self.properties = folder / "streams.properties"
        settings = {
            "bootstrap.servers": cluster.bootstrap,
            "processing.guarantee": "exactly_once_v2",
            "replication.factor": "3",
        }
        if group_protocol == "classic":  # else the coordinator decides
            settings |= {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}
        else:
            settings["group.protocol"] = group_protocol
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for creation in admin.create_topics([NewTopic(topic, PARTITIONS, 3) for topic in TOPICS]).values():
            creation.result(PATIENCE_S)

    def start_application(self) -> Program:
        state = self._folder / f"state-{next(self._numbers)}"
        state.mkdir()
        return java(self._class_path, TEST, str(self.properties), "process", options=(f"-Djava.io.tmpdir={state}",))

    def start_driver(self) -> Program:
        """As it is: 20,000 records in 90 seconds."""
        return java(self._class_path, TEST, str(self.properties), "run")

    def start_short_driver(self, keys: int, records: int, seconds: int) -> Program:
        class_path = self._class_path

        def compile_driver(folder: Path) -> None:
            run(["javac", "-Xlint:all,-classfile", "-Werror", "-d", folder, "-cp", class_path, SOURCE], cwd=folder)

        classes = built("streams-smoke", [SOURCE], class_path, compile_driver)
        arguments = (self.cluster.bootstrap, str(keys), str(records), str(seconds))
        return java(f"{classes}:{class_path}", "Smoke", *arguments)


@pytest.fixture
def smoke(tmp_path: Path) -> Iterator[Smoke]:
    with Cluster(nodes=3, in_process=False) as cluster:
        yield Smoke(cluster, tmp_path)


def check(said: str) -> None:
    """The driver tells of records that were processed twice, and calls it a success."""
    lines = said.splitlines()
    assert "SUCCESS" in lines, said[-8000:]
    assert "ALL-RECORDS-DELIVERED" in lines, said[-8000:]
    assert "PROCESSED-MORE-THAN-GENERATED" not in lines, said[-8000:]


def wait_until_started(application: Program) -> None:
    eventually(lambda: STARTED in application.printed() or application.exit_code() is not None, STARTED)
    assert STARTED in application.printed(), application.printed()[-4000:]


def test_a_streams_application_computes_exactly_once_while_a_broker_is_killed(smoke: Smoke) -> None:
    with smoke.start_application() as application:
        wait_until_started(application)
        with smoke.start_short_driver(keys=5, records=100, seconds=2) as driver:
            eventually(lambda: "100 records produced" in driver.printed(), "100 records")
            smoke.cluster.kill(1)
            smoke.cluster.start_again(1)
            check(driver.finish(PATIENCE_S))


def test_an_application_in_a_streams_group_computes_exactly_once_while_a_broker_is_killed(tmp_path: Path) -> None:
    """group.protocol=streams: the coordinator makes internal topics and assigns tasks."""
    settings = {
        "group.streams.session.timeout.ms": "6000",
        "group.streams.min.session.timeout.ms": "6000",
        "group.streams.heartbeat.interval.ms": "1000",
        "group.streams.min.heartbeat.interval.ms": "1000",
        "group.streams.initial.rebalance.delay.ms": "0",
    }
    with Cluster(nodes=3, in_process=False, settings=settings) as cluster:
        smoke = Smoke(cluster, tmp_path, "streams")
        with smoke.start_application() as application:
            wait_until_started(application)
            is_shown_by_kafkas_command(cluster)
            with smoke.start_short_driver(keys=5, records=100, seconds=2) as driver:
                eventually(lambda: "100 records produced" in driver.printed(), "100 records")
                smoke.cluster.kill(1)
                smoke.cluster.start_again(1)
                check(driver.finish(PATIENCE_S))


def is_shown_by_kafkas_command(cluster: Cluster) -> None:
    """kafka-streams-groups.sh prints state, members and tasks."""
    tools = KafkaTools(RELEASE)
    where = ("--bootstrap-server", cluster.bootstrap)
    assert "SmokeTest" in tools.run("StreamsGroupCommand", *where, "--list")
    about = ("--describe", "--group", "SmokeTest")
    eventually(lambda: "Stable" in tools.run("StreamsGroupCommand", *where, *about, "--state"), "a stable group")
    assert "ACTIVE" in tools.run("StreamsGroupCommand", *where, *about, "--members")
    assert "SmokeTest" in tools.run("StreamsGroupCommand", *where, *about)
    tools.close()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_streams_application_computes_exactly_once_while_brokers_and_processes_are_killed(smoke: Smoke) -> None:
    kills = rounds(6)
    processes = [smoke.start_application() for _ in range(2)]
    try:
        for each in processes:
            wait_until_started(each)
        with smoke.start_driver() as driver:
            for number in range(kills):
                more = f" {(number + 1) * 15_000 // kills // 100 * 100} records produced"
                eventually(lambda more=more: more in driver.printed(), more)
                if number % 2:
                    index = number // 2 % len(processes)
                    processes[index].close()
                    processes[index] = smoke.start_application()
                else:
                    node_id = number // 2 % 3 + 1
                    smoke.cluster.kill(node_id)
                    smoke.cluster.start_again(node_id)
            check(driver.finish(4 * PATIENCE_S))
    finally:
        close_all(processes)
