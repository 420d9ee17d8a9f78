"""Clients of partitions: producers with acks=all, readers that fetch from any node, and one that commits offsets.

Producers are the product's own, with idempotence. Every value is sent only once, so a record identifies its producer.
Readers ask one node directly and accept its answer, leader or follower. What they read goes into the history as `read`
operations of (offset, value). The clients judge nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from chronik.client.addresses import Address
from chronik.client.admin import offsets as group_offsets
from chronik.client.batching import Delivery
from chronik.client.errors import ClientError
from chronik.client.producer import Producer
from chronik.client.routing import ClusterClient
from chronik.client.topology import TopicPartition
from chronik.runtime.interfaces import Runtime
from chronik.sim.clock import SimClock
from chronik.sim.cluster import SimCluster
from chronik.sim.disk import SimDisk
from chronik.sim.history import OK, UNKNOWN, History, Operation
from chronik.sim.programs import BROKER_PORT, host_of
from chronik.sim.randomness import SimRandomness
from chronik.sim.wire_clients import PATIENCE_MS, ClientTasks, WireClient, make_client
from chronik.wire.batches import crc_holds, split
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import WireError
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from chronik.wire.notation import VERSION_MAX, ZERO_UUID
from chronik.wire.records import iterate

TOPIC, GROUP = "orders", "readers"
COMMITTED_AT = TopicPartition(TOPIC, 0)
DELIVERY_MS = 6000
FETCH_BYTES = 1 << 16
NAMES = 12  # the last version of Fetch that identifies topics by name


class RecordClients:
    def __init__(
        self,
        cluster: SimCluster,
        history: History,
        *,
        partition_count: int,
        producer_count: int,
        reader_count: int,
        think_ms: tuple[int, int],
        commits: bool = True,
        are_keyed: bool = False,
    ) -> None:
        self.cluster, self.history, self.world = cluster, history, cluster.world
        self._partition_count, self._think_ms = partition_count, think_ms
        self._producer_count, self._reader_count, self._commits = producer_count, reader_count, commits
        self._are_keyed = are_keyed  # each record has a unique key
        self._is_over = False
        self._tasks = ClientTasks(cluster.world)

    def begin(self) -> None:
        for number in range(1, self._producer_count + 1):
            client = make_client(self.cluster, f"writer-{number}")
            self._tasks.start(client, self._produce(client))
        for number in range(1, self._reader_count + 1):
            client = make_client(self.cluster, f"reader-{number}")
            self._tasks.start(client, self._read(client))
        if self._commits:
            committer = make_client(self.cluster, "group")
            self._tasks.start(committer, self._commit(committer))

    def end(self) -> None:
        self._is_over = True

    @property
    def are_answered(self) -> bool:
        return self._tasks.are_done

    # Writing

    async def _produce(self, client: WireClient) -> None:
        random = self.world.random(client.name)
        routing = routing_of(self.cluster, client)
        producer = Producer(routing, delivery_timeout_ms=DELIVERY_MS, linger_ms=1)
        count = 0
        waiting: list[asyncio.Task[None]] = []
        while not self._is_over:
            await asyncio.sleep(random.randint(*self._think_ms) / 1000)
            partition = random.randrange(self._partition_count)
            for _ in range(random.choice((1, 1, 3))):
                count += 1
                value = f"{client.name}:{count}"
                operation = self.history.invoke(client.name, "-", "produce", f"{TOPIC}-{partition}", value)
                try:
                    # One at a time: only sequential sends have a defined order.
                    delivery = await producer.send(
                        TOPIC, value.encode(), key=value.encode() if self._are_keyed else None, partition=partition
                    )
                except ClientError as error:
                    self.history.complete(operation, UNKNOWN, type(error).__name__)
                else:
                    waiting.append(client.loop.create_task(self._delivered(operation, delivery)))
        await asyncio.gather(*waiting)
        await producer.close(flushes=False)
        await routing.close()

    async def _delivered(self, operation: Operation, delivery: Delivery) -> None:
        try:
            position = await delivery
        except ClientError as error:
            self.history.complete(operation, UNKNOWN, type(error).__name__)
        else:
            self.history.complete(operation, OK, position.offset)

    # Reading

    async def _read(self, client: WireClient) -> None:
        random = self.world.random(client.name)
        places = dict.fromkeys(range(self._partition_count), 0)
        while not self._is_over:
            await asyncio.sleep(random.randint(*self._think_ms) / 1000)
            node_id = random.choice(list(self.cluster.machines))
            partition = random.randrange(self._partition_count)
            if random.random() < 0.1:
                places[partition] = 0  # sometimes from the start: earlier records must still exist
            places[partition] = await self.fetch(client, node_id, partition, places[partition]) or places[partition]

    async def fetch(self, client: WireClient, node_id: int, partition: int, offset: int) -> int | None:
        """The offset to continue at; None when the node returned no records. Adds them to the history."""
        key = f"{TOPIC}-{partition}"
        return await read(self.history, client, node_id, key, FetchTopic(topic=TOPIC, partitions=[]), partition, offset)

    # Committing

    async def _commit(self, client: WireClient) -> None:
        """Commits increasing offsets, so that any offset found later must be at least as high."""
        random = self.world.random(client.name)
        routing = routing_of(self.cluster, client)
        offset = 0
        while not self._is_over:
            await asyncio.sleep(random.randint(100, 600) / 1000)
            if random.random() < 0.4:
                await self.look_up_commit(client, routing)
                continue
            offset += random.randint(1, 5)
            operation = self.history.invoke(client.name, "-", "commit", GROUP, offset)
            try:
                async with asyncio.timeout(PATIENCE_MS / 1000):
                    committed = group_offsets.Committed(offset, -1, "")
                    await group_offsets.commit(routing, GROUP, {COMMITTED_AT: committed})
            except (ClientError, TimeoutError) as error:
                self.history.complete(operation, UNKNOWN, type(error).__name__)
            else:
                self.history.complete(operation, OK)
        await routing.close()

    async def look_up_commit(self, client: WireClient, routing: ClusterClient) -> None:
        operation = self.history.invoke(client.name, "-", "committed", GROUP)
        try:
            async with asyncio.timeout(PATIENCE_MS / 1000):
                found = await group_offsets.committed(routing, GROUP)
        except (ClientError, TimeoutError) as error:
            self.history.complete(operation, UNKNOWN, type(error).__name__)
        else:
            self.history.complete(operation, OK, found[COMMITTED_AT].offset if found else 0)


def are_served(history: History, since_ns: int, partition_count: int) -> bool:
    """Whether every partition acknowledged a record that was sent after `since_ns`."""
    served = [key for (kind, key), at_ns in history.newest_ok.items() if kind == "produce" and at_ns > since_ns]
    return len(served) >= partition_count


async def read(
    history: History,
    client: WireClient,
    node_id: int,
    key: str,
    topic: FetchTopic,
    partition: int,
    offset: int,
    *,
    leader_epoch: int = -1,
    kind: str = "read",
) -> int | None:
    """One fetch from one node, as an operation of this kind and key. Uses the topic id if the topic has one."""
    is_named = topic.topic_id == ZERO_UUID
    wanted = FetchPartition(
        partition=partition,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        partition_max_bytes=FETCH_BYTES,
    )
    asked = FetchTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=[wanted])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[asked])
    version_min, version_max = (0, NAMES) if is_named else (NAMES + 1, VERSION_MAX)
    try:
        connection = await client.to(node_id)
        operation = history.invoke(client.name, host_of(node_id), kind, key, offset)
        answer = await connection.ask(
            request, FetchResponse, version_min=version_min, version_max=version_max, timeout_ms=PATIENCE_MS
        )
    except ClientError:
        return None
    told = answer.responses[0].partitions[0]
    if told.error_code:
        history.complete(operation, UNKNOWN, ErrorCode.of(told.error_code).name)
        return None
    found: list[tuple[int, str]] = []
    end = offset
    data = memoryview(told.records or b"")  # type: ignore[arg-type]  # as received, it is one piece
    try:
        batches = list(split(data))
    except WireError as error:
        _damaged(history, operation, str(error))
        return None
    for batch in batches:
        if not crc_holds(batch):
            _damaged(history, operation, batch.base_offset)
            return None
        found += [
            (record.offset, bytes(record.value or b"").decode(errors="backslashreplace"))
            for record in iterate(batch, FETCH_BYTES)
            if record.offset >= offset
        ]
        end = batch.next_offset
    operation.result = found
    history.complete(operation, OK, found)
    return end


def _damaged(history: History, operation: Operation, what: object) -> None:
    operation.kind = "damaged"
    history.complete(operation, OK, what)


def routing_of(cluster: SimCluster, client: WireClient, node_ids: Iterable[int] | None = None) -> ClusterClient:
    """The product's client in this process. It starts out knowing all nodes, or `node_ids`."""
    runtime = Runtime(
        SimClock(client.loop),
        SimDisk(0),
        client.network,
        SimRandomness(cluster.world.random(f"{client.name} of the product")),
    )
    bootstrap = [Address(host_of(node_id), BROKER_PORT) for node_id in node_ids or cluster.machines]
    return ClusterClient(runtime, bootstrap, client_id=client.name, connect_timeout_ms=1000)
