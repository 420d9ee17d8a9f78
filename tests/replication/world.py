"""A cluster of replicas in one process and in virtual time: real logs, sessions, fetchers; simulated disks and wires.

The controller is the real decisions on one image; every node gets each image later, in order, and may be cut off from
it, from its peers, or from power. `Model` knows what must hold whatever happens and is asked after every step.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, cast

from chronik.metadata.commands import (
    AlterPartition,
    BrokerHeartbeat,
    Command,
    ConfigValue,
    CreateTopics,
    EndpointAt,
    FenceBroker,
    NewTopic,
    PartitionReplicas,
    RegisterBroker,
    SupportedFeature,
)
from chronik.metadata.controller import DECISIONS
from chronik.metadata.decisions.brokers import register_broker
from chronik.metadata.decisions.decision import Rules
from chronik.metadata.decisions.elections import ELR_FEATURE
from chronik.metadata.delta import Changes
from chronik.metadata.errors import MetadataRefused, NotController
from chronik.metadata.image import EMPTY, Image, Partition
from chronik.metadata.records import FeatureLevelRecord, Record
from chronik.metadata.replay import replay_onto
from chronik.replication.assignment import Replicas
from chronik.replication.fetcher import FetchConfig, Fetcher, Fetchers
from chronik.replication.isr_changes import IsrChanges
from chronik.replication.link import FETCH_VERSION, REQUEST_HEADER_VERSION, RESPONSE_HEADER_VERSION
from chronik.replication.replica import Replica
from chronik.replication.topic_settings import TopicSettings
from chronik.runtime.interfaces import Runtime
from chronik.runtime.tasks import Tasks
from chronik.sim.disk import SimDisk
from chronik.storage.config import LogConfig, LogsConfig
from chronik.storage.logs import Logs
from chronik.wire.batches import build, split
from chronik.wire.compiler import decoder_of, encoder_of
from chronik.wire.headers import RequestHeader, ResponseHeader
from chronik.wire.messages.fetch import FetchRequest, FetchResponse
from chronik.wire.records import Record as LogRecord
from chronik.wire.records import iterate
from tests.raft.virtual_time import LoopClock, SeededRandomness

TOPIC, TOPIC_ID = "orders", b"orders".ljust(16, b".")
KEY = (TOPIC_ID, 0)
LAG_MS_MAX = 2_000
SESSION_S = 1.0  # a broker that the controller does not hear this long is fenced
LISTENER = "PLAINTEXT"


class Controller:
    """Decides at once; what it decided is committed. Nodes hear of it when their messenger gets there."""

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

    def decide(self, command: Command) -> Any:
        if isinstance(command, RegisterBroker):
            decision: Any = register_broker(self.image, command, self.rules, session_alive=False)
        else:
            decision = DECISIONS[type(command)](self.image, command, self.rules)
        self._commit(decision.records)
        return decision.reply

    def _commit(self, records: list[Record]) -> None:
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
        self.broker_epoch = -1
        self.has_begun = False
        self.logs: Logs
        self.replicas: Replicas
        self.tasks = Tasks(f"node {node_id}", self._failed)
        self.heard_s = 0.0  # when the controller last heard of it

    async def start(self, applied_count: int) -> None:
        world = self.world
        runtime = Runtime(LoopClock(), self.disk, world.wires.of(self.node_id), SeededRandomness(world.draw(1 << 30)))
        self.logs = await Logs.open(runtime, "/data", LogsConfig(), lambda failure: world.broke(failure))
        isr_changes = IsrChanges(
            self.node_id,
            runtime.clock,
            submit=self._submit,
            image=lambda: self.image,
            broker_epoch=lambda: self.broker_epoch,
            lag_ms_max=LAG_MS_MAX,
        )
        config = FetchConfig(partition_bytes_max=world.choose([150, 400, 1 << 20]), retry_ms=100)
        fetchers = Fetchers(
            lambda leader_id: Fetcher(
                self.node_id,
                leader_id,
                runtime.network,
                config,
                endpoint_of=lambda broker_id: self.image.brokers[broker_id].endpoint(LISTENER),
                broker_epoch=lambda: self.broker_epoch,
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
        )
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
        self.replicas.follow(self.image, changed, changes.topics_removed, changes.brokers)

    async def _join(self) -> None:
        """Registers, believes the image once it shows that, and keeps saying that it is alive."""
        world = self.world
        command = RegisterBroker(
            broker_id=self.node_id,
            cluster_id="",
            incarnation_id=world.random.randbytes(16),
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
        while True:
            if world.wires.reaches(self.node_id, 0):
                self.heard_s = asyncio.get_running_loop().time()
                world.controller.decide(BrokerHeartbeat(broker_id=self.node_id, broker_epoch=self.broker_epoch))
            await asyncio.sleep(0.1)

    async def _submit(self, command: AlterPartition) -> Any:
        world = self.world
        await asyncio.sleep(world.draw(40) / 1000)
        if not world.wires.reaches(self.node_id, 0):
            raise NotController(None)
        reply = world.controller.decide(command)
        version = len(world.controller.history)
        await asyncio.sleep(world.draw(40) / 1000)
        if not world.wires.reaches(self.node_id, 0) or world.draw(8) == 0:
            raise NotController(None)  # carried out, and nobody here knows
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


class Wires:
    """Connections between nodes, and between nodes and the controller, which is node 0."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.cut: set[frozenset[int]] = set()
        self._open: list[_Wire] = []

    def reaches(self, one: int, other: int) -> bool:
        return frozenset((one, other)) not in self.cut

    def separate(self, one: int, other: int) -> None:
        self.cut.add(frozenset((one, other)))
        for wire in [each for each in self._open if {each.client_id, each.server_id} == {one, other}]:
            wire.lose()

    def drop(self, node_id: int) -> None:
        for wire in [each for each in self._open if node_id in (each.client_id, each.server_id)]:
            wire.lose()

    def of(self, node_id: int) -> Any:
        return _Network(self, node_id)

    def connect(self, client_id: int, server_id: int, protocol: Any) -> _Wire:
        if server_id not in self.world.nodes or not self.reaches(client_id, server_id):
            raise OSError(111, f"node {server_id} cannot be reached")
        wire = _Wire(self.world, client_id, server_id, protocol)
        self._open.append(wire)
        protocol.connection_made(wire)
        return wire

    def forget(self, wire: _Wire) -> None:
        if wire in self._open:
            self._open.remove(wire)


