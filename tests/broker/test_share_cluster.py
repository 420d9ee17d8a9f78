"""Share groups on three nodes, in the simulator: members go on when leaders die, and nothing is lost or given twice.

What a leader remembers of deliveries dies with it, as in Kafka: the next leader delivers again what was not
acknowledged. So a record is delivered once by each leader, and never again once its acknowledgement was confirmed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from chronik.broker.node import Node
from chronik.client.admin import configs
from chronik.client.errors import ClientError
from chronik.client.producer import Producer
from chronik.client.routing import ClusterClient
from chronik.client.share_consumer import ShareConsumer
from chronik.client.share_session import ShareFetchOptions
from chronik.peer.addresses import Address
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.programs import BROKER_PORT
from chronik.sim.scenario import START_MS_MAX, require
from tests.broker.test_peers import NODES, node_of, play, run

GROUP = "workers"
RECORDS = 120
MEMBERS = 3


@dataclass
class History:
    """What members say, by record; deliveries with the epoch of the leader that made them, as far as known."""

    delivered: Counter[bytes] = field(default_factory=Counter)
    confirmed: Counter[bytes] = field(default_factory=Counter)
    confirmed_before: list[bytes] = field(default_factory=list)  # delivered after its acknowledgement was confirmed


async def work_on(node: Node, cluster: SimCluster, history: History, count: int) -> None:
    """Members on the machine of this node, until every record is confirmed, or was delivered and is not held."""
    bootstrap = [Address(machine.host, BROKER_PORT) for machine in cluster.machines.values()]
    async with ClusterClient(node.runtime, bootstrap) as client:
        resource = configs.ConfigResource(configs.ResourceKind.GROUP, GROUP)
        await client.retrying(lambda: configs.alter(client, resource, set_to={"share.auto.offset.reset": "earliest"}))
        tasks = [asyncio.create_task(member(client, history)) for _ in range(MEMBERS)]
        async with Producer(client) as producer:
            for number in range(count):
                await producer.send("orders", b"%d" % number)
                if number % 10 == 0:
                    await producer.flush()
                    await asyncio.sleep(0.5)
        while len(history.delivered) < count:
            await asyncio.sleep(0.1)
        await asyncio.sleep(5)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled() and (fault := task.exception()) is not None:
                raise fault


async def member(client: ClusterClient, history: History) -> None:
    options = ShareFetchOptions(max_records=4)
    async with ShareConsumer(client, group_id=GROUP, options=options) as consumer:
        consumer.subscribe(["orders"])
        while True:
            values = []
            for each in await consumer.poll():
                value = each.record.value or b""
                if history.confirmed[value]:
                    history.confirmed_before.append(value)
                history.delivered[value] += 1
                values.append(value)
            with suppress(ClientError):
                await consumer.commit()
                history.confirmed.update(values)


def leader_of(cluster: SimCluster, machine: SimMachine) -> int:
    found = node_of(machine).peers.directory.leader_of("orders", 0)
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(3))
def test_no_record_is_lost_when_the_leader_of_a_share_partition_dies(seed: int) -> None:
    def story(cluster: SimCluster) -> None:
        leader = cluster.numbered(leader_of(cluster, cluster.numbered(1)))
        host = next(machine for machine in cluster.machines.values() if machine is not leader)
        history = History()
        assert host.loop is not None
        task = host.loop.create_task(work_on(node_of(host), cluster, history, RECORDS))
        require(cluster.world, lambda: len(history.delivered) > RECORDS // 4, 60_000, "members work")
        epoch = epoch_of(host)
        leader.crash()
        cluster.world.run_for(1_000)
        leader.start()
        require(cluster.world, lambda: leader.is_ready, START_MS_MAX, "the node starts again")
        require(cluster.world, task.done, 240_000, "every record is delivered")
        task.result()
        leaders = 1 + epoch_of(host) - epoch
        assert leaders > 1, "another node has led"
        assert len(history.delivered) == RECORDS
        assert max(history.delivered.values()) <= leaders, "delivered twice by one leader"
        assert not history.confirmed_before
        assert max(history.confirmed.values()) == 1

    play(story, seed)


def test_without_a_fault_each_record_is_delivered_and_confirmed_once() -> None:
    def story(cluster: SimCluster) -> None:
        history = History()
        host = cluster.numbered(1)
        run(cluster, host, lambda node: work_on(node, cluster, history, RECORDS), within_ms=240_000)
        assert history.delivered == history.confirmed == Counter(b"%d" % number for number in range(RECORDS))

    play(story)


def epoch_of(machine: SimMachine) -> int:
    topic = node_of(machine).store.image.topic_named("orders")
    assert topic is not None
    assert len(topic.partitions[0].replicas) == NODES
    return topic.partitions[0].leader_epoch
