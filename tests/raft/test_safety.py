"""Raft's promises under random schedules: one leader a term, one vote a term, equal logs, nothing committed is lost."""

from __future__ import annotations

import pytest

from tests.raft.cluster_of_cores import Cluster

pytestmark = pytest.mark.slow

SEEDS = range(60)


@pytest.mark.parametrize("nodes", [3, 5])
def test_nothing_is_promised_twice_and_nothing_committed_is_lost(nodes: int) -> None:
    """Lost, doubled, reordered messages and crashes at any moment; `Watch` checks after every step."""
    committed = leaders = reads = 0
    for seed in SEEDS:
        cluster = Cluster(seed, nodes=nodes)
        cluster.run(600 * nodes)
        committed += cluster.watch.commit_index
        leaders += len(cluster.watch.leaders)
        reads += cluster.watch.answered_reads
    assert committed > 8 * len(SEEDS), "the schedules must get something done, or they prove nothing"
    assert leaders > 2 * len(SEEDS)
    assert reads > len(SEEDS)


def test_members_may_change_under_fire() -> None:
    """Voters and learners come and go, by snapshots too, one at a time."""
    committed = 0
    sizes = set()
    for seed in SEEDS:
        cluster = Cluster(seed, nodes=3, changes_members=True)
        cluster.run(2000)
        committed += cluster.watch.commit_index
        sizes |= {len(server.core.members.voters) for server in cluster.servers.values()}
    assert committed > 10 * len(SEEDS)
    assert {2, 3, 4} <= sizes


@pytest.mark.parametrize("changes_members", [False, True])
@pytest.mark.parametrize("guards_promises", [False, True])
def test_a_healed_cluster_agrees(changes_members: bool, guards_promises: bool) -> None:
    """After the faults there is one leader, and every member has the same log and has applied it: all lost messages are
    replaced, and promises to former leaders prevent no election."""
    for seed in SEEDS:
        cluster = Cluster(seed, nodes=3, changes_members=changes_members, guards_promises=guards_promises)
        cluster.run(600)
        cluster.settle()
        cluster.check_agreement()
