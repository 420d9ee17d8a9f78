"""The Go clients: Sarama as of today and as it talks to a broker of 2016, and franz-go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.testing import Cluster
from tests.clients.built import DRIVERS, built, run, skip_module_without
from tests.clients.contract import ClientContract, ConsumerGroupContract
from tests.clients.driver import Driver, ProcessDriver

skip_module_without("go")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("go")]  # a second process would wait for the first to build

SOURCES = DRIVERS / "go"


class TestSarama(ClientContract):
    @pytest.fixture(scope="class")
    @classmethod
    def driver(cls, cluster: Cluster) -> Iterator[Driver]:
        yield from closing(ProcessDriver([program("sarama"), "max"], cluster.bootstrap))


class TestSaramaOf2016(ClientContract):
    """Talks to us as to a broker of version 0.10.0: Produce v2, Fetch v2, magic 1, no headers, the first group APIs."""

    @pytest.fixture(scope="class")
    @classmethod
    def driver(cls, cluster: Cluster) -> Iterator[Driver]:
        driver = ProcessDriver(
            [program("sarama"), "0.10.0.0"],
            cluster.bootstrap,
            codecs=("none", "gzip", "snappy", "lz4"),
            has_headers=False,
            is_idempotent=False,
        )
        yield from closing(driver)


class TestFranzGo(ClientContract):
    @pytest.fixture(scope="class")
    @classmethod
    def driver(cls, cluster: Cluster) -> Iterator[Driver]:
        yield from closing(ProcessDriver([program("franz")], cluster.bootstrap))


class TestFranzGoInConsumerGroups(ConsumerGroupContract):
    """ServerSideBalancer: the coordinator assigns."""

    @pytest.fixture(scope="class")
    @classmethod
    def driver(cls, cluster: Cluster) -> Iterator[Driver]:
        yield from closing(ProcessDriver([program("franz")], cluster.bootstrap, group_protocol="consumer"))


def program(name: str) -> str:

    def build(folder: Path) -> None:
        run(["go", "build", "-mod=readonly", "-o", f"{folder}/", "./..."], cwd=SOURCES)

    files = [path for path in SOURCES.rglob("*") if path.is_file()]
    return str(built("go", files, "", build) / name)


def closing(driver: ProcessDriver) -> Iterator[Driver]:
    yield driver
    driver.close()
