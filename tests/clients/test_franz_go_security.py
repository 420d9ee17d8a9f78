"""franz-go's own tests with a client certificate, and of logins with SCRAM.

docs/reference/suites.md tells how its other tests ran on such a node.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from chronik.testing.ports import free_ports
from tests.clients.built import skip_module_without
from tests.clients.drivers.programs import Program
from tests.clients.test_franz_go_transactions import CHAINS, compiled_tests
from tests.cluster.load import eventually
from tests.oracle.suite_server import LISTENERS, USERS, commands_of, write

skip_module_without("go")
# Long: franz-go's tests take most of a minute to compile.
pytestmark = [pytest.mark.long, pytest.mark.java, pytest.mark.timeout(1200), pytest.mark.xdist_group("go")]

USER = "suite"
RECORDS = 500


class Node:
    """Has a listener of each protocol; the directory has what clients need."""

    def __init__(self, directory: Path, port: int) -> None:
        self.directory, self._port = directory, port

    def address(self, listener: str) -> str:
        return f"localhost:{self._port + LISTENERS.index(listener)}"

    def listens(self) -> bool:
        with closing(socket.create_connection(("localhost", self._port), 1)):
            return True

    def ran(self, tests: str, settings: dict[str, str]) -> list[str]:
        """The names of those that passed. None may fail or be skipped."""
        environment = {**os.environ, "KGO_TEST_RF": "1", "KGO_LOG_LEVEL": "none", **settings}
        command = [compiled_tests(), "-test.run", f"^({tests})$", "-test.v"]
        ran = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.directory
        )
        said = ran.stdout.decode(errors="replace")
        assert ran.returncode == 0, said[-8000:]
        assert "--- SKIP" not in said, said[-8000:]
        return sorted(re.findall(r"--- PASS: (\S+)", said))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    directory, port = tmp_path_factory.mktemp("secured") / "node", first_of_free_row(len(LISTENERS) + 1)
    formats, starts = commands_of("chronik", write(directory, port, {}))
    subprocess.run(formats, check=True, stdout=subprocess.DEVNULL)
    made = Node(directory, port)
    with Program(starts) as program:
        eventually(lambda: program.check_running() or made.listens(), "the node listens")
        yield made


def first_of_free_row(count: int) -> int:
    """Adjacent ports: the node's listeners stand side by side."""
    while True:
        ports = free_ports(count)
        if ports == list(range(ports[0], ports[0] + count)):
            return ports[0]


@pytest.mark.parametrize("bits", ["256", "512"])
def test_franz_gos_own_logins(node: Node, bits: str) -> None:
    settings = {
        "KGO_SEEDS": node.address("PLAINTEXT"),
        "KGO_TEST_SCRAM": f"{USER}:{USERS[USER]}:{bits}",
        "KGO_TEST_SCRAM_SEEDS": node.address("SASL_PLAINTEXT"),
    }
    expected = ["TestSCRAMAuth", "TestSCRAMAuthBadCredentials"]
    assert node.ran("|".join(expected), settings) == expected


@pytest.mark.parametrize("name", ["TestTxnEtl", "TestGroupETL"])
def test_franz_gos_own_chains_with_a_client_certificate(node: Node, name: str) -> None:
    files = {"ca": "ca.pem", "cert": "client.pem", "key": "client.key"}
    settings = {
        "KGO_SEEDS": node.address("SSL"),
        "KGO_TEST_TLS": ",".join(f"{kind}:{node.directory / file}" for kind, file in files.items()),
        "KGO_TEST_RECORDS": str(RECORDS),
    }
    assert node.ran(name, settings) == sorted([name, *(f"{name}/{chain}" for chain in CHAINS)])
