"""Whole nodes in the simulator: one is added to the quorum, and the addition is taken back while it starts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from chronik.broker.lifecycle import UNREGISTERED
from chronik.broker.node import Node
from chronik.metadata.commands.add_voter import AddVoter
from chronik.metadata.commands.create_topics import CreateTopics, NewTopic
from chronik.raft.addresses import Address
from chronik.raft.changes import Action, Change
from chronik.sim import scenario
from chronik.sim.broker_scenarios import MembersScenario
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.faults import Fault
from chronik.sim.history import History
from chronik.sim.programs import CONTROLLER_PORT
from chronik.sim.scenario import START_MS_MAX, require
from chronik.sim.world import World

NEW = 4


def play(story: Callable[[World, SimCluster], None]) -> None:
    class Told(MembersScenario):
        checkers = ()

        def play(self, world: World, cluster: SimCluster, history: History, faults: list[Fault]) -> None:
            cluster.start()
            require(world, cluster.has_settled, START_MS_MAX, "the cluster starts")
            story(world, cluster)

    outcome = scenario.run(Told, 1, [])
    if outcome.failure is not None:
        raise outcome.failure


def node_of(machine: SimMachine) -> Node | None:
    return None if machine.program is None else machine.program.node  # type: ignore[attr-defined, no-any-return]


def on_leader(world: World, cluster: SimCluster, work: Callable[[Node], Coroutine[Any, Any, Any]]) -> asyncio.Task[Any]:
    leader = cluster.leader()
    assert leader is not None
    assert leader.loop is not None
    node = node_of(leader)
    assert node is not None
    return leader.loop.create_task(work(node))


def knows_the_cluster(node: Node) -> bool:
    return bool(node.store.image.cluster_id)


def is_registered(node: Node) -> bool:
    return node.lifecycle.broker_epoch != UNREGISTERED


@pytest.mark.parametrize("has_come_so_far", [knows_the_cluster, is_registered])
def test_a_node_whose_addition_is_taken_back_waits_to_be_added_again(
    has_come_so_far: Callable[[Node], bool],
) -> None:
    """An addition that takes too long is reverted, and the new node may have begun to register by then. The operator
    repeats the command. So the node must keep running, log what it waits for, and get no clients."""

    def story(world: World, cluster: SimCluster) -> None:
        new = cluster.numbered(NEW)
        at = Address(new.host, CONTROLLER_PORT)

        async def take_in(node: Node) -> None:
            await node.store.raft.change_membership(Change(Action.ADD_LEARNER, NEW), at)

        async def take_back(node: Node) -> None:
            await node.store.raft.change_membership(Change(Action.REMOVE, NEW))

        async def add(node: Node) -> None:
            await node.store.submit(AddVoter(node_id=NEW, host=at.host, port=at.port, timeout_ms=10_000))

        async def write(node: Node) -> None:
            await node.store.submit(CreateTopics(topics=[NewTopic(name="written")]))

        new.come_new()
        new.start()
        world.run_for(1_000)
        on_leader(world, cluster, take_in)
        assert world.run_until(lambda: (node := node_of(new)) is not None and has_come_so_far(node), within_ms=10_000)
        lines = len(world.lines)
        taken_back = on_leader(world, cluster, take_back)
        assert world.run_until(taken_back.done, within_ms=1_000)
        world.run_for(70_000)  # more than initial.broker.registration.timeout.ms

        assert new.starts == 1
        assert not new.is_ready
        leader = cluster.leader()
        assert leader is not None
        controller = node_of(leader)
        assert controller is not None
        assert all(broker.broker_id != NEW for broker in controller.store.image.live_brokers)
        (said,) = [line for line in world.lines[lines:] if "waits to be added" in line]
        assert f"run `chronik cluster add {NEW}@HOST:{at.port}`" in said

        added = on_leader(world, cluster, add)
        assert world.run_until(lambda: added.done() and new.is_ready, within_ms=20_000)
        added.result()
        node = node_of(new)
        assert node is not None
        assert new.loop is not None
        written = new.loop.create_task(write(node))
        assert world.run_until(written.done, within_ms=10_000)
        written.result()

    play(story)


def test_voters_that_have_all_lost_their_metadata_are_not_told_to_be_added() -> None:
    """There is no cluster left that could add them. They wait, and name the guide that says what to do."""

    def story(world: World, cluster: SimCluster) -> None:
        founders = [cluster.numbered(number) for number in (1, 2, 3)]
        for machine in founders:
            machine.crash()
            machine.is_damaged = True
            machine.disk.remove_tree("/data/raft")
        lines = len(world.lines)
        for machine in founders:
            machine.start()
        world.run_for(5_000)
        said = world.lines[lines:]
        assert not any("waits to be added" in line for line in said)
        assert sum("has lost its metadata and waits" in line and "quorum-lost.md" in line for line in said) == 3
        assert not any(machine.is_ready for machine in founders)

    play(story)
