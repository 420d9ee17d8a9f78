"""Topics that are deleted, created again with the same name, and reconfigured, while nodes fail.

Another topic stays and is written, read and committed to as in `records`: all share one journal per node, and work on
one log must not affect another. At the end each node has exactly the logs and directories of partitions that the image
assigns to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import ClassVar

from chronik.client.admin.offsets import look_up
from chronik.client.errors import ClientError
from chronik.client.routing import ClusterClient
from chronik.client.topology import Topic as KnownTopic
from chronik.client.topology import TopicPartition
from chronik.metadata.image import NO_LEADER, Image
from chronik.raft.config import RaftConfig
from chronik.sim import topic_operators
from chronik.sim.broker_scenarios import RecordsScenario, run_in, settled_image
from chronik.sim.checkers.interface import Checker
from chronik.sim.checkers.partitions import node_of
from chronik.sim.checkers.records import AUDITOR
from chronik.sim.checkers.sets import RECREATED_CHECKERS
from chronik.sim.checkers.topic_ids import LOG_START, STALE_PRODUCE, STALE_READ, existing
from chronik.sim.cluster import SimCluster, SimMachine
from chronik.sim.faults import LEADER, METADATA_WEIGHTS, Fault, Weight
from chronik.sim.history import OK, History
from chronik.sim.programs import broker_programs, host_of
from chronik.sim.record_clients import read, routing_of
from chronik.sim.scenario import HEALED_MS_MAX, PACES_MS, START_MS_MAX, Clients, Together, require
from chronik.sim.topic_id_clients import Sent, TopicIdClients, key_of, produce, topic_id_of
from chronik.sim.topic_operators import NAMES
from chronik.sim.wire_clients import WireClient, make_client
from chronik.sim.world import World
from chronik.wire import batches
from chronik.wire.messages.fetch import FetchTopic
from chronik.wire.offset_specs import EARLIEST, LATEST
from chronik.wire.records import Record

PARTITION_DIRECTORY = re.compile(r"(?P<topic>.+)-(?P<partition>[0-9]+)")
DOOMED = "-delete"  # suffix of a log directory that is about to be removed

NO_LEAKS = "25 nothing is left of topics that are gone"


class RecreatedScenario(RecordsScenario):
    """Like records; meanwhile operators recreate other topics with different partitions and configs."""

    name = "recreated"
    checkers: Sequence[type[Checker]] = RECREATED_CHECKERS
    weights = (*METADATA_WEIGHTS, Weight("full disk", 4, (300, 3000), (0, 4000)))
    # Checkpoints are rare enough that a node may fail twice before one, and several topics be recreated.
    brokers: ClassVar[dict[str, object]] = {**RecordsScenario.brokers, "log_retention_check_interval_ms": 1500}

    def build(self, world: World) -> SimCluster:
        """In half of the worlds snapshots are frequent: a node that was away for long gets one, and must infer
        deletions from topics missing in it."""
        random, brokers, raft_config = world.random("snapshots"), dict(self.brokers), RaftConfig()
        if random.random() < 0.5:
            brokers["metadata_log_max_record_bytes_between_snapshots"] = random.choice((1000, 4000))
            raft_config = RaftConfig(trailing_entries=random.choice((0, 5, 40)))
        programs = broker_programs(self.node_count, brokers, raft_config=raft_config)
        return SimCluster(world, self.node_count, programs, raft_directory="/data/raft")

    def draw_faults(self, world: World) -> list[Fault]:
        random = world.random("topics")
        changes = draw_changes(random, node_count=self.node_count, span_ms=self.fault_ms)
        return sorted([*super().draw_faults(world), *changes])

    def prepare(self, world: World, cluster: SimCluster) -> None:
        super().prepare(world, cluster)
        require(world, topic_operators.create_all(cluster).done, START_MS_MAX, "topics are created")

    def clients(self, cluster: SimCluster, history: History) -> Clients:
        random = cluster.world.random("pace of ids")
        by_id = TopicIdClients(
            cluster, history, writer_count=2, reader_count=2, think_ms=random.choice((*PACES_MS[:3], PACES_MS[0]))
        )
        return Together([super().clients(cluster, history), by_id])

    def has_recovered(self, cluster: SimCluster) -> bool:
        image = settled_image(cluster)
        if image is None or not all(task.done() for task in cluster.operators):
            return False
        return all(
            partition.leader != NO_LEADER and set(partition.isr) == set(partition.replicas)
            for topic in image.all_topics()
            for partition in topic.partitions
        )

    def repair(self, world: World, cluster: SimCluster) -> None:
        """No repair, only waiting: files of deleted topics must be removed soon."""

        def found() -> list[str]:
            image = existing(cluster)
            return [leak for machine in cluster.machines.values() for leak in leaks(machine, image)]

        if not world.run_until(lambda: not found(), within_ms=HEALED_MS_MAX):
            world.violated(NO_LEAKS, ", ".join(found()))

    def audit(self, world: World, cluster: SimCluster, history: History) -> None:
        super().audit(world, cluster, history)
        auditor = make_client(cluster, AUDITOR)

        async def look() -> None:
            routing = routing_of(cluster, auditor)
            for topic in existing(cluster).all_topics():
                for partition in range(len(topic.partitions)) if topic.name in NAMES else ():
                    await _read_all(history, auditor, routing, TopicPartition(topic.name, partition))
            await _ask_by_the_past(cluster, history, auditor, routing)
            await routing.close()

        run_in(world, auditor, look())


def draw_changes(random: Random, *, node_count: int, span_ms: int) -> list[Fault]:
    """Topics are recreated, often while a node is down that must find out later, or just before it goes down."""
    faults: list[Fault] = []
    for _ in range(random.randint(2, 6)):
        at_ms = random.randrange(span_ms)
        node, course = random.randint(1, node_count), random.random()
        if course < 0.35:  # a node is down meanwhile
            faults.append(_down(random, at_ms, node, (300, 2500)))
            at_ms += random.randint(0, 400)
        elif course < 0.7:  # a node fails during it, and again before it has finished cleaning up
            down_ms = at_ms + random.randint(0, 60)
            faults.append(_down(random, down_ms, node, (30, 150)))
            faults.append(_down(random, down_ms + random.randint(700, 2200), node, (30, 600)))
        for _ in range(random.choice((1, 1, 2))):
            faults.append(_change(random, "recreate", at_ms, node_count))
            at_ms += random.randint(0, 1200)
    configured_ms = [random.randrange(span_ms) for _ in range(random.randint(0, 4))]
    return faults + [_change(random, "configure", at_ms, node_count) for at_ms in configured_ms]


def _down(random: Random, at_ms: int, node: int, down_ms: tuple[int, int]) -> Fault:
    kind = random.choice(("kill", "power", "power at disk", "pause"))
    return Fault(at_ms, kind, node, random.randint(*down_ms), 0, random.randint(0, 20))


def _change(random: Random, kind: str, at_ms: int, node_count: int) -> Fault:
    node = random.choice((LEADER, *range(1, node_count + 1)))
    return Fault(at_ms, kind, node, random.randint(500, 4000), 0, random.randrange(1 << 30))


def leaks(machine: SimMachine, image: Image) -> list[str]:
    """Logs and directories on this machine that belong to no partition assigned to it. Excludes what recovery sets
    aside for inspection: a directory in which nothing was ever durable, one per name."""
    node = node_of(machine)
    if node is None:
        return []
    here = {
        (topic.topic_id, index): f"{topic.name}-{index}"
        for topic in image.all_topics()
        for index, partition in enumerate(topic.partitions)
        if machine.node_id in partition.replicas
    }
    found = [f"{machine} {log}" for log in node.logs.all() if (log.topic_id, log.partition) not in here]
    for name in machine.disk.names(node.logs.directory, with_page_cache=True):
        is_of_partition = PARTITION_DIRECTORY.fullmatch(name) is not None
        if name.endswith(DOOMED) or (is_of_partition and name not in here.values()):
            found.append(f"{machine} {name}")
    return found


async def _read_all(history: History, auditor: WireClient, routing: ClusterClient, at: TopicPartition) -> None:
    """Reads all of a partition, by the topic's id and by its name: only one topic has this name."""
    topic = await routing.topic(at.topic)
    key, leader_id = key_of(at.topic, topic.topic_id, at.partition), topic.partitions[at.partition].leader_id
    end = await _offset(routing, at, LATEST)
    for asked in (FetchTopic(topic_id=topic.topic_id, partitions=[]), FetchTopic(topic=at.topic, partitions=[])):
        offset, start = -1, 0
        while offset < end:
            if offset < start:  # the start may also move meanwhile: some topics have a short retention
                operation = history.invoke(auditor.name, host_of(leader_id), LOG_START, key)
                offset = start = await _offset(routing, at, EARLIEST)
                history.complete(operation, OK, start)
                continue
            found = await read(history, auditor, leader_id, key, asked, at.partition, offset)
            offset, start = (offset, offset + 1) if found is None else (found, start)


