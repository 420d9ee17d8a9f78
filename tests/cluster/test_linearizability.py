"""Metadata through all nodes at once, while controllers and others are killed and hang: one order explains it all."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from chronik.testing import Cluster
from tests.cluster.asking import Asked
from tests.cluster.load import eventually, rounds
from tests.cluster.topic_clients import TopicClients

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7200)]

NODES = (1, 2, 3)
QUICK_SESSION = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "300"}


def test_metadata_is_linearizable_while_nodes_die_and_hang(uncomplaining_nodes: None) -> None:
    """A controller that wakes up is the danger: it holds a lease, in its own time, and requests in its sockets."""
    random = Random(5)
    faults = list(product(("hang", "die"), ("controller", "other")))
    with Cluster(nodes=3, settings=QUICK_SESSION, in_process=False) as cluster:
        clients = TopicClients(cluster, seed=5)
        for number in range(rounds(3)):
            clients.wait_for_more()
            fault, who = faults[number % len(faults)]
            controller = controller_of(cluster, random.choice(NODES))
            node_id = controller if who == "controller" else random.choice([n for n in NODES if n != controller])
            (cluster.pause if fault == "hang" else cluster.kill)(node_id)
            clients.wait_for_more()
            (cluster.resume if fault == "hang" else cluster.start_again)(node_id)
            clients.wait_for_more()
            clients.next_round()
        clients.stop()
    clients.check()


def controller_of(cluster: Cluster, asked: int) -> int:
    def look() -> int | None:
        node = Asked(cluster, asked)
        try:
            return max(0, node.metadata().controller_id)
        finally:
            node.close()

    return eventually(look, "a controller")