class _Network:
    def __init__(self, wires: Wires, node_id: int) -> None:
        self._wires, self._node_id = wires, node_id

    async def connect(self, host: str, port: int, factory: Callable[[], Any]) -> Any:
        await asyncio.sleep(self._wires.world.draw(5) / 1000)
        protocol = factory()
        return self._wires.connect(self._node_id, int(host), protocol), protocol


class _Wire:
    """A TCP connection, and the leader's end of it: requests are answered in order."""

    def __init__(self, world: World, client_id: int, server_id: int, protocol: Any) -> None:
        self.world, self.client_id, self.server_id, self._protocol = world, client_id, server_id, protocol
        self._server = world.nodes[server_id]
        self._is_open = True
        self._replies: deque[tuple[int, Any]] = deque()
        self._last_s = 0.0

    def write(self, data: bytes) -> None:
        self._later(lambda: self._serve(memoryview(bytearray(data))[4:]))

    def abort(self) -> None:
        self.lose()

    def lose(self) -> None:
        if self._is_open:
            self._is_open = False
            self.world.wires.forget(self)
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    def _later(self, action: Callable[[], None]) -> None:
        """In order, each with a delay of its own."""
        loop = asyncio.get_running_loop()
        self._last_s = max(self._last_s, loop.time() + self.world.draw(4000) / 1e6)
        loop.call_at(self._last_s, lambda: action() if self._is_open else None)

    def _serve(self, frame: memoryview) -> None:
        header, at = decoder_of(RequestHeader, REQUEST_HEADER_VERSION)(frame)
        request, _ = decoder_of(FetchRequest, FETCH_VERSION)(frame, at)
        try:
            answer = self._server.replicas.sessions.fetch(request)
        except Exception as fault:  # noqa: BLE001 - a node that meets this would stop
            self.world.broke(fault)
            return
        self._replies.append((header.correlation_id, answer))
        if isinstance(answer, asyncio.Future):
            answer.add_done_callback(lambda _: self._flush())
        else:
            self._flush()

    def _flush(self) -> None:
        while self._replies:
            number, answer = self._replies[0]
            if isinstance(answer, asyncio.Future):
                if not answer.done():
                    return
                answer = answer.result()
            self._replies.popleft()
            parts: list[Any] = [b""]
            encoder_of(ResponseHeader, RESPONSE_HEADER_VERSION)(ResponseHeader(correlation_id=number), parts)
            encoder_of(FetchResponse, FETCH_VERSION)(answer, parts)
            body = b"".join(parts)
            self._later(partial(self._deliver, len(body).to_bytes(4, "big") + body))

    def _deliver(self, data: bytes) -> None:
        view = memoryview(data)
        while view and self._is_open:
            room = self._protocol.get_buffer(-1)
            count = min(len(room), len(view))
            room[:count] = view[:count]
            self._protocol.buffer_updated(count)
            view = view[count:]


