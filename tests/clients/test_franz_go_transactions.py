"""franz-go's transactions: its own tests of chains of consumers and producers, and a copier while nodes are killed.

franz-go's tests take every notice of a lost broker for a failure, so no node is killed while they run.
`CHRONIK_KILLS=20` lets the test of the copier kill more often and copy more.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from chronik.testing import Cluster
from tests.clients.built import DRIVERS, built, run, skip_module_without
from tests.clients.copying import PARTITIONS, Copying
from tests.clients.drivers.programs import Program, close_all
from tests.clients.test_go_clients import program
from tests.cluster.load import eventually, rounds

skip_module_without("go")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600), pytest.mark.xdist_group("go")]

SOURCES = DRIVERS / "go"
PACKAGE = "github.com/twmb/franz-go/pkg/kgo"  # in the version of go.mod
CHAINS = (
    "cooperative-sticky",
    "cooperative-sticky/static",
    "range",
    "range/848",
    "sticky/848",
    "sticky/848/static",
)
CHAIN_RECORDS = 1_000
RECORDS_PER_KILL = 3_000
TRANSACTION_RECORDS = 100


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    with Cluster(nodes=3, in_process=False) as cluster:
        yield cluster


@pytest.mark.long
@pytest.mark.parametrize("name", ["TestTxnEtl", "TestGroupETL"])
def test_franz_gos_own_chains_of_groups(nodes: Cluster, tmp_path: Path, name: str) -> None:
    """Numbers are copied from topic to topic while members come and go; each is read once, in order, and the markers
    of transactions are in their places. `KGO_TEST_RECORDS=50000` copies more.
    """
    environment = {
        **os.environ,
        "KGO_SEEDS": nodes.bootstrap,
        "KGO_TEST_RF": "3",
        "KGO_TEST_RECORDS": os.environ.get("KGO_TEST_RECORDS", str(CHAIN_RECORDS)),
        "KGO_LOG_LEVEL": "none",
    }
    command = [compiled_tests(), "-test.run", f"^{name}$", "-test.v"]
    ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=tmp_path)
    said = ran.stdout.decode(errors="replace")
    assert ran.returncode == 0, said[-8000:]
    assert sorted(re.findall(rf"--- PASS: {name}/(\S+)", said)) == sorted(CHAINS)


def test_each_number_is_copied_once_while_brokers_and_copiers_are_killed(nodes: Cluster) -> None:
    """Copiers share a group. A killed one is replaced by one with a new transactional id, so its transaction ends only
    by its time-out, unless the test ends it.
    """
    kills = rounds(3)
    copying = Copying(nodes, kills * RECORDS_PER_KILL)
    copying.fill()
    copiers = [start_copier(copying, index) for index in range(PARTITIONS)]
    try:
        for number in range(kills):
            copying.wait_for_output(TRANSACTION_RECORDS)
            node_id = number % 3 + 1
            nodes.kill(node_id)
            if number % 2:
                copiers[0].close()
                copying.abort(number // 2)
                copiers[:] = [*copiers[1:], start_copier(copying, PARTITIONS + number // 2)]
            nodes.start_again(node_id)

        def is_complete() -> bool:
            for place, copier in enumerate(copiers):
                if copier.exit_code() is not None:
                    copiers[place] = replaced(copying, copier, PARTITIONS + kills + place)
            return copying.is_complete()

        eventually(is_complete, f"the offsets of the end of {copying.source}")
    finally:
        close_all(copiers)
    copying.check()


def replaced(copying: Copying, copier: Program, index: int) -> Program:
    """franz-go gives up a transaction whose coordinator it cannot reach at a few attempts, which depends on how long a
    broker takes to start. Nothing else may end a copier."""
    assert "end unable to dial: " in copier.printed(), copier.printed()[-4000:]
    copier.close()
    return start_copier(copying, index)


def start_copier(copying: Copying, index: int) -> Program:
    words = (copying.cluster.bootstrap, copying.source, copying.target, copying.group, copying.transactional_id(index))
    return Program([program("copier"), *words])


def compiled_tests() -> str:
    """From the module that our franz-go driver uses, so go.sum holds its hash."""

    def build(folder: Path) -> None:
        run(["go", "test", "-c", "-mod=readonly", "-o", folder / "kgo.test", PACKAGE], cwd=SOURCES)

    return str(built("franz-go-tests", [SOURCES / "go.mod", SOURCES / "go.sum"], PACKAGE, build) / "kgo.test")
