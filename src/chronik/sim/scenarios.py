"""The scenarios by name. Each says who runs, what clients do and who looks on; the course of a run is `scenario`'s."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ClassVar

from chronik.client.admin.offsets import LATEST, look_up
from chronik.client.admin.topics import NewTopic
from chronik.client.admin.topics import create as create_topics
from chronik.client.errors import ClientError
from chronik.client.topology import TopicPartition
from chronik.metadata.commands import BrokerHeartbeat, EndpointAt, RegisterBroker
from chronik.metadata.image import NO_LEADER
from chronik.metadata.store import MetadataStore
from chronik.raft.config import RaftConfig
from chronik.sim.checkers.durable_commit import DurableCommit
from chronik.sim.checkers.durable_progress import DurableProgress
from chronik.sim.checkers.interface import Checker
from chronik.sim.checkers.leases import Leases
from chronik.sim.checkers.ledgers import Ledgers
from chronik.sim.checkers.linearizability import LinearizableMetadata
from chronik.sim.checkers.one_leader import OneLeader
from chronik.sim.checkers.partitions import Elections, IdenticalReplicas, Watermarks
from chronik.sim.checkers.records import (
    AUDITOR,
    AcknowledgedIsReadable,
    CommitsStay,
    OneValuePerOffset,
    ProducerOrder,
)
from chronik.sim.checkers.recovery import Recovery
from chronik.sim.checkers.same_state import SameState
from chronik.sim.checkers.silence import Silence
from chronik.sim.cluster import Cluster, Machine
from chronik.sim.errors import UnknownScenario
from chronik.sim.faults import Fault
from chronik.sim.history import History
from chronik.sim.ledger import LedgerWriter, ledger_programs
from chronik.sim.programs import broker_programs, host_of, quorum_programs
from chronik.sim.record_clients import TOPIC, RecordClients, routing_of
from chronik.sim.scenario import HEALED_MS_MAX, Clients, Outcome, Scenario, require, run
from chronik.sim.wire_clients import TopicClients, WireClient, make_client
from chronik.sim.workload import MetadataClients, perform_on
from chronik.sim.world import World

RAFT_CHECKERS = (OneLeader, DurableProgress, Recovery, DurableCommit, SameState, Leases)
METADATA_CHECKERS = (*RAFT_CHECKERS, Silence, LinearizableMetadata)


PACES_MS = ((5, 150), (20, 400), (200, 2000), (1000, 9000))  # from busy to idle: each shows what another hides


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
    checkers: Sequence[type[Checker]] = METADATA_CHECKERS

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
    assert machine.program is not None
    assert machine.program.store is not None
    assert machine.loop is not None
    task = machine.loop.create_task(work(machine.program.store), name="asked from outside")
    require(world, task.done, HEALED_MS_MAX, f"{machine.host} answers")
    return task.result()


class QuorumScenario(Scenario):
    """Three nodes of a quorum with nothing on top, and a writer that does not wait."""

    name = "quorum"
    checkers = (*RAFT_CHECKERS, Ledgers)

    def build(self, world: World) -> Cluster:
        programs = ledger_programs(self.node_count, draw_raft_config(world))
        return Cluster(world, self.node_count, programs, raft_directory="/raft")

    def clients(self, cluster: Cluster, history: History) -> Clients:
        return LedgerWriter(cluster, history, think_ms=cluster.world.random("pace").choice(PACES_MS[:2]))

    def audit(self, world: World, cluster: Cluster, history: History) -> None:
        world.run_for(500)  # a few heartbeats: what is committed is applied everywhere by then


class TopicsScenario(Scenario):
    """Three whole nodes, brokers and all, asked about topics over the network through all of them."""

    name = "topics"
    checkers: Sequence[type[Checker]] = METADATA_CHECKERS
    brokers: ClassVar[dict[str, object]] = {}

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

        _run_in(world, auditor, look())


class RecordsScenario(TopicsScenario):
    """Three whole nodes that replicate: producers with acks=all, readers at all nodes, a group that commits."""

    name = "records"
    partition_count = 2
    checkers = (
        *RAFT_CHECKERS, Silence, Watermarks, Elections, IdenticalReplicas,
        OneValuePerOffset, AcknowledgedIsReadable, ProducerOrder, CommitsStay,
    )  # fmt: skip
    brokers: ClassVar[dict[str, object]] = {
        "min_insync_replicas": 2,
        "offsets_topic_replication_factor": 3,
        "offsets_topic_num_partitions": 1,
        "replica_lag_time_max_ms": 2000,
        "broker_session_timeout_ms": 3000,
        "broker_heartbeat_interval_ms": 500,
    }

    def prepare(self, world: World, cluster: Cluster) -> None:
        client = make_client(cluster, "founder")

        async def create() -> None:
            routing = routing_of(cluster, client)
            new = NewTopic(TOPIC, partition_count=self.partition_count, replication_factor=len(cluster.machines))
            await create_topics(routing, [new])
            await routing.close()

        _run_in(world, client, create())

    def clients(self, cluster: Cluster, history: History) -> Clients:
        think_ms = cluster.world.random("pace").choice(PACES_MS)
        return self._clients(cluster, history, think_ms)

    def _clients(self, cluster: Cluster, history: History, think_ms: tuple[int, int]) -> RecordClients:
        return RecordClients(
            cluster,
            history,
            partition_count=self.partition_count,
            producer_count=2,
            reader_count=2,
            think_ms=think_ms,
        )

    def has_recovered(self, cluster: Cluster) -> bool:
        """Every partition is led, and all its replicas are in sync again."""
        leader = cluster.leader()
        store = leader.program.store if leader is not None and leader.program is not None else None
        if not cluster.has_settled() or store is None:
            return False
        return all(
            partition.leader != NO_LEADER and len(partition.isr) == len(partition.replicas)
            for topic in store.image.all_topics()
            for partition in topic.partitions
        )

    def audit(self, world: World, cluster: Cluster, history: History) -> None:
        clients = self._clients(cluster, history, (0, 0))
        auditor = make_client(cluster, AUDITOR)

        async def look() -> None:
            routing = routing_of(cluster, auditor)
            for partition in range(self.partition_count):
                at = TopicPartition(TOPIC, partition)
                end = (await look_up(routing, {at: LATEST}))[at]
                if isinstance(end, ClientError):
                    raise end
                leader = (await routing.topic(TOPIC)).partitions[partition].leader_id
                offset = 0
                while offset < end.offset:
                    offset = await clients.fetch(auditor, leader, partition, offset) or offset
            await clients.look_up_commit(auditor, routing)
            await routing.close()

        _run_in(world, auditor, look())


def _run_in(world: World, client: WireClient, work: Coroutine[Any, Any, None]) -> None:
    task = client.loop.create_task(work, name=client.name)
    require(world, task.done, HEALED_MS_MAX, f"{client.name} is answered")
    task.result()


SCENARIOS: dict[str, type[Scenario]] = {
    each.name: each for each in (QuorumScenario, MetadataScenario, TopicsScenario, RecordsScenario)
}


def run_named(name: str, seed: int, faults: list[Fault] | None = None) -> Outcome:
    if name not in SCENARIOS:
        raise UnknownScenario(f"there is no scenario {name!r}: choose one of {', '.join(sorted(SCENARIOS))}")
    return run(SCENARIOS[name](), seed, faults)
