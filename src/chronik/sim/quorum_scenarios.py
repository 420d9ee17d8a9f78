"""Scenarios of the metadata quorum without brokers: with the metadata store, or with nothing but Raft."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat
from chronik.metadata.commands.register_broker import EndpointAt, RegisterBroker
from chronik.metadata.store import MetadataStore
from chronik.raft.config import RaftConfig
from chronik.sim.checkers.interface import Checker
from chronik.sim.checkers.ledgers import Ledgers
from chronik.sim.checkers.sets import METADATA_CHECKERS, RAFT_CHECKERS
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.history import History
from chronik.sim.ledger import LedgerWriter, ledger_programs
from chronik.sim.programs import host_of, quorum_programs
from chronik.sim.scenario import HEALED_MS_MAX, PACES_MS, Clients, Scenario, require
from chronik.sim.workload import MetadataClients, perform_on
from chronik.sim.world import World


def draw_raft_config(world: World) -> RaftConfig:
    """Some worlds take a snapshot every few entries; in some an append carries one entry, as with large entries."""
    random = world.random("raft")
    return RaftConfig(
        snapshot_every_bytes=random.choice((16 << 20, 4000)),
        trailing_entries=random.choice((5000, 3)),
        message_bytes_max=random.choice((1 << 20, 200)),
    )


class MetadataScenario(Scenario):
    """Three nodes of the metadata quorum without brokers: the complete store, driver, transport and journal."""

    name = "metadata"
    checkers: Sequence[type[Checker]] = METADATA_CHECKERS

    def build(self, world: World) -> SimCluster:
        programs = quorum_programs(self.node_count, draw_raft_config(world))
        return SimCluster(world, self.node_count, programs, raft_directory="/metadata/raft")

    def prepare(self, world: World, cluster: SimCluster) -> None:
        """Registers brokers, because the quorum alone has none to place topics on."""
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

    def clients(self, cluster: SimCluster, history: History) -> Clients:
        think_ms = cluster.world.random("pace").choice(PACES_MS)
        return MetadataClients(cluster, history, client_count=4, think_ms=think_ms, topic_count=3)

    def audit(self, world: World, cluster: SimCluster, history: History) -> None:
        for machine in cluster.machines.values():
            for key in sorted({operation.key for operation in history.operations}):
                operation = history.invoke("auditor", machine.host, "read", key)
                status, result = run_on(world, machine, lambda store, op=operation: perform_on(store, op))  # type: ignore[misc]
                history.complete(operation, status, result)


def run_on(world: World, machine: SimMachine, work: Callable[[MetadataStore], Coroutine[Any, Any, Any]]) -> Any:
    """Runs a coroutine with a machine's store, in that machine's process; returns its result."""
    assert machine.program is not None
    assert machine.program.store is not None
    assert machine.loop is not None
    task = machine.loop.create_task(work(machine.program.store), name="asked from outside")
    require(world, task.done, HEALED_MS_MAX, f"{machine.host} answers")
    return task.result()


class QuorumScenario(Scenario):
    """Three quorum nodes without a store, and a writer that does not wait."""

    name = "quorum"
    checkers = (*RAFT_CHECKERS, Ledgers)

    def build(self, world: World) -> SimCluster:
        programs = ledger_programs(self.node_count, draw_raft_config(world))
        return SimCluster(world, self.node_count, programs, raft_directory="/raft")

    def clients(self, cluster: SimCluster, history: History) -> Clients:
        return LedgerWriter(cluster, history, think_ms=cluster.world.random("pace").choice(PACES_MS[:2]))

    def audit(self, world: World, cluster: SimCluster, history: History) -> None:
        world.run_for(500)  # a few heartbeats: by then commits are applied everywhere
