"""The client of Node.js: KafkaJS."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.testing import Cluster
from tests.clients.built import DRIVERS, built, run, skip_module_without
from tests.clients.contract import ClientContract
from tests.clients.driver import Driver, ProcessDriver

skip_module_without("npm")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("node-clients")]

SOURCES = [DRIVERS / "node" / name for name in ("driver.js", "package.json", "package-lock.json")]


class TestKafkaJs(ClientContract):
    @pytest.fixture(scope="class")
    @classmethod
    def driver(cls, cluster: Cluster) -> Iterator[Driver]:
        driver = ProcessDriver(["node", str(built("node", SOURCES, "", install) / "driver.js")], cluster.bootstrap)
        yield driver
        driver.close()


def install(folder: Path) -> None:
    for source in SOURCES:
        shutil.copy(source, folder)
    run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder)
