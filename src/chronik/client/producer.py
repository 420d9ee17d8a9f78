"""Writes records: collects them into batches, sends the batches to the leaders, and retries without losing order.

    async with Producer(cluster) as producer:
        delivery = await producer.send("orders", b"value", key=b"key")
        position = await delivery          # optional: `flush` raises the first failure

`send` returns when the record is in the buffer; if the buffer is full, it waits for space. A record is delivered when
the broker has acknowledged it according to `acks`. Idempotence is on unless acks is lowered: a batch that was written
but whose response was lost is not written twice. Retriable errors are retried until `delivery_timeout_ms`, and the
order within a partition is kept (see `batching`). Meanwhile `stalls` reports what records are waiting for.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from chronik.client.batching import NOBODY, Acknowledged, Batch, Delivery, Identity, PartitionQueue, record_bytes
from chronik.client.errors import ClientError, Closed, DeliveryFailed, Refused, refuse
from chronik.client.partitioners import Sticky, partition_of_key
from chronik.client.sending import BatchResult, Transaction, produce
from chronik.client.topology import NO_LEADER, Topic, TopicPartition
from chronik.peer.backoff import Backoff
from chronik.peer.connection import REQUEST_TIMEOUT_MS
from chronik.runtime.invariants import broken, check
from chronik.runtime.tasks import Tasks
from chronik.runtime.units import NS_PER_MS
from chronik.wire.batches import HEADER_BYTES
from chronik.wire.compression import Codec
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient
    from chronik.wire.records import EncodedRecords, Headers

ALL, LEADER, NONE = -1, 1, 0  # acks
BATCH_BYTES_MAX: Final = 1_000_000  # just below the default max.message.bytes of brokers
BUFFER_BYTES_MAX: Final = 64 << 20
REQUESTS_PER_NODE_MAX: Final = 5
BATCHES_PER_REQUEST_MAX: Final = 16  # so that a request stays below socket.request.max.bytes
LINGER_MS: Final = 5
DELIVERY_TIMEOUT_MS: Final = 120_000
TOPIC_TIMEOUT_MS: Final = 60_000

# Errors that mean that the broker does not know the sequence that a batch continues.
SEQUENCE_LOST: Final = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH}
)


class Stall(NamedTuple):
    """A partition whose oldest record has not been acknowledged for some time."""

    at: TopicPartition
    waited_ms: int
    node_id: int | None  # the leader that was last used; None if there is none
    fault: ClientError | None  # its last error; None if it has not answered yet


class Producer:
    def __init__(
        self,
        cluster: ClusterClient,
        *,
        acks: int = ALL,
        idempotent: bool | None = None,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        linger_ms: int = LINGER_MS,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        buffer_bytes_max: int = BUFFER_BYTES_MAX,
        delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS,
        creates_topics: bool = False,
        transaction: Transaction | None = None,
    ) -> None:
        """Creates a producer of a connected cluster; close it, or use it in `async with`.

        acks: ALL (-1) waits for all in-sync replicas, LEADER (1) for the leader, NONE (0) does not wait.
        idempotent: whether brokers recognise repeated batches; the default is True with acks=ALL, else False.
        codec, level: compression of batches.
        linger_ms: how long a batch waits for more records.
        batch_bytes_max: the size at which a batch is full, before compression.
        buffer_bytes_max: the size of unacknowledged records at which `send` waits.
        delivery_timeout_ms: after this time a record is given up, and its delivery raises DeliveryFailed.
        creates_topics: lets the broker create topics that do not exist, if its configuration allows that.
        transaction: marks all batches; TransactionalProducer uses it, and sets the identity.
        """
        self._cluster = cluster
        self._transaction = transaction
        self._acks = acks
        self._is_idempotent = acks == ALL if idempotent is None else idempotent
        if self._is_idempotent and acks != ALL:
            raise ValueError("an idempotent producer needs acks=-1 (all)")
        self._codec, self._level = codec, level
        self._linger_ms = linger_ms
        self._batch_bytes_max = batch_bytes_max
        self._buffer_bytes_max = buffer_bytes_max
        self._delivery_timeout_ms = delivery_timeout_ms
        self._creates_topics = creates_topics
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        self._sticky: dict[str, Sticky] = {}
        self._backoffs: dict[TopicPartition, Backoff] = {}
        self._troubles: dict[TopicPartition, tuple[int | None, ClientError | None]] = {}  # see Stall
        self._requests: dict[int, int] = {}  # in flight, by node
        self._identity = NOBODY
        self._identifying: asyncio.Task[None] | None = None
        self._identity_fault: ClientError | None = None  # why the producer has no id yet
        self._woken: dict[TopicPartition, PartitionQueue] = {}  # partitions that may have something to send
        self._buffered_bytes = 0
        self._unsettled_count = 0  # batches
        self._may_add = asyncio.Event()
        self._is_empty = asyncio.Event()
        self._is_empty.set()
        self._failure: DeliveryFailed | None = None  # the first since the last flush
        self._is_closed = False
        self._is_waking = False
        self._tasks = Tasks("producer", self._broken)
        self._fault: Exception | None = None  # an unexpected error, a bug: every later call fails with it
        self._given_up: ClientError | None = None  # why retries have stopped: the transaction is being aborted

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close(flushes=exception[0] is None)

    # --- the public API

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> Delivery:
        """Adds a record to the next batch of its partition; await the result for the record's position.

        A value of None is a tombstone. Records with equal keys go to the same partition, as with Kafka's own clients,
        unless `partition` names one. `timestamp` is in milliseconds since 1970; the default is now. `headers` are pairs
        of a name and bytes. Raises Refused if the topic or partition does not exist, and Closed after `close`.
        """
        known = self._cluster.known_topic(topic)
        if known is None or self._is_closed:
            known = await self.topic(topic)
        size_bytes = record_bytes(key, value, headers)
        if self._buffered_bytes + size_bytes > self._buffer_bytes_max:
            await self._room(size_bytes)
        if self._fault is not None:
            raise self._fault
        queue = self._queue_for(known, key, partition)
        batch = queue.filling(size_bytes, self._batch_bytes_max)
        is_new = batch is None
        if batch is None:
            batch = self._begin_batch(queue)
        stamp = self._cluster.clock.wall_ms() if timestamp is None else timestamp
        delivery = Delivery(batch, batch.add(stamp, key, value, headers, size_bytes))
        self._buffered_bytes += size_bytes
        if is_new:
            await asyncio.sleep(0)  # lets batches leave even if the caller never awaits anything else
        return delivery

    async def send_encoded(self, topic: str, partition: int | None, records: EncodedRecords) -> None:
        """Adds a batch of its own, for callers that encode many records at once. Without a partition the producer
        chooses one. `flush` raises its failure."""
        known = await self.topic(topic)
        await self._room(records.size_bytes)
        if self._fault is not None:
            raise self._fault
        queue = self._queue_for(known, None, partition)
        self._queue_batch(queue, Batch(queue.at, self._cluster.clock.monotonic_ns(), records))
        self._buffered_bytes += records.size_bytes
        self._wake(queue)
        await asyncio.sleep(0)

    async def topic(self, name: str) -> Topic:
        """The topic's partitions and leaders, as `send` knows them. Creates the topic if that is allowed."""
        if self._is_closed:
            raise Closed("the producer was closed")
        known = self._cluster.known_topic(name)
        if known is not None:
            return known
        return await self._cluster.retrying(
            lambda: self._cluster.topic(name, creates=self._creates_topics),
            timeout_ms=min(TOPIC_TIMEOUT_MS, self._delivery_timeout_ms),
        )

    async def _room(self, size_bytes: int) -> None:
        """Waits until there is space in the buffer. A record that is larger than the buffer may be alone in it."""
        while self._buffered_bytes and self._buffered_bytes + size_bytes > self._buffer_bytes_max:
            self._may_add.clear()
            await self._may_add.wait()

    async def flush(self) -> None:
        """Waits until every record is delivered or given up. Raises the first DeliveryFailed since the last flush."""
        for queue in self._queues.values():
            queue.is_due = bool(queue.batches)
            self._wake(queue)
        await self._is_empty.wait()
        if self._fault is not None:
            raise self._fault
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def become(self, identity: Identity) -> None:
        """Sets the id and epoch for all later batches. No batch of another identity may be in flight."""
        check(
            identity == self._identity or not self._unsettled_count,
            "12 a producer changes its identity between transactions",
            producer=identity.producer_id,
            unsettled=self._unsettled_count,
        )
        self._identity = identity

    async def drop(self, why: ClientError) -> None:
        """Gives up everything undelivered; returns when nothing is in flight. Causes no other failures."""
        self._given_up = why
        try:
            for queue in self._queues.values():
                while queue.in_flight is None and queue.batches:
                    self._give_up(queue, queue.take_unsent(), why)
            await self._is_empty.wait()
        finally:
            self._given_up = self._failure = None
        if self._fault is not None:
            raise self._fault

    def stalls(self, longer_than_ms: int) -> list[Stall]:
        """Partitions whose records were sent longer ago than this, and what they wait for."""
        now_ns = self._cluster.clock.monotonic_ns()
        found = []
        for at, queue in self._queues.items():
            batch = queue.in_flight or (queue.batches[0] if queue.batches else None)
            if batch is None:
                continue
            waited_ms = (now_ns - batch.born_ns) // NS_PER_MS
            if waited_ms >= longer_than_ms:
                node_id, fault = self._troubles.get(at, (None, None))
                found.append(Stall(at, waited_ms, node_id, fault or self._identity_fault))
        return found

    async def close(self, *, flushes: bool = True) -> None:
        """Flushes, then stops. With flushes=False, gives up undelivered records."""
        self._is_closed = True
        try:
            if flushes:
                await self.flush()
        finally:
            await self._tasks.stop()
            for queue in self._queues.values():
                self._give_up_all(queue, Closed("the producer was closed before it was delivered"))

    def _queue_for(self, topic: Topic, key: bytes | None, partition: int | None) -> PartitionQueue:
        if partition is None:
            partition = self._sticky_partition(topic) if key is None else partition_of_key(key, len(topic.partitions))
        at = TopicPartition(topic.name, partition)
        queue = self._queues.get(at)
        if queue is None:
            if partition not in topic.partitions:
                highest = len(topic.partitions) - 1
                detail = f"the topic has partitions 0 to {highest}"
                raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {at}", detail)
            queue = self._queues[at] = PartitionQueue(at)
        return queue

    def _sticky_partition(self, topic: Topic) -> int:
        sticky = self._sticky.get(topic.name)
        queue = self._queues.get(TopicPartition(topic.name, sticky.partition)) if sticky is not None else None
        if sticky is not None and queue is not None and queue.filling(0, self._batch_bytes_max) is not None:
            return sticky.partition
        led = [each.partition for each in topic.partitions.values() if each.leader_id != NO_LEADER]
        choices = led or list(topic.partitions)
        if sticky is None:
            sticky = self._sticky[topic.name] = Sticky(self._cluster.randomness, choices)
            return sticky.partition
        return sticky.move(choices)

    def _begin_batch(self, queue: PartitionQueue) -> Batch:
        batch = Batch(queue.at, self._cluster.clock.monotonic_ns())
        self._queue_batch(queue, batch)
        if len(queue.batches) > 1:
            self._wake(queue)  # the previous batch is full
        asyncio.get_running_loop().call_later(self._linger_ms / 1000, self._lingered, queue, batch)
        return batch

    def _queue_batch(self, queue: PartitionQueue, batch: Batch) -> None:
        queue.batches.append(batch)
        queue.is_due = False
        self._unsettled_count += 1
        self._is_empty.clear()

    def _lingered(self, queue: PartitionQueue, batch: Batch) -> None:
        if queue.batches and queue.batches[-1] is batch:
            queue.is_due = True
            self._wake(queue)

    # --- sending

    def _wake(self, *queues: PartitionQueue) -> None:
        """Sends what is ready, once per loop iteration, so that concurrent callers share a request."""
        for queue in queues:
            self._woken[queue.at] = queue
        if not self._is_waking:
            self._is_waking = True
            asyncio.get_running_loop().call_soon(self._send_ready)

    def _send_ready(self) -> None:
        self._is_waking = False
        self._woken = {at: queue for at, queue in self._woken.items() if queue.is_ready}
        if not self._woken:
            return
        if self._is_idempotent and self._identity == NOBODY and self._transaction is None:
            if self._identifying is None:
                self._identifying = self._tasks.start("identify", self._identify())
            return
        by_leader: dict[int, list[PartitionQueue]] = {}
        for queue in list(self._woken.values()):
            try:
                by_leader.setdefault(self._cluster.topology.leader(queue.at), []).append(queue)
            except Refused as fault:
                self._hold_back(queue, fault)
        for node_id, queues in by_leader.items():
            free_count = REQUESTS_PER_NODE_MAX - self._requests.get(node_id, 0)
            for first in range(0, min(len(queues), free_count * BATCHES_PER_REQUEST_MAX), BATCHES_PER_REQUEST_MAX):
                some = queues[first : first + BATCHES_PER_REQUEST_MAX]
                self._requests[node_id] = self._requests.get(node_id, 0) + 1
                check(
                    self._requests[node_id] <= REQUESTS_PER_NODE_MAX,
                    "23 requests under way are bounded",
                    node=node_id,
                    count=self._requests[node_id],
                )
                taken = {queue.at: queue.take(self._identity) for queue in some}
                for at in taken:
                    self._troubles[at] = (node_id, self._troubles.get(at, (None, None))[1])
                self._tasks.start(f"request-{node_id}", self._deliver(node_id, taken))

    async def _deliver(self, node_id: int, taken: dict[TopicPartition, Batch]) -> None:
        """Sends one request to one node, and settles or requeues each batch in it."""
        try:
            answers = await produce(
                self._cluster,
                node_id,
                taken,
                acks=self._acks,
                codec=self._codec,
                level=self._level,
                timeout_ms=min(self._left_ms(batch) for batch in taken.values()),
                transaction=self._transaction,
            )
        except ClientError as fault:
            answers = dict.fromkeys(taken, fault)
        finally:
            self._requests[node_id] -= 1
            check(
                self._requests[node_id] >= 0,
                "26 requests are counted by node",
                node=node_id,
                count=self._requests[node_id],
            )
        check(
            answers.keys() >= taken.keys(),
            "27 every batch of a request gets an outcome",
            node=node_id,
            batches=len(taken),
        )
        for at, batch in taken.items():
            self._settle(self._queues[at], batch, answers[at])
        self._wake(*(self._queues[at] for at in taken))

    def _settle(self, queue: PartitionQueue, batch: Batch, answer: BatchResult) -> None:
        if isinstance(answer, Acknowledged):
            queue.finish(batch, answer, may_be_written=True)
            self._backoffs.pop(queue.at, None)
            self._troubles.pop(queue.at, None)
            self._release(batch)
            return
        code = answer.kafka_error if isinstance(answer, Refused) else None
        if self._given_up is not None:
            self._give_up(queue, batch, answer)
            while queue.batches:
                self._give_up(queue, queue.take_unsent(), self._given_up)
            return
        if code in SEQUENCE_LOST and self._transaction is None:
            self._identity = NOBODY
            if batch.attempt_count == 1:  # never sent before, so certainly not written
                queue.renumber(batch)
                return
        if code is ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1:
            queue.split(batch)
            self._unsettled_count += 1
        elif answer.retriable and not self._is_overdue(batch):
            queue.put_back(batch)
            self._hold_back(queue, answer)
        else:
            self._give_up(queue, batch, answer)

    def _give_up(self, queue: PartitionQueue, batch: Batch, fault: ClientError) -> None:
        # A batch that was never sent, or refused at its first attempt, was certainly not written. Otherwise the
        # sequence may have a gap: the next batch starts a new one.
        may_be_written = batch.attempt_count > 1 or (batch.attempt_count == 1 and fault.retriable)
        if may_be_written and self._transaction is None:  # an aborted transaction starts a new sequence anyway
            self._identity = NOBODY
        failure = DeliveryFailed(fault, queue.at.topic, queue.at.partition, batch.count)
        self._failure = self._failure or failure
        queue.finish(batch, failure, may_be_written=may_be_written)
        self._release(batch)

    def _give_up_all(self, queue: PartitionQueue, fault: ClientError) -> None:
        if queue.in_flight is not None:
            self._give_up(queue, queue.in_flight, fault)
        while queue.batches:
            self._give_up(queue, queue.take_unsent(), fault)

    def _hold_back(self, queue: PartitionQueue, fault: ClientError) -> None:
        """Retries the head after a pause, during which its leader is looked up again."""
        while queue.batches and self._is_overdue(queue.batches[0]):
            self._give_up(queue, queue.take_unsent(), fault)
        if not queue.batches:
            return
        check(not queue.is_held_back, "12 a partition pauses once at a time", at=queue.at)
        queue.is_held_back = True
        asked = self._troubles.get(queue.at, (None, None))[0]
        is_leaderless = isinstance(fault, Refused) and fault.kafka_error is ErrorCode.LEADER_NOT_AVAILABLE
        self._troubles[queue.at] = (None if is_leaderless else asked, fault)
        backoff = self._backoffs.setdefault(queue.at, Backoff(self._cluster.randomness))
        self._tasks.start(f"wait-{queue.at}", self._wait(queue, backoff.next_ms()))

    async def _wait(self, queue: PartitionQueue, wait_ms: int) -> None:
        topic = queue.at.topic
        known = self._cluster.topology.topics.get(topic)
        await asyncio.sleep(wait_ms / 1000)
        try:
            if self._cluster.topology.topics.get(topic) is known:  # not refreshed by another caller meanwhile
                await self._cluster.refresh([topic])
        except ClientError:
            pass  # the next attempt reports the error
        queue.is_held_back = False
        self._wake(queue)

    def _is_overdue(self, batch: Batch) -> bool:
        return self._left_ms(batch) <= 0

    def _left_ms(self, batch: Batch) -> int:
        """The rest of its delivery time."""
        waited_ms = (self._cluster.clock.monotonic_ns() - batch.born_ns) // NS_PER_MS
        return self._delivery_timeout_ms - waited_ms

    def _release(self, batch: Batch) -> None:
        self._buffered_bytes -= batch.size_bytes - HEADER_BYTES
        self._unsettled_count -= 1
        if self._buffered_bytes < 0 or self._unsettled_count < 0:
            broken(
                "26 records are counted until they are settled",
                at=batch.at,
                buffered=self._buffered_bytes,
                batches=self._unsettled_count,
            )
        self._may_add.set()
        if not self._unsettled_count:
            if self._buffered_bytes:
                broken(
                    "26 records are counted until they are settled",
                    at=batch.at,
                    buffered=self._buffered_bytes,
                    batches=0,
                )
            self._is_empty.set()

    async def _identify(self) -> None:
        """Gets the producer id by which brokers recognise repeated batches."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)

        async def attempt() -> Identity:
            try:
                connection = await self._cluster.to_any()
                timeout_ms = min(REQUEST_TIMEOUT_MS, self._delivery_timeout_ms)
                response = await connection.ask(request, InitProducerIdResponse, timeout_ms=timeout_ms)
                refuse(response.error_code, "cannot get a producer id")
            except ClientError as fault:
                self._identity_fault = fault
                raise
            self._identity_fault = None
            return Identity(response.producer_id, response.producer_epoch)

        try:
            self._identity = await self._cluster.retrying(attempt, timeout_ms=self._delivery_timeout_ms)
        except ClientError as fault:
            for queue in self._woken.values():
                while queue.is_ready:
                    self._give_up(queue, queue.take_unsent(), fault)
        finally:
            self._identifying = None
        self._wake()

    def _broken(self, name: str, fault: Exception) -> None:
        self._fault = fault
        self._may_add.set()
        self._is_empty.set()
