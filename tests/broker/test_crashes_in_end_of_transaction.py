"""Nodes that are killed at each step of the end of a transaction, in the simulator.

A transaction writes to two partitions and commits the offset of a group. Three nodes: one coordinates it, the others
lead the two partitions. A row of the table is a step of the end, and the node that dies at that moment. The client
repeats its request, as clients do. Every transaction that a client was told is committed is read once, on all
partitions, with its offset; none hangs; and the producer goes on with the next transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import pytest

from chronik.broker.node import Node
from chronik.coordinator.transactions.shard import Entry
from chronik.metadata.commands.create_topics import ConfigValue, NewTopic, PartitionReplicas
from chronik.replication.replica import Replica
from chronik.sim.checkers.partitions import replicas_of
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.scenario import START_MS_MAX, require
from chronik.sim.transaction_clients import FETCH_BYTES, committed_records
from chronik.sim.transactions_scenario import have_all_ended
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.broker.test_peers import node_of, play, run
from tests.broker.test_transactions_cluster import (
    NEW,
    OLD,
    READ_COMMITTED,
    TRANSACTION_KEY,
    Producer,
    Talk,
    Versions,
    until_done,
)

COORDINATOR, LEADERS = 1, (2, 3)  # numbers of nodes
ORDERS = NewTopic(
    name="orders",
    assignments=[PartitionReplicas(index=0, broker_ids=[2, 3, 1]), PartitionReplicas(index=1, broker_ids=[3, 1, 2])],
    configs=[ConfigValue(key="retention.ms", value="-1")],  # the records of the tests are old
)
PARTITIONS = (0, 1)
FETCH_VERSION = 12  # the last one that names topics
END_MS_MAX = 5_000
HEALED_MS_MAX = 60_000
SILENT_MS = 2  # longer than an answer travels
OFFSET, NEXT_OFFSET = 100, 200


class Ending:
    """What the nodes know of the transaction while it ends."""

    def __init__(self, cluster: SimCluster, name: str) -> None:
        self._cluster, self._name = cluster, name
        self._before = {place: replica.log.end_offset for place, replica in self._written()}

    @property
    def entry(self) -> Entry:
        transactions = node_of(self._cluster.numbered(COORDINATOR)).coordinators.transactions
        entries = (shard.entries.get(self._name) for _, shard in transactions._runtime.active())
        return next(entry for entry in entries if entry is not None)

    @property
    def is_decided(self) -> bool:
        """And not complete."""
        current = self.entry.current
        return current is not None and current.state.is_prepared

    def markers(self, *, committed: bool) -> int:
        """Of how many partitions the leader has appended the marker, or committed it."""
        ends = (
            (place, replica.high_watermark if committed else replica.log.end_offset)
            for place, replica in self._written()
        )
        return sum(end > self._before[place] for place, end in ends)

    def _written(self) -> list[tuple[tuple[str, int], Replica]]:
        """The leaders' replicas of what the transaction wrote to."""
        found = []
        for machine in self._cluster.machines.values():
            for replica in replicas_of(machine).values():
                place = (replica.log.topic, replica.log.partition)
                if replica.is_leader and (place[0] == "orders" or (place in self._group_partition)):
                    found.append((place, replica))
        return found

    @property
    def _group_partition(self) -> list[tuple[str, int]]:
        current = self.entry.current
        return [] if current is None else [place for place in current.partitions if place[0] != "orders"]


PARTICIPANTS = 3  # two partitions, and that of the group's offsets


class Step(NamedTuple):
    name: str
    is_now: Callable[[Ending], bool]
    is_decided: bool = True  # whoever dies, the outcome stays
    loses_answer: bool = False  # to the client


STEPS = [
    Step("the decision is in the log", lambda now: now.entry.pending is not None, is_decided=False),
    Step("the decision is committed", lambda now: now.is_decided and not now.markers(committed=True)),
    Step(
        "the answer is on its way",
        lambda now: now.is_decided and not now.markers(committed=True),
        loses_answer=True,
    ),
    Step("a marker is in a log", lambda now: now.markers(committed=False) > 0 == now.markers(committed=True)),
    Step("between markers", lambda now: 0 < now.markers(committed=True) < PARTICIPANTS),
    Step(
        "all markers are committed",
        lambda now: now.markers(committed=True) == PARTICIPANTS and now.entry.pending is None,
    ),
    Step("the completion is in the log", lambda now: now.is_decided and now.entry.pending is not None),
    Step(
        "the completion is committed", lambda now: now.entry.current is not None and now.entry.current.state.is_complete
    ),
]


class Death(NamedTuple):
    name: str
    number: int
    kill: Callable[[SimMachine], None] = SimMachine.crash


DEATHS = [
    Death("coordinator", COORDINATOR),
    Death("coordinator without power", COORDINATOR, SimMachine.power_cut),
    Death("leader of 0", LEADERS[0]),
    Death("leader of 1", LEADERS[1]),
]


