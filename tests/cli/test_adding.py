"""`chronik cluster add`: its output while a node catches up, and when the operator stops waiting."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from chronik.cli.adding import standing
from chronik.client.admin.quorum import Quorum, QuorumNode
from chronik.testing import Cluster
from tests.cli.interrupts import heed_interrupts
from tests.house.repository import SOURCE


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ((), "node 4 has not answered yet"),
        ((QuorumNode(4, False, 0, -1, -1),), "node 4 has not answered yet"),
        ((QuorumNode(4, False, 90, 5, -1),), "node 4 is 10 entries behind"),
        ((QuorumNode(4, False, 99, 5, -1),), "node 4 is 1 entry behind"),
    ],
)
def test_how_far_a_node_is(members: tuple[QuorumNode, ...], expected: str) -> None:
    """A node that never answers and one that is slow need different help."""
    assert standing(Quorum(1, 2, 100, members, {}), 4) == expected


@pytest.mark.slow
def test_off_a_terminal_progress_is_told_and_ctrl_c_says_what_remains() -> None:
    """A script's log shows progress, and an operator learns what remains to be done."""
    with Cluster() as cluster:
        command = [sys.executable, "-m", "chronik.cli", "cluster", "add", "9@127.0.0.1:1", "--timeout", "60"]
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "CHRONIK_BOOTSTRAP": cluster.bootstrap}
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heed_interrupts
        ) as process:
            assert process.stderr is not None
            assert process.stderr.readline() == b"waiting up to 60 s for node 9 to catch up\n"
            assert process.stderr.readline().startswith(b"node 9 has not answered yet, ")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate()
        assert (process.returncode, out) == (130, b"")
        assert b"`chronik cluster remove 9` removes it" in err
