"""Clients of recreated topics: they write and read by topic id, as newer clients do.

A writer sends one batch at a time, with idempotence, and retries with the same id and sequence, never with another id:
so each record belongs to one topic, and finding it elsewhere proves a fault. Clients learn ids from any node, and
sometimes keep using an outdated one. They judge nothing.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import NamedTuple

from chronik.client.errors import ClientError
from chronik.client.routing import ClusterClient
from chronik.client.topology import NO_LEADER, Topic
from chronik.sim.cluster import SimCluster
from chronik.sim.history import OK, REFUSED, UNKNOWN, History, Operation
from chronik.sim.programs import host_of
from chronik.sim.record_clients import read, routing_of
from chronik.sim.topic_operators import NAMES
from chronik.sim.wire_clients import PATIENCE_MS, ClientTasks, WireClient, make_client
from chronik.wire import batches
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.fetch import FetchTopic
from chronik.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from chronik.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from chronik.wire.records import Record

BY_ID = 13  # the first version of Produce that identifies topics by id
ATTEMPTS_MAX = 5
RETRY_S = 0.15
OLD_ID = 0.08  # how often a client uses an outdated id although it knows a newer one

OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER.name


def key_of(name: str, topic_id: bytes, partition: int) -> str:
    """The history's key for a partition of one topic id, distinct from other topics of the same name."""
    return f"{name}.{topic_id.hex()}-{partition}"


def topic_id_of(key: str) -> bytes | None:
    """None for a key of a topic that is identified by name."""
    _, dot, topic_id = key.rpartition("-")[0].rpartition(".")
    return bytes.fromhex(topic_id) if dot else None


class Sent(NamedTuple):
    """One batch in flight."""

    topic: Topic
    partition: int
    data: bytes
    operations: list[Operation]


class TopicIdClients:
    def __init__(
        self,
        cluster: SimCluster,
        history: History,
        *,
        writer_count: int,
        reader_count: int,
        think_ms: tuple[int, int],
    ) -> None:
        self.cluster, self.history, self.world = cluster, history, cluster.world
        self._writer_count, self._reader_count, self._think_ms = writer_count, reader_count, think_ms
        self._is_over = False
        self._tasks = ClientTasks(cluster.world)

    def begin(self) -> None:
        for number in range(1, self._writer_count + 1):
            client = make_client(self.cluster, f"id-writer-{number}")
            self._tasks.start(client, _Writer(self, client).work())
        for number in range(1, self._reader_count + 1):
            client = make_client(self.cluster, f"id-reader-{number}")
            self._tasks.start(client, self._read(client))

    def end(self) -> None:
        self._is_over = True

    @property
    def is_over(self) -> bool:
        return self._is_over

    @property
    def are_answered(self) -> bool:
        return self._tasks.are_done

    async def pause(self, random: Random) -> None:
        await asyncio.sleep(random.randint(*self._think_ms) / 1000)

    async def _read(self, client: WireClient) -> None:
        random = self.world.random(client.name)
        routing, known = routing_of(self.cluster, client), Known()
        places: dict[tuple[bytes, int], int] = {}
        while not self._is_over:
            await self.pause(random)
            topic = await known.choose(routing, random)
            if topic is None:
                continue
            partition = random.choice(list(topic.partitions))
            at = (topic.topic_id, partition)
            if random.random() < 0.15:
                places[at] = 0  # earlier records must still exist
            node_id, offset = random.choice(list(self.cluster.machines)), places.get(at, 0)
            key = key_of(topic.name, *at)
            asked = FetchTopic(topic_id=topic.topic_id, partitions=[])
            places[at] = await read(self.history, client, node_id, key, asked, partition, offset) or offset
        await routing.close()


