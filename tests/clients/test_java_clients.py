"""The Java client that Kafka ships: today's, and the last of the 3.x line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.testing import Cluster
from tests.clients.built import DRIVERS, built, run
from tests.clients.contract import ClientContract, ConsumerGroupContract
from tests.clients.driver import Driver, ProcessDriver
from tests.oracle.jars import kafka_jars
from tests.oracle.message_oracle import JVM_OPTIONS

pytestmark = pytest.mark.java

SOURCE = DRIVERS / "java" / "Driver.java"


class TestJava43(ClientContract):
    @pytest.fixture(scope="class")
    @classmethod
    def driver(cls, cluster: Cluster) -> Iterator[Driver]:
        yield from java_driver("4.3.1", cluster)


class TestJava43InConsumerGroups(ConsumerGroupContract):
    """group.protocol=consumer: the coordinator assigns."""

    @pytest.fixture(scope="class")
    @classmethod
    def driver(cls, cluster: Cluster) -> Iterator[Driver]:
        yield from java_driver("4.3.1", cluster, group_protocol="consumer")


class TestJava39(ClientContract):
    @pytest.fixture(scope="class")
    @classmethod
    def driver(cls, cluster: Cluster) -> Iterator[Driver]:
        yield from java_driver("3.9.1", cluster)


def java_driver(release: str, cluster: Cluster, group_protocol: str = "classic") -> Iterator[Driver]:
    jars = f"{kafka_jars(release)}/*"

    def build(folder: Path) -> None:
        run(["javac", "-Xlint:all,-classfile", "-Werror", "-d", folder, "-cp", jars, SOURCE], cwd=folder)

    classes = built(f"java-{release}", [SOURCE], release, build)
    command = ["java", *JVM_OPTIONS, "-cp", f"{classes}:{jars}", "Driver"]
    driver = ProcessDriver(command, cluster.bootstrap, group_protocol=group_protocol)
    yield driver
    driver.close()
