"""Clients of transactions: writers with transactional ids that start, die and restart, and readers of committed
records.

They speak the protocol request by request, as clients of both generations do: some add partitions before they write
(transaction.version below 2), others by writing. A replaced writer may continue for a while without knowing. A request
that changes something may arrive twice: the second copy is delayed on a connection that the writer abandoned for a new
one. With epoch bump, requests that end a transaction may also arrive late on a separate connection.

Each transaction is a `transaction` operation. Its value is what was written and read; its result is what the writer was
told: COMMITTED, ABORTED (it never requested a commit, or the first attempt was refused), or nothing if the answer was
lost. Reads are `read` operations. Nothing is judged here.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, TypeVar

from chronik.client.errors import ClientError
from chronik.peer.connection import Connection
from chronik.sim.clock import SimClock
from chronik.sim.cluster import SimCluster
from chronik.sim.history import OK, UNKNOWN, History, Operation
from chronik.sim.programs import host_of
from chronik.sim.record_clients import FETCH_BYTES, TOPIC
from chronik.sim.wire_clients import PATIENCE_MS, ClientTasks, WireClient, make_client
from chronik.wire import batches
from chronik.wire.error_codes import ErrorCode
from chronik.wire.isolation import READ_COMMITTED
from chronik.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from chronik.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from chronik.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from chronik.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from chronik.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from chronik.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from chronik.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from chronik.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from chronik.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from chronik.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from chronik.wire.notation import Request, Response
from chronik.wire.records import ControlType, Record, control_type, iterate

A = TypeVar("A", bound=Response)

COMMITTED, ABORTED = "committed", "aborted"
TIMEOUT_MS = 3_000  # per transaction
LIFE_MS = (500, 6_000)
ATTEMPTS_MAX = 40
PAUSE_MS = (20, 150)
POLLING = 0.4  # how often a transaction reads before it writes to a partition
HELD_UP = 0.06  # how often a request arrives again on an old connection
DELAYS_MS_MAX = (30, 300, 3_000)
SLOW_MS_MAX = 250  # between the parts of a transaction that takes its time
GROUP_KEY, TRANSACTION_KEY = 0, 1
NAMES = 12  # the last version of Fetch that identifies topics by name
# Errors that prove that the writer is fenced: this instance ends.
FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
# Errors after which the transaction can only be aborted.
ABORTABLE = frozenset(
    {ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
)


class Gone(Exception):
    """This writer cannot continue."""


class MustAbort(Exception):
    """This transaction cannot be committed."""


@dataclass
class Written:
    """The contents of one transaction: values by partition, and the offset that it commits for its group, if any."""

    life: int
    number: int
    epoch: int
    has_epoch_bump: bool
    values: dict[int, list[str]] = field(default_factory=dict)
    offset: int | None = None
    reads: list[int] = field(default_factory=list)  # numbers of the `read` operations inside it
    commit_asked_ns: int | None = None  # first attempt; None: no commit was requested
    commit_invoked_ns: int | None = None  # the attempt that was answered

    def __repr__(self) -> str:
        return f"life {self.life} transaction {self.number} epoch {self.epoch} {self.values} offset {self.offset}"


class Fetched(NamedTuple):
    number: int  # of the operation
    end: int  # the offset to continue at


class TransactionClients:
    def __init__(
        self,
        cluster: SimCluster,
        history: History,
        *,
        partition_count: int,
        writer_count: int,
        reader_count: int,
        think_ms: tuple[int, int],
    ) -> None:
        self.cluster, self.history, self.world = cluster, history, cluster.world
        self.partition_count, self._think_ms = partition_count, think_ms
        self._writer_count, self._reader_count = writer_count, reader_count
        self._is_over = False
        self._tasks = ClientTasks(cluster.world)

    def begin(self) -> None:
        for number in range(1, self._writer_count + 1):
            name = f"writer-{number}"
            self._begin_life(name, 1)
        for number in range(1, self._reader_count + 1):
            client = make_client(self.cluster, f"reader-{number}")
            self._tasks.start(client, self._read(client))

    def end(self) -> None:
        self._is_over = True

    @property
    def are_answered(self) -> bool:
        return self._tasks.are_done

    # Writing

    def _begin_life(self, transactional_id: str, life: int) -> None:
        client = make_client(self.cluster, f"{transactional_id} life {life}")
        self._tasks.start(client, self._live(client, transactional_id, life))

    async def _live(self, client: WireClient, transactional_id: str, life: int) -> None:
        random = self.world.random(client.name)
        writer = _Writer(self, client, random, transactional_id, life)
        until_ns = self.world.time.now_ns + random.randint(*LIFE_MS) * 1_000_000
        successor = False
        try:
            await writer.initialize()
            while not self._is_over:
                if self.world.time.now_ns > until_ns and not successor:
                    successor = True
                    self._begin_life(transactional_id, life + 1)
                    if random.random() < 0.5:
                        return  # between transactions; other instances continue without knowing
                await asyncio.sleep(random.randint(*self._think_ms) / 1000)
                await writer.transact()
        except Gone:
            pass
        if not successor and not self._is_over:
            await asyncio.sleep(random.randint(50, 500) / 1000)
            self._begin_life(transactional_id, life + 1)

    def send_late(self, client: WireClient, request: EndTxnRequest, version: int, delay_ms: int) -> None:
        late = make_client(self.cluster, f"{client.name} late {len(self.history.operations)}")
        self._tasks.start(late, self._send_late(late, request, version, delay_ms))

    async def _send_late(self, late: WireClient, request: EndTxnRequest, version: int, delay_ms: int) -> None:
        await asyncio.sleep(delay_ms / 1000)
        for node_id in list(self.cluster.machines):
            try:
                connection = await late.to(node_id)
                await connection.ask(
                    request, EndTxnResponse, version_min=version, version_max=version, timeout_ms=PATIENCE_MS
                )
            except ClientError:
                continue

    def send_held_up(
        self,
        client: WireClient,
        connection: Connection,
        request: Request,
        answer: type[Response],
        version: int,
        delay_ms: int,
    ) -> None:
        async def send() -> None:
            await asyncio.sleep(delay_ms / 1000)
            try:
                await connection.ask(request, answer, version_min=version, version_max=version, timeout_ms=PATIENCE_MS)
            except ClientError:
                pass
            finally:
                connection.close()

        self._tasks.start(client, send())

    # Reading

    async def _read(self, client: WireClient) -> None:
        random = self.world.random(client.name)
        places = dict.fromkeys(range(self.partition_count), 0)
        while not self._is_over:
            await asyncio.sleep(random.randint(*self._think_ms) / 1000)
            partition = random.randrange(self.partition_count)
            if random.random() < 0.2:
                places[partition] = 0
            node_id = random.choice(list(self.cluster.machines))
            if random.random() < 0.3:
                await self.look_up_offset(client, node_id, f"writer-{random.randint(1, self._writer_count)}")
                continue
            fetched = await self.fetch(client, node_id, partition, places[partition])
            if fetched is not None:
                places[partition] = fetched.end

    async def look_up_offset(self, client: WireClient, node_id: int, transactional_id: str) -> None:
        """Looks up the group's committed offset, requiring stable offsets."""
        topic = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
        request = OffsetFetchRequest(group_id=f"group of {transactional_id}", topics=[topic], require_stable=True)
        operation = self.history.invoke(client.name, host_of(node_id), "committed", transactional_id)
        try:
            connection = await client.to(node_id)
            answer = await connection.ask(
                request, OffsetFetchResponse, version_min=7, version_max=7, timeout_ms=PATIENCE_MS
            )
        except ClientError as error:
            self.history.complete(operation, UNKNOWN, type(error).__name__)
            return
        told = answer.topics[0].partitions[0] if answer.topics and not answer.error_code else None
        if told is None or told.error_code:
            self.history.complete(operation, UNKNOWN, "not told")
        else:
            self.history.complete(operation, OK, max(told.committed_offset, 0))

    async def fetch(self, client: WireClient, node_id: int, partition: int, offset: int) -> Fetched | None:
        """None when the node returned nothing. The committed records go into the history."""
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=READ_COMMITTED,
            topics=[FetchTopic(topic=TOPIC, partitions=[wanted])],
        )
        try:
            connection = await client.to(node_id)
            operation = self.history.invoke(client.name, host_of(node_id), "read", f"{TOPIC}-{partition}", offset)
            answer = await connection.ask(
                request, FetchResponse, version_min=4, version_max=NAMES, timeout_ms=PATIENCE_MS
            )
        except ClientError:
            return None
        told = answer.responses[0].partitions[0]
        if told.error_code:
            self.history.complete(operation, UNKNOWN, ErrorCode.of(told.error_code).name)
            return None
        found, end = committed_records(told, offset)
        self.history.complete(operation, OK, found)
        return Fetched(operation.number, end)