class World:
    def __init__(
        self,
        seed: int = 0,
        *,
        replicas: int = 3,
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
        self.model = Model(self)
        log_config = LogConfig(durability=durability, segment_bytes=self.choose([600, 1 << 20]))
        self.settings = TopicSettings(log_config, min_insync, "producer", None)
        self.controller = Controller(self, replicas=replicas, min_insync=min_insync, elr=elr, unclean=unclean)
        self.replica_ids = range(1, replicas + 1)
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

    # --- what a story does

    async def begin(self) -> None:
        for node_id in self.replica_ids:
            await self.start(node_id)
        await self.until(lambda: len(self.controller.image.live_brokers) == len(self.replica_ids))
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
        # The metadata log of a node that was down may be older than what it had seen: never newer.
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
        """One batch to whoever thinks it leads. What was acknowledged is in the model."""
        replica = self._leading(node)
        if replica is None:
            return None
        count = 1 + self.draw(3)
        values = [b"%d" % (self.produced_count + at) + b"." * self.draw(60) for at in range(count)]
        self.produced_count += count
        made = [LogRecord(at, 1_700_000_000_000, None, value, ()) for at, value in enumerate(values)]
        try:
            replica.require_leader()
            if acks_all:
                replica.require_in_sync()
            appended = replica.append(split(memoryview(build(made))), now_ms=1_700_000_000_000)
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
        """Whom the controller has elected, if it knows of it."""
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
        """Everybody is back: within ten seconds all are in sync and everything is committed everywhere (25)."""
        self.heal()
        for node_id in list(self.dead):
            await self.start(node_id)
        try:
            await self.until(self._is_settled, within_s=15)
        except TimeoutError:
            raise AssertionError(f"not settled: {self.controller.partition} {self.nodes}") from None

    def _is_settled(self) -> bool:
        state = self.controller.partition
        if set(state.isr) != set(self.replica_ids) or self.leader is None:
            return False
        replicas = [cast(Replica, node.replica) for node in self.nodes.values() if node.replica is not None]
        ends = {replica.log.end_offset for replica in replicas} | {replica.high_watermark for replica in replicas}
        return len(ends) <= 1


class Model:
    """Knows what was promised. Invariants by their numbers in DESIGN's list of promises to clients and to itself."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.acked: dict[int, bytes] = {}  # offset -> value
        self.committed: dict[int, tuple[int, bytes]] = {}  # offset -> (epoch, value), once any reader could see it
        self._seen: dict[tuple[int, int], int] = {}  # (node, broker epoch) -> high watermark looked at
        self._durable: dict[int, int] = {}  # node -> durable end, also of dead nodes
        self.is_lossy = False  # unclean elections are allowed: only histories are checked

    def acknowledged(self, node: Node, offset: int, values: list[bytes]) -> None:
        for at, value in enumerate(values):
            known = self.acked.setdefault(offset + at, value)
            assert known == value, f"offset {offset + at} was acknowledged twice: {known!r} and {value!r}"
        if not self.is_lossy:
            self.look_at_durability(offset + len(values))

    def look_at_durability(self, end_offset: int) -> None:
        """Acknowledged means: fsynced on every member of the ISR, alive or dead (10)."""
        for broker_id in self._world.controller.partition.isr:
            if broker_id in self._world.wiped:
                continue
            self.note_durable(broker_id)
            held = self._durable.get(broker_id, 0)
            assert held >= end_offset, f"acknowledged up to {end_offset}, but broker {broker_id} holds {held}"

    def note_durable(self, node_id: int) -> None:
        node = self._world.nodes.get(node_id)
        if node is not None and hasattr(node, "logs"):
            log = node.logs.get(*KEY)
            self._durable[node_id] = log.durable_offset if log is not None else 0

    def elected(self, before: Image, after: Image) -> None:
        old, new = before.topics.get(TOPIC_ID), after.topics.get(TOPIC_ID)
        if old is None or new is None or old == new:
            return
        was, now = old.partitions[0], new.partitions[0]
        assert now.leader_epoch >= was.leader_epoch
        if now.leader != was.leader:
            assert now.leader_epoch == was.leader_epoch + 1, "an epoch belongs to one leader (11)"
            assert now.leader < 0 or now.leader in now.isr
            if now.leader >= 0 and not self.is_lossy:
                assert now.leader in was.isr + was.elr, "a leader comes from the ISR (11)"

    def check(self) -> None:
        for node in self._world.nodes.values():
            replica = node.replica
            if replica is None:
                continue
            key = (node.node_id, node.broker_epoch)
            before = self._seen.get(key, -1)
            if self.is_lossy:
                before = min(before, replica.high_watermark)
            assert replica.high_watermark >= before, "a high watermark never goes back (10)"
            assert replica.high_watermark <= replica.log.end_offset
            if replica.high_watermark > before:
                self._seen[key] = replica.high_watermark
                self._look_at(replica, max(before, 0))

    def _look_at(self, replica: Replica, from_offset: int) -> None:
        """What became readable is the only value its offset ever has (8), and holds what was acknowledged (7)."""
        for offset, epoch, value in records_of(replica, from_offset, replica.high_watermark):
            known = self.committed.get(offset)
            if self.is_lossy:
                self.committed[offset] = (epoch, value)
                continue
            assert known in (None, (epoch, value)), f"offset {offset} was {known}, now {(epoch, value)}"
            self.committed[offset] = (epoch, value)

    def check_end(self) -> None:
        """When all is settled: nothing acknowledged is missing (7), all replicas are equal (9) and in order (12)."""
        world = self._world
        logs = [node.replica for node in world.nodes.values() if node.replica is not None]
        if not logs:
            assert not self.acked
            return
        contents = [b"".join(bytes(piece) for piece in bytes_of(each)) for each in logs]
        assert len(set(contents)) == 1, "replicas differ below the high watermark (9)"
        found = {offset: value for offset, _, value in records_of(logs[0], 0, logs[0].log.end_offset)}
        if not self.is_lossy:
            lost = {offset: value for offset, value in self.acked.items() if found.get(offset) != value}
            assert not lost, f"acknowledged and lost or changed (7): {lost}"
        numbers = [int(found[offset].rstrip(b".")) for offset in sorted(found)]
        assert numbers == sorted(numbers), "a producer's records stand in its order (12)"
        epochs = [epoch for _, epoch, _ in records_of(logs[0], 0, logs[0].log.end_offset)]
        assert epochs == sorted(epochs), "epochs rise along the log"


def bytes_of(replica: Replica) -> list[memoryview]:
    pieces, offset, log = [], replica.log.start_offset, replica.log
    while offset < log.end_offset:
        found = log.read(offset, bytes_max=1 << 20, offset_limit=log.end_offset)
        pieces += found.buffers
        offset = found.next_offset
    return pieces


def records_of(replica: Replica, from_offset: int, to_offset: int) -> list[tuple[int, int, bytes]]:
    """(offset, leader epoch, value) of what lies between."""
    found, log = [], replica.log
    offset = max(from_offset, log.start_offset)
    while offset < to_offset:
        read = log.read(offset, bytes_max=1 << 20, offset_limit=to_offset)
        for piece in read.buffers:
            for batch in split(piece):
                found += [
                    (record.offset, batch.partition_leader_epoch, bytes(record.value or b""))
                    for record in iterate(batch, 1 << 20)
                    if from_offset <= record.offset < to_offset
                ]
        offset = read.next_offset
    return found
