"""A node as a process: it can be stopped at any time, also while it waits for others."""

from __future__ import annotations

import pytest

from chronik.testing.local_cluster import local_cluster
from chronik.testing.processes import NodeProcess, free_ports

pytestmark = pytest.mark.slow


def test_a_node_that_waits_for_its_quorum_stops_when_told(tmp_path: pytest.TempPathFactory) -> None:
    """Alone of three it can never be ready; whoever started it must not have to kill it."""
    first, *_ = local_cluster(tmp_path, free_ports(3), free_ports(3))  # type: ignore[arg-type]
    node = NodeProcess.start(first)
    node.stop()
    assert node.wait_ready() is None
    node.wait()
    assert node.exit_code() in (0, -15), "0 once it listens to signals; before that the system's own way"