def committed_records(told: PartitionData, offset: int) -> tuple[list[tuple[int, str]], int]:
    """What a client with isolation.level=read_committed returns, and the offset it continues at."""
    aborted = sorted(told.aborted_transactions or (), key=lambda each: each.first_offset)
    ended: set[int] = set()
    found: list[tuple[int, str]] = []
    end = offset
    for batch in batches.split(memoryview(told.records or b"")):  # type: ignore[arg-type]  # as received: one piece
        while aborted and aborted[0].first_offset <= batch.last_offset:
            ended.add(aborted.pop(0).producer_id)
        end = batch.next_offset
        if batch.is_control:
            marker = next(iter(iterate(batch, FETCH_BYTES)), None)
            if marker is not None and control_type(marker) is ControlType.ABORT:
                ended.discard(batch.producer_id)
            continue
        if batch.is_transactional and batch.producer_id in ended:
            continue
        found += [
            (record.offset, bytes(record.value or b"").decode())
            for record in iterate(batch, FETCH_BYTES)
            if record.offset >= offset
        ]
    return found, end


class _Writer:
    """One instance of a transactional id."""

    def __init__(
        self, clients: TransactionClients, client: WireClient, random: Random, transactional_id: str, life: int
    ) -> None:
        self._clients, self._client, self._random = clients, client, random
        self._history, self._time = clients.history, clients.world.time
        self._id, self._life = transactional_id, life
        self._machines = list(clients.cluster.machines)
        self._has_epoch_bump = random.random() < 0.6
        self._group = f"group of {transactional_id}"
        self._producer_id = self._epoch = -1
        self._sequences: dict[int, int] = {}
        self._number = 0
        self._leaders: dict[int, int] = {}
        self._coordinators: dict[int, int] = {}
        self._places = dict.fromkeys(range(clients.partition_count), 0)  # next offsets to read

    # One request to the responsible node

    async def _ask(
        self, node_id: int | None, request: Request, answer: type[A], version_min: int, version_max: int
    ) -> A | None:
        """None: no answer."""
        if node_id is None:
            return None
        try:
            connection = await self._client.to(node_id)
            return await connection.ask(
                request, answer, version_min=version_min, version_max=version_max, timeout_ms=PATIENCE_MS
            )
        except ClientError:
            return None

    async def _ask_twice(
        self, node_id: int | None, request: Request, answer: type[A], version_min: int, version_max: int
    ) -> A | None:
        """Like `_ask`. Sometimes the network delays the request, which arrives again later on an old connection."""
        if node_id is not None and self._random.random() < HELD_UP:
            await self._hold_up(node_id, request, answer, version_max)
        return await self._ask(node_id, request, answer, version_min, version_max)

    async def _hold_up(self, node_id: int, request: Request, answer: type[Response], version: int) -> None:
        """The network delays the request. The client abandons the connection, and resends on a new one."""
        try:
            connection = await self._client.detach(node_id)
            await self._client.to(node_id)
        except ClientError:
            return
        delay_ms = self._random.randint(1, self._random.choice(DELAYS_MS_MAX))
        self._clients.send_held_up(self._client, connection, request, answer, version, delay_ms)

    async def _pause(self) -> None:
        await asyncio.sleep(self._random.randint(*PAUSE_MS) / 1000)

    async def _coordinator(self, key_type: int, key: str) -> int | None:
        if key_type not in self._coordinators:
            request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
            found = await self._ask(self._random.choice(self._machines), request, FindCoordinatorResponse, 4, 4)
            if found is None or found.coordinators[0].error_code:
                return None
            self._coordinators[key_type] = found.coordinators[0].node_id
        return self._coordinators[key_type]

    async def _leader(self, partition: int) -> int | None:
        if partition not in self._leaders:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
            told = await self._ask(self._random.choice(self._machines), request, MetadataResponse, 7, 9)
            if told is None or told.topics[0].error_code:
                return None
            self._leaders = {each.partition_index: each.leader_id for each in told.topics[0].partitions}
            self._leaders = {index: leader for index, leader in self._leaders.items() if leader >= 0}
        return self._leaders.get(partition)

    # The protocol

    async def initialize(self) -> None:
        operation = self._history.invoke(self._client.name, "-", "init", self._id, self._life)
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=TIMEOUT_MS)
        while not self._clients._is_over:
            node_id = await self._coordinator(TRANSACTION_KEY, self._id)
            made = await self._ask(node_id, request, InitProducerIdResponse, 4, 5)
            if made is not None and not made.error_code:
                self._producer_id, self._epoch = made.producer_id, made.producer_epoch
                self._sequences.clear()
                self._history.complete(operation, OK, (made.producer_id, made.producer_epoch))
                return
            if made is None or made.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                self._coordinators.pop(TRANSACTION_KEY, None)
            await self._pause()
        raise Gone

    async def transact(self) -> None:
        random = self._random
        self._number += 1
        written = Written(self._life, self._number, self._epoch, self._has_epoch_bump)
        count = random.randint(1, self._clients.partition_count)
        for partition in random.sample(range(self._clients.partition_count), count):
            prefix = f"{self._id}:{self._life}:{self._number}:{partition}"
            written.values[partition] = [f"{prefix}:{index}" for index in range(random.choice((1, 1, 3)))]
        if random.random() < 0.6:
            written.offset = self._life * 10_000 + self._number
        operation = self._history.invoke(self._client.name, "-", "transaction", self._id, written)
        commits, is_last = random.random() < 0.7, False
        try:
            is_slow = random.random() < 0.3
            for partition, values in written.values.items():
                if random.random() < POLLING:
                    await self._poll(written)
                await self._produce(partition, values)
                if is_slow:
                    await asyncio.sleep(random.randint(1, SLOW_MS_MAX) / 1000)
            if written.offset is not None:
                await self._commit_offset(written.offset)
                if is_slow:
                    await asyncio.sleep(random.randint(1, SLOW_MS_MAX) / 1000)
            if random.random() < 0.03:
                raise Gone  # dies during the transaction
        except MustAbort:
            # Earlier requests may still arrive. Without epoch bump they would join the next transaction, so clients of
            # this generation first get a new epoch by InitProducerId, as a new instance does.
            commits, is_last = False, not self._has_epoch_bump
        except Gone:
            self._history.complete(operation, OK, ABORTED)  # no client will commit it
            raise
        await self._end(operation, written, commits=commits)
        if is_last:
            raise Gone

    async def _poll(self, written: Written) -> None:
        """The transaction depends on what it reads, like a copier's."""
        partition = self._random.randrange(self._clients.partition_count)
        node_id = await self._leader(partition)
        if node_id is None:
            return
        fetched = await self._clients.fetch(self._client, node_id, partition, self._places[partition])
        if fetched is None:
            self._leaders.clear()
        else:
            self._places[partition] = fetched.end
            written.reads.append(fetched.number)

    async def _produce(self, partition: int, values: list[str]) -> None:
        if not self._has_epoch_bump:
            await self._add_partition(partition)
        for index in range(0, len(values), 2):
            await self._send(partition, values[index : index + 2])

    async def _add_partition(self, partition: int) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[partition])],
        )
        for _ in range(ATTEMPTS_MAX):
            node_id = await self._coordinator(TRANSACTION_KEY, self._id)
            answer = await self._ask_twice(node_id, request, AddPartitionsToTxnResponse, 3, 3)
            if answer is None:
                self._coordinators.pop(TRANSACTION_KEY, None)
            else:
                code = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
                if self._is_done(ErrorCode.of(code), TRANSACTION_KEY):
                    return
            await self._pause()
        raise MustAbort

    def _is_done(self, error: ErrorCode, coordinator: int | None = None) -> bool:
        """Whether the request was executed; False: retry."""
        if error in FENCED:
            raise Gone
        if error in ABORTABLE:
            raise MustAbort
        if error is ErrorCode.NONE:
            return True
        if coordinator is not None and error is not ErrorCode.CONCURRENT_TRANSACTIONS:
            self._coordinators.pop(coordinator, None)
        return False

    async def _send(self, partition: int, values: list[str]) -> None:
        sequence, now_ms = self._sequences.get(partition, 0), SimClock(self._client.loop).wall_ms()
        records = [Record(index, now_ms, None, value.encode(), ()) for index, value in enumerate(values)]
        batch = batches.build(
            records,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        data = PartitionProduceData(index=partition, records=memoryview(batch))
        request = ProduceRequest(
            transactional_id=self._id,
            acks=-1,
            timeout_ms=1_500,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])],
        )
        version = 12 if self._has_epoch_bump else 11
        for _ in range(ATTEMPTS_MAX):
            answer = await self._ask_twice(await self._leader(partition), request, ProduceResponse, version, version)
            if answer is not None:
                told = answer.responses[0].partition_responses[0]
                if told.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER or self._is_done(
                    ErrorCode.of(told.error_code)
                ):
                    self._sequences[partition] = sequence + len(values)
                    return
            self._leaders.clear()
            await self._pause()
        raise MustAbort

    async def _commit_offset(self, offset: int) -> None:
        if not self._has_epoch_bump:
            await self._add_offsets()
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=self._group,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )
        version = 5 if self._has_epoch_bump else 3
        for _ in range(ATTEMPTS_MAX):
            node_id = await self._coordinator(GROUP_KEY, self._group)
            answer = await self._ask_twice(node_id, request, TxnOffsetCommitResponse, version, version)
            if answer is None:
                self._coordinators.pop(GROUP_KEY, None)
            elif self._is_done(ErrorCode.of(answer.topics[0].partitions[0].error_code), GROUP_KEY):
                return
            await self._pause()
        raise MustAbort

    async def _add_offsets(self) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            group_id=self._group,
        )
        for _ in range(ATTEMPTS_MAX):
            node_id = await self._coordinator(TRANSACTION_KEY, self._id)
            answer = await self._ask_twice(node_id, request, AddOffsetsToTxnResponse, 3, 3)
            if answer is None:
                self._coordinators.pop(TRANSACTION_KEY, None)
            elif self._is_done(ErrorCode.of(answer.error_code), TRANSACTION_KEY):
                return
            await self._pause()
        raise MustAbort

    async def _end(self, operation: Operation, written: Written, *, commits: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=commits,
        )
        version = 5 if self._has_epoch_bump else 4
        if commits:
            written.commit_asked_ns = self._time.now_ns
        is_first = True  # no earlier attempt can have been executed unnoticed
        for _ in range(2 * ATTEMPTS_MAX):
            node_id = await self._coordinator(TRANSACTION_KEY, self._id)
            if not self._has_epoch_bump and node_id is not None and self._random.random() < 0.2:
                await self._hold_up(node_id, request, EndTxnResponse, version)
                is_first = False
            invoked_ns = self._time.now_ns
            answer = await self._ask(node_id, request, EndTxnResponse, version, version)
            if answer is None:
                is_first = is_first and node_id is None
                self._coordinators.pop(TRANSACTION_KEY, None)
                await self._pause()
                continue
            error = ErrorCode.of(answer.error_code)
            if error is ErrorCode.NONE:
                written.commit_invoked_ns = invoked_ns
                self._history.complete(operation, OK, COMMITTED if commits else ABORTED)
                if self._has_epoch_bump:
                    if (answer.producer_id, answer.producer_epoch) != (self._producer_id, self._epoch):
                        self._sequences.clear()
                    self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
                    if self._random.random() < 0.4:
                        delay_ms = self._random.randint(1, self._random.choice(DELAYS_MS_MAX))
                        self._clients.send_late(self._client, request, version, delay_ms)
                return
            if error in FENCED or error is ErrorCode.INVALID_TXN_STATE:
                # A server that cannot tell (COORDINATOR_NOT_AVAILABLE) may already have written the decision.
                self._complete_refused(operation, commits=commits, is_certain=is_first)
                raise Gone
            if error not in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR):
                is_first = False
            if error is not ErrorCode.CONCURRENT_TRANSACTIONS:
                self._coordinators.pop(TRANSACTION_KEY, None)
            await self._pause()
        self._complete_refused(operation, commits=commits, is_certain=False)
        raise Gone

    def _complete_refused(self, operation: Operation, *, commits: bool, is_certain: bool) -> None:
        if is_certain or not commits:
            self._history.complete(operation, OK, ABORTED)
        else:
            self._history.complete(operation, UNKNOWN, "no answer tells")
