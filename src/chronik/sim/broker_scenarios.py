"""Scenarios of complete nodes, used over the network: topics, records, consumer groups."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from chronik.client.admin.offsets import look_up
from chronik.client.admin.topics import NewTopic
from chronik.client.admin.topics import create as create_topics
from chronik.client.errors import ClientError, Refused
from chronik.client.routing import ClusterClient
from chronik.client.topology import TopicPartition
from chronik.metadata.image import NO_LEADER, Image
from chronik.sim.checkers.interface import Checker
from chronik.sim.checkers.partitions import node_of
from chronik.sim.checkers.records import AUDITOR
from chronik.sim.checkers.sets import GROUP_CHECKERS, MEMBERS_CHECKERS, METADATA_CHECKERS, RECORD_CHECKERS
from chronik.sim.cluster import SimCluster
from chronik.sim.faults import UPKEEP_WEIGHTS, Fault, draw_changes, draw_moves
from chronik.sim.group_clients import GroupClients, look_up_commits
from chronik.sim.history import OK, History
from chronik.sim.programs import broker_programs
from chronik.sim.record_clients import TOPIC, RecordClients, routing_of
from chronik.sim.scenario import HEALED_MS_MAX, PACES_MS, RECOVERY, Clients, Scenario, end_half_open, require
from chronik.sim.wire_clients import TopicClients, WireClient, make_client
from chronik.sim.world import World
from chronik.wire.error_codes import ErrorCode
from chronik.wire.offset_specs import LATEST


class TopicsScenario(Scenario):
    """Three complete nodes; clients use topics over the network through all of them."""

    name = "topics"
    checkers: Sequence[type[Checker]] = METADATA_CHECKERS
    brokers: ClassVar[dict[str, object]] = {}

    def build(self, world: World) -> SimCluster:
        programs = broker_programs(self.node_count, self.brokers, first_id=self.first_id)
        return SimCluster(world, self.node_count, programs, raft_directory="/data/raft", first_id=self.first_id)

    def clients(self, cluster: SimCluster, history: History) -> Clients:
        think_ms = cluster.world.random("pace").choice(PACES_MS)
        return TopicClients(cluster, history, client_count=4, think_ms=think_ms, topic_count=3)

    def audit(self, world: World, cluster: SimCluster, history: History) -> None:
        clients = TopicClients(cluster, history, client_count=0, think_ms=(0, 0), topic_count=0)
        auditor = make_client(cluster, "auditor")

        async def look() -> None:
            for node_id in [machine.node_id for machine in cluster.members()]:
                for key in sorted({operation.key for operation in history.operations}):
                    await clients.ask(auditor, node_id, "read", key)

        run_in(world, auditor, look())


class MembersScenario(TopicsScenario):
    """Like topics; meanwhile operators add nodes to the quorum and remove them, while others fail. At the end all
    members serve."""

    name = "members"
    spare_count = 2
    checkers: Sequence[type[Checker]] = MEMBERS_CHECKERS

    def build(self, world: World) -> SimCluster:
        programs = broker_programs(self.node_count, self.brokers, lambda node_id: cluster.machines[node_id].joins)
        cluster = SimCluster(
            world, self.node_count, programs, raft_directory="/data/raft", spare_count=self.spare_count
        )
        return cluster

    def draw_faults(self, world: World) -> list[Fault]:
        changes = draw_changes(
            world.random("members"), node_count=self.node_count, spare_count=self.spare_count, span_ms=self.fault_ms
        )
        return sorted([*super().draw_faults(world), *changes])

    def has_recovered(self, cluster: SimCluster) -> bool:
        return all(task.done() for task in cluster.operators) and super().has_recovered(cluster)

    def repair(self, world: World, cluster: SimCluster) -> None:
        """No repair, only a check: a quorum that cannot commit looks healthy as long as it is idle."""
        clients = TopicClients(cluster, History(world), client_count=0, think_ms=(0, 0), topic_count=0)
        writer = make_client(cluster, "writer")

        async def write() -> None:
            for machine in cluster.members():
                node_id = machine.node_id
                done = await clients.ask(writer, node_id, "create", f"written-through-{node_id}")
                is_written = done is not None and done.status == OK
                # A removal that its operator gave up may take effect only now: then the node no longer serves.
                if not is_written and machine in cluster.members():
                    world.violated(RECOVERY, f"nothing can be written through node {node_id}: {done}")

        run_in(world, writer, write())


class RecordsScenario(TopicsScenario):
    """Three replicating nodes: producers with acks=all, readers at all nodes, a group that commits."""

    name = "records"
    partition_count = 2
    replication_factor = 3
    topic_configs: Mapping[str, str] = MappingProxyType({})
    checkers: Sequence[type[Checker]] = RECORD_CHECKERS
    brokers: ClassVar[dict[str, object]] = {
        "min_insync_replicas": 2,
        "offsets_topic_replication_factor": 3,
        "offsets_topic_num_partitions": 1,
        "replica_lag_time_max_ms": 2000,
        "broker_session_timeout_ms": 3000,
        "disk_hang_timeout_ms": 2000,
        "broker_heartbeat_interval_ms": 500,
    }

    def prepare(self, world: World, cluster: SimCluster) -> None:
        client = make_client(cluster, "founder")

        async def create() -> None:
            routing = routing_of(cluster, client)
            new = NewTopic(
                TOPIC,
                partition_count=self.partition_count,
                replication_factor=self.replication_factor,
                configs=self.topic_configs,
            )
            await create_topic(routing, new)
            await routing.close()

        run_in(world, client, create())

    def clients(self, cluster: SimCluster, history: History) -> Clients:
        think_ms = cluster.world.random("pace").choice(PACES_MS)
        return self._clients(cluster, history, think_ms)

    def _clients(self, cluster: SimCluster, history: History, think_ms: tuple[int, int]) -> RecordClients:
        return RecordClients(
            cluster,
            history,
            partition_count=self.partition_count,
            producer_count=2,
            reader_count=2,
            think_ms=think_ms,
            are_keyed=bool(self.topic_configs),
        )

    def has_recovered(self, cluster: SimCluster) -> bool:
        """Every partition has a leader, and all its replicas are in sync again, except those on a disk that will be
        replaced."""
        image = settled_image(cluster)
        if image is None:
            return False
        sound = {node_id for node_id, machine in cluster.machines.items() if not machine.is_rotten}
        return all(
            partition.leader != NO_LEADER and sound <= set(partition.isr)
            for topic in image.all_topics()
            for partition in topic.partitions
        )

    def contacts(self, cluster: SimCluster) -> list[int]:
        """The nodes that a client may ask first."""
        return list(cluster.machines)

    def audit(self, world: World, cluster: SimCluster, history: History) -> None:
        clients = self._clients(cluster, history, (0, 0))
        auditor = make_client(cluster, AUDITOR)

        async def look() -> None:
            routing = routing_of(cluster, auditor, self.contacts(cluster))
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

        run_in(world, auditor, look())


class UpkeepScenario(RecordsScenario):
    """Like records, with small segments that are compacted all the time, on disks that are sometimes full: background
    work loses nothing. Every record has a unique key, so compaction keeps all of them."""

    name = "upkeep"
    weights = UPKEEP_WEIGHTS
    brokers: ClassVar[dict[str, object]] = {**RecordsScenario.brokers, "log_retention_check_interval_ms": 150}
    topic_configs: Mapping[str, str] = MappingProxyType(
        {"cleanup.policy": "compact", "internal.segment.bytes": "300", "min.cleanable.dirty.ratio": "0.0"}
    )

    def clients(self, cluster: SimCluster, history: History) -> Clients:
        return self._clients(cluster, history, PACES_MS[0])


class MovesScenario(RecordsScenario):
    """Like records, with one more node; meanwhile operators reassign replicas, while nodes fail. At the end every
    partition has exactly the replicas of its last assignment."""

    name = "moves"
    node_count = 4
    brokers: ClassVar[dict[str, object]] = {**RecordsScenario.brokers, "log_retention_check_interval_ms": 400}

    def draw_faults(self, world: World) -> list[Fault]:
        random = world.random("moves")
        moves = draw_moves(
            random, node_count=self.node_count, partition_count=self.partition_count, span_ms=self.fault_ms
        )
        return sorted([*super().draw_faults(world), *moves])

    def has_recovered(self, cluster: SimCluster) -> bool:
        image = settled_image(cluster)
        if image is None or not all(task.done() for task in cluster.operators):
            return False
        partitions = {
            (topic.topic_id, index): partition
            for topic in image.all_topics()
            for index, partition in enumerate(topic.partitions)
        }
        have_arrived = all(
            each.leader != NO_LEADER and not each.adding and not each.removing and set(each.replicas) == set(each.isr)
            for each in partitions.values()
        )
        return have_arrived and all(
            machine.node_id in partitions[log.topic_id, log.partition].replicas
            for machine in cluster.machines.values()
            if (node := node_of(machine)) is not None
            for log in node.logs.all()
        )


class DamageScenario(RecordsScenario):
    """Like records, but first a disk returns data that was never written. Whatever the other faults, no client receives
    it, and after the disk is replaced the cluster is healthy."""

    name = "damage"
    fault_count = (1, 4)

    # A checkpoint follows each start soon: after it the journal does not duplicate everything.
    brokers: ClassVar[dict[str, object]] = {**RecordsScenario.brokers, "log_retention_check_interval_ms": 400}

    def draw_faults(self, world: World) -> list[Fault]:
        random = world.random("rot")
        node, at_ms = random.randint(1, self.node_count), random.randint(2500, 6000)
        restart = Fault(random.randint(100, 800), "kill", node, random.randint(50, 300))
        rot = Fault(at_ms, "rot", node, random.randint(100, 1500), amount=random.randrange(1 << 20))
        later_ms = rot.at_ms + rot.duration_ms + 200
        return [restart, rot, *(each._replace(at_ms=each.at_ms + later_ms) for each in super().draw_faults(world))]

    def clients(self, cluster: SimCluster, history: History) -> Clients:
        return self._clients(cluster, history, cluster.world.random("pace").choice(PACES_MS[:2]))

    def repair(self, world: World, cluster: SimCluster) -> None:
        for machine in cluster.machines.values():
            if machine.is_rotten:
                machine.wipe()
                machine.start()
        require(world, lambda: self.has_recovered(cluster), HEALED_MS_MAX, "a node with a new disk catches up")
        end_half_open(world, cluster)


class GroupsScenario(RecordsScenario):
    """Three complete nodes, and a consumer group whose members join and leave while coordinators move."""

    name = "groups"
    partition_count = 3
    checkers: Sequence[type[Checker]] = GROUP_CHECKERS
    brokers: ClassVar[dict[str, object]] = {**RecordsScenario.brokers, "group_min_session_timeout_ms": 100}

    def __init__(self) -> None:
        self._healed_ns: int | None = None
        self._members: GroupClients | None = None

    def clients(self, cluster: SimCluster, history: History) -> Clients:
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

    def has_recovered(self, cluster: SimCluster) -> bool:
        """The group has made progress too: a member commits records written since."""
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

    def audit(self, world: World, cluster: SimCluster, history: History) -> None:
        super().audit(world, cluster, history)
        auditor = make_client(cluster, "auditor of the group")

        async def look() -> None:
            routing = routing_of(cluster, auditor)
            await look_up_commits(history, auditor, routing, self.partition_count)
            await routing.close()

        run_in(world, auditor, look())


async def create_topic(routing: ClusterClient, new: NewTopic) -> None:
    """Retries as long as the controller asks for it."""
    while True:
        made = (await create_topics(routing, [new]))[new.name]
        if not isinstance(made, Refused) or made.kafka_error == ErrorCode.TOPIC_ALREADY_EXISTS:
            return
        await asyncio.sleep(0.1)


def settled_image(cluster: SimCluster) -> Image | None:
    """The leader's image, once all nodes have joined."""
    leader = cluster.leader()
    store = leader.program.store if leader is not None and leader.program is not None else None
    return store.image if store is not None and cluster.has_settled() else None


def run_in(world: World, client: WireClient, work: Coroutine[Any, Any, None]) -> None:
    task = client.loop.create_task(work, name=client.name)
    require(world, task.done, HEALED_MS_MAX, f"{client.name} is answered")
    task.result()