async def _offset(routing: ClusterClient, at: TopicPartition, when: int) -> int:
    found = (await look_up(routing, {at: when}))[at]
    if isinstance(found, ClientError):
        raise found
    return found.offset


async def _ask_by_the_past(cluster: SimCluster, history: History, auditor: WireClient, routing: ClusterClient) -> None:
    """Asks every node with all former ids that clients have used, and leaders with outdated epochs."""
    image = existing(cluster)
    for key in dict.fromkeys(each.key for each in history.operations if each.kind == "produce"):
        topic_id, partition = topic_id_of(key), int(key.rpartition("-")[2])
        if topic_id is None or image.topic(topic_id) is not None:
            continue
        asked = FetchTopic(topic_id=topic_id, partitions=[])
        sent = Sent(KnownTopic(key, topic_id, False, {}), partition, _STALE_BATCH, [])
        for node_id in cluster.machines:
            await read(history, auditor, node_id, key, asked, partition, 0, kind=STALE_READ)
            operation = history.invoke(auditor.name, host_of(node_id), STALE_PRODUCE, key)
            history.complete(operation, *await produce(auditor, sent, node_id))
    for name in NAMES:
        topic = image.topic_named(name)
        for index, state in enumerate(topic.partitions if topic is not None else ()):
            assert topic is not None
            asked = FetchTopic(topic_id=topic.topic_id, partitions=[])
            for epoch in (state.leader_epoch - 1, state.leader_epoch + 1):
                if epoch >= 0:
                    at, key = state.leader, key_of(name, topic.topic_id, index)
                    await read(history, auditor, at, key, asked, index, 0, leader_epoch=epoch, kind=STALE_READ)


_STALE_BATCH = batches.build([Record(0, 0, None, b"of the past")])
