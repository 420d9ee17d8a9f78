"""The scenarios by name. Each says who runs, what clients do and who looks on; the course of a run is `scenario`'s."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from chronik.metadata.commands import BrokerHeartbeat, EndpointAt, RegisterBroker
from chronik.metadata.store import MetadataStore
from chronik.raft.config import RaftConfig
from chronik.sim.checkers.durable_commit import DurableCommit
from chronik.sim.checkers.durable_progress import DurableProgress
from chronik.sim.checkers.leases import Leases
from chronik.sim.checkers.linearizability import LinearizableMetadata
from chronik.sim.checkers.one_leader import OneLeader
from chronik.sim.checkers.same_state import SameState
from chronik.sim.cluster import Cluster, Machine
from chronik.sim.errors import UnknownScenario
from chronik.sim.faults import Fault
from chronik.sim.history import History
from chronik.sim.programs import broker_programs, host_of, quorum_programs
from chronik.sim.scenario import HEALED_MS_MAX, Clients, Outcome, Scenario, require, run
from chronik.sim.wire_clients import TopicClients, make_client
from chronik.sim.workload import MetadataClients, perform_on
from chronik.sim.world import World

METADATA_CHECKERS = (OneLeader, DurableProgress, DurableCommit, SameState, LinearizableMetadata, Leases)


PACES_MS = ((5, 150), (20, 400), (300, 3000))  # busy, moderate, nearly idle: each hides what another shows


def draw_raft_config(world: World) -> RaftConfig:
    """Some worlds take a snapshot every few entries, in some an append carries one entry, as with large ones."""
    random = world.random("raft")
    return RaftConfig(
        snapshot_every_bytes=random.choice((16 << 20, 4000)),
        trailing_entries=random.choice((5000, 3)),
        message_bytes_max=random.choice((1 << 20, 200)),
    )


class MetadataScenario(Scenario):
    """Three nodes of the metadata quorum: no broker, all of the store, the driver, the transport and the journal."""

    name = "metadata"
    checkers = METADATA_CHECKERS

    def build(self, world: World) -> Cluster:
        programs = quorum_programs(self.node_count, draw_raft_config(world))
        return Cluster(world, self.node_count, programs, raft_directory="/metadata/raft")

    def prepare(self, world: World, cluster: Cluster) -> None:
        """The quorum alone has no brokers to put topics on: it is told of some."""
        leader = cluster.leader()
        assert leader is not None

        async def register(store: MetadataStore) -> None:
            for node_id in cluster.machines:
                reply = await store.submit(
                    RegisterBroker(
                        broker_id=node_id,
                        cluster_id=store.image.cluster_id,
                        incarnation_id=bytes([node_id]) * 16,
                        endpoints=[EndpointAt(name="PLAINTEXT", host=host_of(node_id), port=9092)],
                    )
                )
                await store.submit(BrokerHeartbeat(broker_id=node_id, broker_epoch=reply.broker_epoch))

        run_on(world, leader, register)

    def clients(self, cluster: Cluster, history: History) -> Clients:
        think_ms = cluster.world.random("pace").choice(PACES_MS)
        return MetadataClients(cluster, history, client_count=4, think_ms=think_ms, topic_count=3)

    def audit(self, world: World, cluster: Cluster, history: History) -> None:
        for machine in cluster.machines.values():
            for key in sorted({operation.key for operation in history.operations}):
                operation = history.invoke("auditor", machine.host, "read", key)
                status, result = run_on(world, machine, lambda store, op=operation: perform_on(store, op))  # type: ignore[misc]
                history.complete(operation, status, result)


def run_on(world: World, machine: Machine, work: Callable[[MetadataStore], Coroutine[Any, Any, Any]]) -> Any:
    """Runs a coroutine with a machine's store, in that machine's process; returns its result."""
    assert machine.program is not None and machine.program.store is not None and machine.loop is not None
    task = machine.loop.create_task(work(machine.program.store), name="asked from outside")
    require(world, task.done, HEALED_MS_MAX, f"{machine.host} answers")
    return task.result()


class TopicsScenario(Scenario):
    """Three whole nodes, brokers and all, asked about topics over the network through all of them."""

    name = "topics"
    checkers = METADATA_CHECKERS
    brokers: dict[str, object] = {}  # noqa: RUF012 - read only

    def build(self, world: World) -> Cluster:
        programs = broker_programs(self.node_count, **self.brokers)
        return Cluster(world, self.node_count, programs, raft_directory="/data/raft")

    def clients(self, cluster: Cluster, history: History) -> Clients:
        think_ms = cluster.world.random("pace").choice(PACES_MS)
        return TopicClients(cluster, history, client_count=4, think_ms=think_ms, topic_count=3)

    def audit(self, world: World, cluster: Cluster, history: History) -> None:
        clients = TopicClients(cluster, history, client_count=0, think_ms=(0, 0), topic_count=0)
        auditor = make_client(cluster, "auditor")

        async def look() -> None:
            for node_id in cluster.machines:
                for key in sorted({operation.key for operation in history.operations}):
                    await clients.ask(auditor, node_id, "read", key)

        task = auditor.loop.create_task(look(), name="audit")
        require(world, task.done, HEALED_MS_MAX, "the auditor is answered")
        task.result()


SCENARIOS: dict[str, type[Scenario]] = {each.name: each for each in (MetadataScenario, TopicsScenario)}


def run_named(name: str, seed: int, faults: list[Fault] | None = None) -> Outcome:
    if name not in SCENARIOS:
        raise UnknownScenario(f"there is no scenario {name!r}: choose one of {', '.join(sorted(SCENARIOS))}")
    return run(SCENARIOS[name](), seed, faults)