class Known:
    """The topics that one client knows, by name, most recent last."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[bytes, Topic]] = {name: {} for name in NAMES}

    async def choose(self, routing: ClusterClient, random: Random) -> Topic | None:
        name = random.choice(NAMES)
        if random.random() < 0.4 or not self._topics[name]:
            await self.look(routing, name)
        topics = list(self._topics[name].values())
        if len(topics) > 1 and random.random() < OLD_ID:
            return random.choice(topics[:-1])
        return topics[-1] if topics else None

    async def look(self, routing: ClusterClient, name: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE_MS / 1000):
                found = (await routing.refresh([name])).topics.get(name)
        except (ClientError, TimeoutError):
            return
        if found is not None:
            self._topics[name].pop(found.topic_id, None)
            self._topics[name][found.topic_id] = found

    def again(self, topic: Topic) -> Topic:
        """The newest known state of the topic: its leaders may have changed."""
        return self._topics[topic.name][topic.topic_id]


class _Writer:
    def __init__(self, clients: TopicIdClients, client: WireClient) -> None:
        self._clients, self._client = clients, client
        self._random = clients.world.random(client.name)
        self._routing, self._known = routing_of(clients.cluster, client), Known()
        self._producer: tuple[int, int] | None = None  # id and epoch
        self._sequences: dict[tuple[bytes, int], int] = {}  # (topic id, partition): next sequence
        self._count = 0

    async def work(self) -> None:
        while not self._clients.is_over:
            await self._clients.pause(self._random)
            topic = await self._known.choose(self._routing, self._random)
            if topic is None or not await self._identify():
                continue
            await self._deliver(self._begin(topic, self._random.choice(list(topic.partitions))))
        await self._routing.close()

    async def _identify(self) -> bool:
        if self._producer is None:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
            try:
                connection = await self._client.to(self._random.choice(list(self._clients.cluster.machines)))
                answer = await connection.ask(request, InitProducerIdResponse, timeout_ms=PATIENCE_MS)
            except ClientError:
                return False
            if not answer.error_code:
                self._producer = (answer.producer_id, answer.producer_epoch)
        return self._producer is not None

    def _begin(self, topic: Topic, partition: int) -> Sent:
        assert self._producer is not None
        producer_id, producer_epoch = self._producer
        records, operations = [], []
        key = key_of(topic.name, topic.topic_id, partition)
        wall_ms = self._routing.clock.wall_ms()
        for index in range(self._random.choice((1, 1, 3))):
            self._count += 1
            value = f"{self._client.name}:{self._count}"
            records.append(Record(index, wall_ms, None, value.encode()))
            operations.append(self._clients.history.invoke(self._client.name, "-", "produce", key, value))
        data = batches.build(
            records,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=self._sequences.get((topic.topic_id, partition), 0),
        )
        return Sent(topic, partition, data, operations)

    async def _deliver(self, sent: Sent) -> None:
        status, result = REFUSED, object()
        for _ in range(ATTEMPTS_MAX):
            is_sure = status == REFUSED  # certain that no attempt has written anything
            status, result = await produce(self._client, sent, self._whom(sent))
            if status == OK or result == OUT_OF_ORDER:
                break
            if status == REFUSED and is_sure and self._random.random() < 0.5:
                break
            status = status if is_sure else UNKNOWN
            await asyncio.sleep(RETRY_S)
            await self._known.look(self._routing, sent.topic.name)
        at = (sent.topic.topic_id, sent.partition)
        if status == OK:
            self._sequences[at] = self._sequences.get(at, 0) + len(sent.operations)
        elif status == UNKNOWN or result == OUT_OF_ORDER:
            self._producer = None  # whether the sequence has a gap is unknown
            self._sequences.clear()
        for index, operation in enumerate(sent.operations):
            operation.node = host_of(self._whom(sent))
            told = result + index if isinstance(result, int) else result
            self._clients.history.complete(operation, status, told)

    def _whom(self, sent: Sent) -> int:
        """The last known leader; without one, a node that would have to refuse."""
        leader_id = self._known.again(sent.topic).partitions[sent.partition].leader_id
        return leader_id if leader_id != NO_LEADER else 1 + sent.partition % len(self._clients.cluster.machines)


async def produce(client: WireClient, sent: Sent, node_id: int) -> tuple[str, object]:
    """One request to one node; returns the first offset, or the failure."""
    data = PartitionProduceData(index=sent.partition, records=sent.data)
    topic = TopicProduceData(topic_id=sent.topic.topic_id, partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=PATIENCE_MS, topic_data=[topic])
    try:
        connection = await client.to(node_id)
        answer = await connection.ask(request, ProduceResponse, version_min=BY_ID, timeout_ms=PATIENCE_MS)
    except ClientError as error:
        return UNKNOWN, type(error).__name__
    told = answer.responses[0].partition_responses[0]
    if not told.error_code:
        return OK, told.base_offset
    code = ErrorCode.of(told.error_code)
    return REFUSED if code is ErrorCode.UNKNOWN_TOPIC_ID else UNKNOWN, code.name
