"""Another process took a node's place, on an old copy of its disk or under the same node id by mistake."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from chronik.broker.process import EXIT_FAILED
from tests.house.repository import SOURCE

# A node in a separate process. Once it serves, another process registers under its id, as the controller sees it.
ORIGINAL = """
import asyncio, sys
from chronik.broker.process import log_to_stderr, run
from chronik.broker.settings import Settings
from chronik.broker.features import supported_features
from chronik.metadata.commands.register_broker import EndpointAt, RegisterBroker

tasks = []

def started(node):
    before = node.store.image.brokers[1]
    endpoints = [EndpointAt(name="PLAINTEXT", host="10.0.0.7", port=9092)]
    tasks.append(asyncio.ensure_future(node.store.submit(RegisterBroker(
        broker_id=1, cluster_id=node.store.image.cluster_id, incarnation_id=bytes(15) + b"7",
        directory_ids=before.directory_ids, endpoints=endpoints, features=supported_features(),
    ))))

log_to_stderr()
keys = {"log.dirs": sys.argv[1], "listeners": "PLAINTEXT://127.0.0.1:0", "broker.heartbeat.interval.ms": "100"}
keys |= {"node.id": "1", "chronik.admin.listener": "none"}
sys.exit(run(Settings.load(None, environment={}, overrides=keys), started))
"""


def test_a_replaced_process_ends_with_one_line(tmp_path: Path) -> None:
    """Both would write as node 1. The operator must learn that there are two, where, and which one to keep."""
    done = subprocess.run(
        [sys.executable, "-c", ORIGINAL, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == EXIT_FAILED
    [line] = done.stderr.splitlines()
    assert line.partition("chronik.broker: ")[2] == (
        f"stopping: another process registered as node 1 at 10.0.0.7:9092, so the one on {tmp_path} ends: stop the "
        "process whose data is an old copy, and start the other one again; if they are two nodes, give each a node.id "
        "of its own"
    )