class Reader(Talk):
    def __init__(self, node: Node, versions: Versions) -> None:
        super().__init__(node, versions)
        self.directory = node.peers.directory

    async def committed(self, partition: int) -> list[str]:
        """Values, once nothing in the partition is undecided."""

        found: list[str] = []
        offset = 0

        async def ask() -> bool | ErrorCode:
            nonlocal offset
            place = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
            topic = FetchTopic(topic="orders", partitions=[place])
            request = FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=READ_COMMITTED, topics=[topic])
            leader_id = self.directory.leader_of("orders", partition)
            if leader_id is None:
                return ErrorCode.LEADER_NOT_AVAILABLE
            told = (await self.ask(leader_id, request, FetchResponse, FETCH_VERSION)).responses[0].partitions[0]
            if told.error_code or told.last_stable_offset < told.high_watermark:
                return ErrorCode.of(told.error_code) or ErrorCode.CONCURRENT_TRANSACTIONS
            values, offset = committed_records(told, offset)
            found.extend(value for _, value in values)
            return offset < told.high_watermark

        while (has_more := await until_done(ask)) is True:
            pass
        assert has_more is False, has_more
        return found

    async def transact(self, producer: Producer, value: bytes, offset: int) -> None:
        for partition in PARTITIONS:
            await self.produce(producer, partition, value)
        await self.commit(producer, offset)

    async def coordinated_by(self, node_id: int) -> str:
        """A transactional id."""
        for number in range(100):
            if await self.coordinator(TRANSACTION_KEY, f"tx-{number}") == node_id:
                return f"tx-{number}"
        raise AssertionError(f"node {node_id} coordinates nothing")


def story_of(step: Step, dying: list[Death], versions: Versions, *, commits: bool) -> Callable[[SimCluster], None]:
    def story(cluster: SimCluster) -> None:
        world = cluster.world
        dead = [cluster.numbered(death.number) for death in dying]
        alive = [machine for machine in cluster.machines.values() if machine not in dead]
        client = alive[-1] if alive else cluster.numbered(LEADERS[0])
        coordinator = cluster.numbered(COORDINATOR)

        async def begin(node: Node) -> Producer:
            talk = Reader(node, versions)
            producer = await talk.init(await talk.coordinated_by(coordinator.node_id))
            await talk.transact(producer, b"first", OFFSET)
            return producer

        producer = run(cluster, client, begin)
        ending = Ending(cluster, producer.name)
        assert client.loop is not None
        ended = client.loop.create_task(Talk(node_of(client), versions).end(producer, commits=commits))
        assert world.run_until(lambda: step.is_now(ending), within_ms=END_MS_MAX), f"never: {step.name}"
        if step.loses_answer:  # what was sent and has not arrived waits with it
            world.wires.cut(coordinator.host, client.host)
        for death, machine in zip(dying, dead, strict=True):
            death.kill(machine)
        world.run_for(SILENT_MS)
        if step.loses_answer:
            world.wires.reset(coordinator.host, client.host)
            world.wires.mend(coordinator.host, client.host)
        if alive:
            assert world.run_until(ended.done, within_ms=HEALED_MS_MAX), "the end of the transaction hangs"
            ended.result()
        else:
            start_again(cluster, dead)

        async def go_on(node: Node) -> None:
            talk = Reader(node, versions)
            await talk.transact(successor := await talk.init(producer.name), b"next", NEXT_OFFSET)
            await talk.end(successor, commits=True)

        async def look(node: Node) -> tuple[list[str], ...]:
            """The values in each partition, and the offset of the group."""
            talk = Reader(node, versions)
            values = [await talk.committed(partition) for partition in PARTITIONS]
            while (found := await talk.stable_offset_of_group())[1] is not ErrorCode.NONE:
                await asyncio.sleep(0.1)
            return (*values, [str(found[0])])

        first, nothing = (["first"], ["first"], [str(OFFSET)]), ([], [], ["-1"])
        is_known = step.is_decided or bool(alive)
        if is_known:
            assert run(cluster, client, look) == (first if commits else nothing)
        run(cluster, client, go_on)
        start_again(cluster, dead)
        expected = [(*([*each, "next"] for each in before[:2]), [str(NEXT_OFFSET)]) for before in (first, nothing)]
        assert run(cluster, client, look) in ([expected[0 if commits else 1]] if is_known else expected)
        require(world, lambda: have_all_ended(cluster), HEALED_MS_MAX, "16 every transaction ends")

    return story


def start_again(cluster: SimCluster, machines: list[SimMachine]) -> None:
    for machine in machines:
        machine.start()
    require(cluster.world, cluster.has_settled, START_MS_MAX, "the cluster starts again")


def _id(value: object) -> str:
    return str(getattr(value, "name", value)).replace(" ", "-")


@pytest.mark.parametrize("versions", [pytest.param(OLD, id="verified"), pytest.param(NEW, id="added")])
@pytest.mark.parametrize(("step", "death"), list(product(STEPS, DEATHS)), ids=_id)
def test_a_commit_survives_a_node_that_dies_at_any_step(step: Step, death: Death, versions: Versions) -> None:
    play(story_of(step, [death], versions, commits=True), topic=ORDERS)


@pytest.mark.parametrize(("step", "death"), list(product(STEPS, DEATHS[:1])), ids=_id)
def test_an_abort_survives_a_node_that_dies_at_any_step(step: Step, death: Death) -> None:
    play(story_of(step, [death], NEW, commits=False), topic=ORDERS)


@pytest.mark.parametrize("step", STEPS, ids=_id)
def test_a_commit_survives_the_power_of_all_nodes(step: Step) -> None:
    """The client dies as well, so only the log knows what was decided."""
    everybody = [Death("", number, SimMachine.power_cut) for number in (COORDINATOR, *LEADERS)]
    play(story_of(step, everybody, NEW, commits=True), topic=ORDERS)
