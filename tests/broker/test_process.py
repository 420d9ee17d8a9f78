"""A node as a process: it can be stopped at any time, also while it waits for others."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

import pytest

from chronik.testing.local_cluster import HOST, local_cluster
from chronik.testing.ports import free_ports
from chronik.testing.processes import NodeProcess

pytestmark = pytest.mark.slow


def test_a_node_that_waits_for_its_quorum_stops_when_told(tmp_path: Path) -> None:
    """Alone of three it can never be ready; whoever started it must not have to kill it."""
    quorum_ports = free_ports(3)
    alone, *_ = local_cluster(tmp_path, free_ports(3), quorum_ports)
    node = NodeProcess.start(alone)
    while not _listens(quorum_ports[0]):
        assert node.exit_code() is None
    node.stop()
    assert node.wait_ready() is None
    node.wait()
    assert node.exit_code() == 0


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
        return True
    return False
