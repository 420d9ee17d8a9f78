"""A cluster that says it is ready has all its votes: its first leader may die in its first second."""

from __future__ import annotations

import pytest

from chronik.testing import Cluster
from tests.cluster.asking import Asked

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("attempt", range(2))
def test_the_first_leader_may_die_at_once(attempt: int) -> None:
    """A founder that came a moment later than the others abstains until it has caught up, and is not ready before."""
    with Cluster(nodes=3, in_process=False) as cluster:
        nodes = {node_id: Asked(cluster, node_id) for node_id in (1, 2, 3)}
        leader = nodes[1].metadata().controller_id
        cluster.kill(leader)
        survivor = nodes[next(node_id for node_id in nodes if node_id != leader)]
        assert survivor.create("still-here", replicas=1)["still-here"] == 0
        for node in nodes.values():
            node.close()
