"""Scenarios of whole nodes, asked over the network: topics, records, consumer groups."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, ClassVar

from chronik.client.admin.offsets import LATEST, look_up
from chronik.client.admin.topics import NewTopic
from chronik.client.admin.topics import create as create_topics
from chronik.client.errors import ClientError
from chronik.client.topology import TopicPartition
from chronik.metadata.image import NO_LEADER
from chronik.sim.checkers.interface import Checker
from chronik.sim.checkers.records import AUDITOR
from chronik.sim.checkers.sets import GROUP_CHECKERS, METADATA_CHECKERS, RECORD_CHECKERS
from chronik.sim.cluster import Cluster
from chronik.sim.group_clients import GroupClients, look_up_commits
from chronik.sim.history import OK, History
from chronik.sim.programs import broker_programs
from chronik.sim.record_clients import TOPIC, RecordClients, routing_of
from chronik.sim.scenario import HEALED_MS_MAX, PACES_MS, Clients, Scenario, require
from chronik.sim.wire_clients import TopicClients, WireClient, make_client
from chronik.sim.world import World


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
    checkers: Sequence[type[Checker]] = RECORD_CHECKERS
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


class GroupsScenario(RecordsScenario):
    """Three whole nodes, and a consumer group whose members come and go while coordinators move."""

    name = "groups"
    partition_count = 3
    checkers: Sequence[type[Checker]] = GROUP_CHECKERS
    brokers: ClassVar[dict[str, object]] = {**RecordsScenario.brokers, "group_min_session_timeout_ms": 100}

    def __init__(self) -> None:
        self._healed_ns: int | None = None
        self._members: GroupClients | None = None

    def clients(self, cluster: Cluster, history: History) -> Clients:
        random = cluster.world.random("pace")
        records = RecordClients(
            cluster,
            history,
            partition_count=self.partition_count,
            producer_count=1,
            reader_count=0,
            think_ms=random.choice(PACES_MS[:2]),
            commits=False,
        )
        think_ms = random.choice(PACES_MS[:2])
        self._members = GroupClients(cluster, history, records, member_count=3, think_ms=think_ms)
        return self._members

    def has_recovered(self, cluster: Cluster) -> bool:
        """The group goes on as well: somebody commits what was written since."""
        assert self._members is not None
        if self._healed_ns is None:
            self._healed_ns = cluster.world.time.now_ns
            self._members.is_calm = True
        if not super().has_recovered(cluster):
            return False
        healed_ns = self._healed_ns
        return any(
            each.kind == "commit" and each.status == OK and each.invoked_ns > healed_ns
            for each in reversed(self._members.history.operations)
        )

    def audit(self, world: World, cluster: Cluster, history: History) -> None:
        super().audit(world, cluster, history)
        auditor = make_client(cluster, "auditor of the group")

        async def look() -> None:
            routing = routing_of(cluster, auditor)
            await look_up_commits(history, auditor, routing, self.partition_count)
            await routing.close()

        _run_in(world, auditor, look())


def _run_in(world: World, client: WireClient, work: Coroutine[Any, Any, None]) -> None:
    task = client.loop.create_task(work, name=client.name)
    require(world, task.done, HEALED_MS_MAX, f"{client.name} is answered")
    task.result()
