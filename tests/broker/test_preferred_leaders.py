"""Leaderships that a node lost while it was away come back to it (auto.leader.rebalance.enable)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from chronik.client.routing import ClusterClient
from chronik.client.topology import Topology
from chronik.runtime.real import real_runtime
from chronik.testing import Cluster

PARTITIONS = 6


async def until(cluster: Cluster, holds: Callable[[Topology], bool]) -> Topology:
    async with asyncio.timeout(30), ClusterClient(real_runtime(), cluster.bootstrap) as client:
        while not holds(topology := await client.retrying(lambda: client.refresh(None))):
            await asyncio.sleep(0.05)
        return topology


def leaders(topology: Topology) -> list[int]:
    topic = topology.topics.get("orders")
    return [] if topic is None else [each.leader_id for each in topic.partitions.values()]


def preferred(topology: Topology) -> list[int]:
    return [each.replicas[0] for each in topology.topics["orders"].partitions.values()]


async def create(cluster: Cluster) -> None:
    from chronik.client.admin import topics

    async with ClusterClient(real_runtime(), cluster.bootstrap) as client:
        await topics.create(client, [topics.NewTopic("orders", PARTITIONS, 3)])


def test_a_restarted_node_gets_its_leaderships_back() -> None:
    """Otherwise one node after the other would end up leading nothing, and the last one everything."""
    with Cluster(nodes=3, settings={"leader.imbalance.check.interval.seconds": "1"}) as cluster:
        asyncio.run(create(cluster))
        before = asyncio.run(until(cluster, lambda topology: len(leaders(topology)) == PARTITIONS))
        assert leaders(before) == preferred(before)
        assert 2 in leaders(before)
        cluster.stop(2)
        asyncio.run(until(cluster, lambda topology: 2 not in leaders(topology)))
        cluster.start_again(2)
        asyncio.run(until(cluster, lambda topology: leaders(topology) == preferred(topology)))
