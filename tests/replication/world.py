"""A cluster of replicas in one process and in virtual time: real logs, sessions, fetchers; simulated disks and wires.

The controller is the real decisions on one image; every node gets each image later, in order, and may be cut off from
it, from its peers, or from power. `Model` knows what must hold whatever happens and is asked after every step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, cast

from chronik.broker.image_directory import ImageDirectory
from chronik.metadata.commands.alter_partition import AlterPartition
from chronik.metadata.commands.broker_heartbeat import BrokerHeartbeat
from chronik.metadata.commands.command import ControllerCommand
from chronik.metadata.commands.create_topics import ConfigValue, CreateTopics, NewTopic, PartitionReplicas
from chronik.metadata.commands.fence_broker import FenceBroker
from chronik.metadata.commands.register_broker import EndpointAt, RegisterBroker, SupportedFeature
from chronik.metadata.commands.report_lost_replicas import ReportLostReplicas
from chronik.metadata.decisions.decision import ControllerState, Rules
from chronik.metadata.decisions.elections import ELR_FEATURE
from chronik.metadata.delta import Changes
from chronik.metadata.errors import MetadataRefused, NotController
from chronik.metadata.image import EMPTY, Image, Partition
from chronik.metadata.records import FeatureLevelRecord, MetadataRecord
from chronik.metadata.replay import replay_onto
from chronik.replication.assignment import Replicas
from chronik.replication.fetcher import FetchConfig, Fetcher, Fetchers
from chronik.replication.full_replicas import FullReplicas
from chronik.replication.isr_changes import IsrChanges
from chronik.replication.lost_replicas import LostReplicas
from chronik.replication.replica import Replica
from chronik.replication.topic_settings import TopicSettings
from chronik.runtime.interfaces import Runtime
from chronik.runtime.tasks import Tasks
from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig, LogsConfig
from chronik.storage.logs import Logs
from chronik.wire.batches import build, split
from chronik.wire.records import Record
from tests.raft.virtual_time import LoopClock, SeededRandomness
from tests.replication.model import KEY, TOPIC, TOPIC_ID, Model
from tests.replication.wires import Wires

LAG_MS_MAX = 2_000
SESSION_S = 1.0  # a broker without a heartbeat for this long is fenced
LISTENER = "PLAINTEXT"


class Controller:
    """Decides at once, and every decision is committed. Nodes learn of it when the message arrives."""

    def __init__(self, world: World, *, replicas: int, min_insync: int, elr: bool, unclean: bool) -> None:
        self.world = world
        self.history: list[tuple[Image, Image, Changes]] = []
        self.image: Image = EMPTY
        self.rules = Rules()
        if elr:
            self._commit([FeatureLevelRecord(name=ELR_FEATURE, level=1)])
        self._placed = list(range(1, replicas + 1))
        self._configs = [
            ConfigValue(key="min.insync.replicas", value=str(min_insync)),
            ConfigValue(key="unclean.leader.election.enable", value=str(unclean).lower()),
        ]

    def create_topic(self) -> None:
        topic = NewTopic(
            name=TOPIC,
            topic_id=TOPIC_ID,
            partition_count=-1,
            replication_factor=-1,
            assignments=[PartitionReplicas(index=0, broker_ids=self._placed)],
            configs=self._configs,
        )
        reply = self.decide(CreateTopics(topics=[topic]))
        assert not reply.topics[0].error_code, reply.topics[0].error_message

    def decide(self, command: ControllerCommand[Any]) -> Any:
        decision = command.decide(ControllerState(self.image, self.rules))
        self._commit(decision.records)
        return decision.reply

    def _commit(self, records: list[MetadataRecord]) -> None:
        if not records:
            return
        before = self.image
        self.image, changes = replay_onto(before, before.version + 1, records)
        self.history.append((before, self.image, changes))
        self.world.controller_decided(before, self.image)

    @property
    def partition(self) -> Partition:
        topic = self.image.topics[TOPIC_ID]
        return topic.partitions[0]


class Node:
    """One broker: made by `start`, gone by `crash`; its disk outlives it."""

    def __init__(self, world: World, node_id: int, disk: SimDisk, directory_id: bytes) -> None:
        self.world, self.node_id, self.disk, self.directory_id = world, node_id, disk, directory_id
        self.image: Image = EMPTY
        self.applied_count = 0  # of the controller's history
        self.broker_epoch, self.incarnation_id = -1, b""
        self.has_begun = False
        self.logs: Logs
        self.replicas: Replicas
        self.tasks = Tasks(f"node {node_id}", self._failed)
        self.heard_s = 0.0  # when the controller last heard of it

    async def start(self, applied_count: int) -> None:
        world = self.world
        runtime = Runtime(LoopClock(), self.disk, world.wires.of(self.node_id), SeededRandomness(world.draw(1 << 30)))
        self.logs = await Logs.open(runtime, "/data", LogsConfig(), lambda failure: world.broke(failure))
        full = FullReplicas(
            runtime.clock,
            node_id=self.node_id,
            submit=self._submit,
            broker_epoch=lambda: self.broker_epoch,
            free_bytes=lambda: self.disk.free_bytes("/data"),
            total_bytes=lambda: self.disk.total_bytes("/data"),
        )
        isr_changes = IsrChanges(
            self.node_id,
            runtime.clock,
            submit=self._submit,
            image=lambda: self.image,
            broker_epoch=lambda: self.broker_epoch,
            lag_ms_max=LAG_MS_MAX,
            full=full,
        )
        config = FetchConfig(partition_bytes_max=world.choose([150, 400, 1 << 20]), retry_ms=100)
        fetchers = Fetchers(
            lambda leader_id: Fetcher(
                self.node_id,
                leader_id,
                runtime.network,
                config,
                address_of=ImageDirectory(lambda: self.image, lambda: LISTENER).address_of,
                broker_epoch=lambda: self.broker_epoch,
                incarnation_id=lambda: self.incarnation_id,
            ),
            lambda name, fetcher: self.tasks.start(name, fetcher.run()),
        )
        self.replicas = Replicas(
            self.node_id,
            self.logs,
            lambda image, topic: world.settings,
            clock=runtime.clock,
            randomness=runtime.randomness,
            keeper=isr_changes,
            fetchers=fetchers,
            losses=(losses := LostReplicas(self.node_id, submit=self._submit, broker_epoch=lambda: self.broker_epoch)),
            full=full,
        )
        self.tasks.start("without space", full.run())
        self.tasks.start("space", full.watch())
        self.tasks.start("losses", losses.run())
        self.tasks.start("isr", isr_changes.run())
        self.tasks.start("lag", isr_changes.watch(self.replicas.all))
        while self.applied_count < applied_count:
            self._apply_next()
        self.tasks.start("images", self._hear_images())
        self.tasks.start("joining", self._join())

    async def _hear_images(self) -> None:
        world = self.world
        while True:
            await asyncio.sleep(world.draw(30) / 1000)
            while self.applied_count < len(world.controller.history) and world.wires.reaches(self.node_id, 0):
                self._apply_next()
                await asyncio.sleep(world.draw(20) / 1000)

    def _apply_next(self) -> None:
        _, self.image, changes = self.world.controller.history[self.applied_count]
        self.applied_count += 1
        changed = [*changes.topics_added, *(topic for _, topic in changes.topics_changed)]
        for log in self.replicas.follow(self.image, changed, changes.topics_removed, changes.brokers):
            self.tasks.start("delete", self.logs.delete(log))

    async def _join(self) -> None:
        """Registers, believes the image once it shows that, and keeps saying that it is alive."""
        world = self.world
        self.incarnation_id = world.random.randbytes(16)
        command = RegisterBroker(
            broker_id=self.node_id,
            cluster_id="",
            incarnation_id=self.incarnation_id,
            endpoints=[EndpointAt(name=LISTENER, host=str(self.node_id), port=1)],
            features=[SupportedFeature(name=ELR_FEATURE, level_min=0, level_max=1)],
            directory_ids=[self.directory_id],
        )
        while not world.wires.reaches(self.node_id, 0):
            await asyncio.sleep(0.05)
        self.broker_epoch = world.controller.decide(command).broker_epoch
        world.wiped.discard(self.node_id)
        while (own := self.image.brokers.get(self.node_id)) is None or own.epoch != self.broker_epoch:
            await asyncio.sleep(0.01)
        self.has_begun = True
        self.replicas.begin(self.image)
        while self.replicas.begin_more():
            await asyncio.sleep(0.01)
        while True:
            if world.wires.reaches(self.node_id, 0):
                self.heard_s = asyncio.get_running_loop().time()
                world.controller.decide(BrokerHeartbeat(broker_id=self.node_id, broker_epoch=self.broker_epoch))
            await asyncio.sleep(0.1)

    async def _submit(self, command: AlterPartition | ReportLostReplicas) -> Any:
        world = self.world
        await asyncio.sleep(world.draw(40) / 1000)
        if not world.wires.reaches(self.node_id, 0):
            raise NotController(None)
        reply = world.controller.decide(command)
        version = len(world.controller.history)
        await asyncio.sleep(world.draw(40) / 1000)
        if not world.wires.reaches(self.node_id, 0) or world.draw(8) == 0:
            raise NotController(None)  # the command was applied, which this node does not know
        while self.applied_count < version:
            await asyncio.sleep(0.005)
        return reply

    def __repr__(self) -> str:
        replica = self.replica
        image = self.image.topics.get(TOPIC_ID)
        held = "nothing" if replica is None else f"{replica.log}, high watermark {replica.high_watermark}"
        return f"{held}; image {image and image.partitions[0]}"

    @property
    def replica(self) -> Replica | None:
        return self.replicas.opened(KEY) if self.has_begun else None

    def crash(self, *, power_cut: bool) -> SimDisk:
        self.world.wires.drop(self.node_id)
        for task in list(self.tasks._running):
            task.cancel()
        self.replicas.end()
        return self.disk.power_cut() if power_cut else self.disk.process_killed()

    def _failed(self, name: str, error: Exception) -> None:
        self.world.broke(error)


class World:
    def __init__(
        self,
        seed: int = 0,
        *,
        replicas: int = 3,
        spare: int = 0,
        min_insync: int = 1,
        elr: bool = False,
        unclean: bool = False,
        durability: str = "fsync",
    ) -> None:
        self.random = Random(seed)
        self.failure: BaseException | None = None
        self.wires = Wires(self)
        self.nodes: dict[int, Node] = {}
        self.dead: dict[int, tuple[SimDisk, bytes, int]] = {}  # disk, its id, images applied
        self.wiped: set[int] = set()  # nodes whose disk is new and of which the controller does not know it yet
        self.model = Model(self, is_lossy=unclean)
        log_config = LogConfig(durability=durability, segment_bytes=self.choose([600, 1 << 20]))
        self.settings = TopicSettings(log_config, min_insync, "producer", None)
        self.controller = Controller(self, replicas=replicas, min_insync=min_insync, elr=elr, unclean=unclean)
        self.node_ids = range(1, replicas + spare + 1)
        self.produced_count = 0
        asyncio.get_running_loop().set_exception_handler(self._unseen)

    def draw(self, bound: int) -> int:
        return self.random.randrange(bound)

    def choose(self, of: list[Any]) -> Any:
        return self.random.choice(of)

    def broke(self, failure: BaseException) -> None:
        self.failure = self.failure or failure

    def _unseen(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and type(error).__name__ != "PowerCut":
            self.broke(error)

    def controller_decided(self, before: Image, after: Image) -> None:
        self.model.elected(before, after)

    # --- steps of a story

    async def begin(self) -> None:
        for node_id in self.node_ids:
            await self.start(node_id)
        await self.until(lambda: len(self.controller.image.live_brokers) == len(self.node_ids))
        self.controller.create_topic()
        asyncio.get_running_loop().create_task(self._watch_sessions())
        await self.until(lambda: all(KEY[0] in node.image.topics for node in self.nodes.values()))

    async def start(self, node_id: int, *, wiped: bool = False) -> Node:
        disk, directory_id, applied_count = self.dead.pop(node_id, (None, b"", 0))
        if disk is None or wiped:
            disk, directory_id, applied_count = SimDisk(self.draw(1 << 60)), self.random.randbytes(16), 0
            self.wiped.add(node_id)
        disk.delay_s = self.choose([0.0005, 0.003, 0.02])
        node = self.nodes[node_id] = Node(self, node_id, disk, directory_id)
        node.heard_s = asyncio.get_running_loop().time()
        # The metadata log of a node that was down may be older than its last known state, never newer.
        await node.start(self.draw(applied_count + 1))
        return node

    def may_lose_its_disk(self, node_id: int) -> bool:
        """Others may be elected and it may not: losing what may be the last complete copy is beyond any promise."""
        state = self.controller.partition
        return bool(state.isr) and node_id not in state.isr + state.elr

    def crash(self, node_id: int, *, power_cut: bool = True) -> None:
        self.model.note_durable(node_id)
        node = self.nodes.pop(node_id)
        self.dead[node_id] = (node.crash(power_cut=power_cut), node.directory_id, node.applied_count)

    async def _watch_sessions(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            now_s = asyncio.get_running_loop().time()
            for broker in list(self.controller.image.brokers.values()):
                node = self.nodes.get(broker.broker_id)
                is_heard = node is not None and node.broker_epoch == broker.epoch and now_s - node.heard_s < SESSION_S
                if not broker.fenced and not is_heard:
                    command = FenceBroker(broker_id=broker.broker_id, broker_epoch=broker.epoch)
                    try:
                        self.controller.decide(command)
                    except MetadataRefused as refused:
                        self.broke(refused)

    def heal(self) -> None:
        self.wires.cut.clear()

    def produce(self, node: Node, *, acks_all: bool = True) -> asyncio.Future[None] | None:
        """Sends one batch to a node that believes it leads. The model records acknowledged batches."""
        replica = self._leading(node)
        if replica is None:
            return None
        count = 1 + self.draw(3)
        values = [b"%d" % (self.produced_count + at) + b"." * self.draw(60) for at in range(count)]
        self.produced_count += count
        made = [Record(at, 1_700_000_000_000, None, value, ()) for at, value in enumerate(values)]
        try:
            replica.require_leader()
            if acks_all:
                replica.require_in_sync()
            appended = replica.append(split(memoryview(build(made)))[0], now_ms=1_700_000_000_000)
        except self.replicas_refusals:
            return None
        if not acks_all:
            replica.start_commit()
            return None
        committed = replica.when_committed(appended.last_offset + 1, 5_000)
        if committed is None:
            self.model.acknowledged(node, appended.first_offset, values)
        else:
            committed.add_done_callback(
                lambda done: (
                    self.model.acknowledged(node, appended.first_offset, values)
                    if done.exception() is None and self.nodes.get(node.node_id) is node
                    else None
                )
            )
        return committed

    replicas_refusals = Replicas.refusals

    def _leading(self, node: Node) -> Replica | None:
        topic = node.image.topics.get(TOPIC_ID)
        if not node.has_begun or topic is None or topic.partitions[0].leader != node.node_id:
            return None
        return node.replicas.get(topic, 0)

    @property
    def leader(self) -> Node | None:
        """The leader that the controller has elected, if it knows of it."""
        node = self.nodes.get(self.controller.partition.leader)
        return node if node is not None and self._leading(node) is not None else None

    async def until(self, holds: Callable[[], bool], within_s: float = 60.0) -> None:
        async with asyncio.timeout(within_s):
            while not holds():
                await asyncio.sleep(0.01)
                self.check()
        self.check()

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure
        self.model.check()

    async def settle(self) -> None:
        """All nodes are back: within ten seconds all replicas are in sync and everything is committed everywhere
        (25)."""
        self.heal()
        for node_id in list(self.dead):
            await self.start(node_id)
        try:
            await self.until(self._is_settled, within_s=15)
        except TimeoutError:
            raise AssertionError(f"not settled: {self.controller.partition} {self.nodes}") from None

    def _is_settled(self) -> bool:
        state = self.controller.partition
        if set(state.isr) != set(state.replicas) or state.adding or state.removing or self.leader is None:
            return False
        replicas = [cast(Replica, node.replica) for node in self.nodes.values() if node.replica is not None]
        ends = {replica.log.end_offset for replica in replicas} | {replica.high_watermark for replica in replicas}
        return len(ends) <= 1
