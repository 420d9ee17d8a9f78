"""`chronik-bench` over all nodes of a cluster: the load that once met partitions without leaders."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from chronik.testing import Cluster
from tests.cluster.asking import Asked, Placed
from tests.cluster.load import wait_for_full_isr

pytestmark = pytest.mark.slow

TOPIC, PARTITIONS = "bench-test", 12
NODES = (1, 2, 3)
MESSAGES_PER_S_MIN = 100  # a cluster that looks for its leaders does 10; the rate itself is reported, machines differ
OPTIONS = ["--topic", TOPIC, "--message-size", "256", "--concurrency", "128", "--mode", "produce", "--format", "json"]
COMMAND = [sys.executable, "-c", "import chronik.bench.main; chronik.bench.main.main()", *OPTIONS]


def test_a_bench_over_mixed_nodes_is_quick_and_moves_no_leader(
    uncomplaining_nodes: None, record_property: Callable[[str, object], None]
) -> None:
    """All nodes show the same leaders, epochs and in-sync replicas before, meanwhile and after."""
    with Cluster(nodes=3, in_process=False) as cluster:
        nodes = [Asked(cluster, node_id) for node_id in NODES]
        assert nodes[1].create(TOPIC, partitions=PARTITIONS) == {TOPIC: 0}
        before = wait_for_full_isr(cluster, TOPIC)
        command = [*COMMAND, "--bootstrap-servers", cluster.bootstrap, "--duration", "3s"]
        bench = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        looks = 0
        while bench.poll() is None:
            assert shown(nodes) == [before] * len(NODES)
            looks += 1
        said = bench.communicate()[0]
        assert shown(nodes) == [before] * len(NODES)
        for node in nodes:
            node.close()
    assert bench.returncode == 0
    assert looks > 1, "the bench was over before anybody looked"
    measured = json.loads(said.splitlines()[-1])
    record_property("messages per second", measured["msg_per_s"])
    assert measured["errors"] == 0
    assert measured["msg_per_s"] > MESSAGES_PER_S_MIN


def shown(nodes: list[Asked]) -> list[list[Placed]]:
    return [node.placed(TOPIC) for node in nodes]
