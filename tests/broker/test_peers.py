"""Complete nodes that send requests to each other, in the simulator: every API that a node serves, another node can
use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from chronik.broker.image_directory import ImageDirectory
from chronik.broker.node import Node
from chronik.metadata.commands.create_topics import CreateTopics, NewTopic
from chronik.metadata.image import NO_LEADER
from chronik.peer.addresses import Address
from chronik.peer.errors import NotSent
from chronik.sim import scenario
from chronik.sim.broker_scenarios import TopicsScenario
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.faults import Fault
from chronik.sim.history import History
from chronik.sim.programs import BROKER_PORT, host_of
from chronik.sim.scenario import START_MS_MAX, require
from chronik.sim.world import World
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from chronik.wire.peer_errors import Closed, PeerError, Refused

NODES = 3
LATEST = -1


def play(story: Callable[[SimCluster], None], seed: int = 1, topic: NewTopic | None = None) -> None:
    """Runs a test's steps on three nodes with a topic of three replicas, or with the given topic."""

    class Told(TopicsScenario):
        checkers = ()

        def play(self, world: World, cluster: SimCluster, history: History, faults: list[Fault]) -> None:
            cluster.start()
            require(world, cluster.has_settled, START_MS_MAX, "the cluster starts")
            run(cluster, cluster.numbered(1), partial(create, topic))
            world.run_for(500)
            story(cluster)

    outcome = scenario.run(Told, seed, [])
    if outcome.failure is not None:
        raise outcome.failure


async def create(topic: NewTopic | None, node: Node) -> None:
    of_all = NewTopic(name="orders", partition_count=1, replication_factor=NODES)
    await node.store.submit(CreateTopics(topics=[topic or of_all]))


def node_of(machine: SimMachine) -> Node:
    node = machine.program.node  # type: ignore[union-attr]
    assert isinstance(node, Node)
    return node


def run(
    cluster: SimCluster,
    machine: SimMachine,
    work: Callable[[Node], Coroutine[Any, Any, Any]],
    *,
    within_ms: int = 60_000,
) -> Any:
    """Runs `work` in the process of a node."""
    assert machine.loop is not None
    task = machine.loop.create_task(work(node_of(machine)))
    assert cluster.world.run_until(task.done, within_ms=within_ms)
    return task.result()


def latest_offset_of(topic: str) -> ListOffsetsRequest:
    asked = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])


async def asks(node: Node, node_id: int | None = None) -> int:
    """Asks a node, or the leader of orders-0 wherever that is, for the end of orders-0; returns the error code."""
    request = latest_offset_of("orders")
    if node_id is None:
        response = await node.peers.ask_leader("orders", 0, request, ListOffsetsResponse, timeout_ms=5_000)
    else:
        response = await node.peers.ask(node_id, request, ListOffsetsResponse, timeout_ms=5_000)
    return response.topics[0].partitions[0].error_code


async def asks_until_answered(node: Node) -> int | None:
    """Returns the leader that answered."""
    for _ in range(100):
        try:
            if await asks(node) == ErrorCode.NONE:
                return node.peers.directory.leader_of("orders", 0)
        except PeerError as fault:
            if not fault.retriable:
                raise
        await asyncio.sleep(0.1)
    raise AssertionError("no leader answered")


def test_every_node_can_ask_the_leader_of_a_partition() -> None:
    """Found by the image, over the listener for nodes; the leader itself included."""

    def story(cluster: SimCluster) -> None:
        assert [run(cluster, machine, asks) for machine in cluster.machines.values()] == [ErrorCode.NONE] * NODES

    play(story)


@pytest.mark.parametrize("seed", range(3))
def test_a_leader_that_dies_is_replaced_for_whoever_asks_again(seed: int) -> None:
    """The caller only repeats retriable errors; addresses, connections and the new leader are found automatically."""

    def story(cluster: SimCluster) -> None:
        leader_id = node_of(cluster.numbered(1)).peers.directory.leader_of("orders", 0)
        assert leader_id is not None
        leader = cluster.numbered(leader_id)
        asker = next(machine for machine in cluster.machines.values() if machine is not leader)
        assert run(cluster, asker, asks) == ErrorCode.NONE
        leader.crash()
        assert run(cluster, asker, asks_until_answered) != leader_id
        leader.start()
        require(cluster.world, lambda: leader.is_ready, START_MS_MAX, "the node starts again")
        assert run(cluster, leader, asks) == ErrorCode.NONE
        # It is a new process with new connections, and the others reach it again.
        assert run(cluster, asker, lambda node: asks(node, leader_id)) in (
            ErrorCode.NONE,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
        )

    play(story, seed)


def test_an_unknown_broker_and_an_unknown_partition_are_told_apart() -> None:
    """The first may register any moment, so it is waited for; the second has no leader to wait for."""

    async def work(node: Node) -> None:
        with pytest.raises(NotSent, match=r"broker 99 .*its address is not known"):
            await asks(node, 99)
        with pytest.raises(Refused, match="partition nothing-0: LEADER_NOT_AVAILABLE"):
            await node.peers.ask_leader("nothing", 0, latest_offset_of("nothing"), ListOffsetsResponse)

    play(lambda cluster: run(cluster, cluster.numbered(1), work))


def test_a_node_that_stops_leaves_nobody_waiting() -> None:
    """Requests to other nodes must end before the data directory is unlocked."""
    ended: list[Any] = []

    async def work(node: Node) -> None:
        waiting = asyncio.ensure_future(asks(node, 99))
        await asyncio.sleep(0.5)
        await node.stop()
        ended.extend(await asyncio.gather(waiting, return_exceptions=True))

    play(lambda cluster: run(cluster, cluster.numbered(2), work))
    assert [type(each) for each in ended] == [Closed]


def test_a_partition_that_nobody_leads_has_no_leader_to_ask() -> None:
    """The image says -1, which is no node."""
    partition = SimpleNamespace(leader=NO_LEADER)
    topic = SimpleNamespace(partition=lambda index: partition)
    image: Any = SimpleNamespace(topic_named=lambda name: topic)
    assert ImageDirectory(lambda: image, lambda: "PLAINTEXT").leader_of("orders", 0) is None


def test_the_directory_reads_the_image_of_the_moment() -> None:
    """Addresses are those of the listener for nodes; a broker without it has none."""

    def story(cluster: SimCluster) -> None:
        node = node_of(cluster.numbered(1))
        directory = node.peers.directory
        found = [directory.address_of(each) for each in (1, 2, 99)]
        assert found == [Address(host_of(1), BROKER_PORT), Address(host_of(2), BROKER_PORT), None]
        assert directory.leader_of("orders", 0) in (1, 2, 3)
        assert [directory.leader_of(topic, index) for topic, index in (("orders", 1), ("nothing", 0))] == [None, None]
        assert ImageDirectory(lambda: node.store.image, lambda: "OTHER").address_of(1) is None

    play(story)
