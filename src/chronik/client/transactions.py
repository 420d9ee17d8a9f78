"""A producer whose records become visible together or not at all, with the consumer offsets they were computed from.

    async with TransactionalProducer(cluster, "billing-1") as producer:
        async with producer.transaction():
            await producer.send("invoices", value, key=key)
            await producer.send_offsets(consumer.positions(), consumer.membership)

`begin`, `commit` and `abort` are the single steps. A transactional id belongs to one producer at a time: a producer's
first transaction fences the previous producer of the id, and aborts its open transaction.

Callers must handle two errors. TransactionFailed: abort, then repeat the work. Fenced: close this producer. All other
retriable errors are retried here.

If the cluster has finalized transaction.version 2, each transaction has its own epoch, and a write adds its partition
to the transaction. On older clusters each partition is added by a request before its first batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeVar

from chronik.client.batching import NOBODY, Delivery, Identity
from chronik.client.errors import ClientError, Closed, DeliveryFailed, Fenced, Refused, TransactionFailed
from chronik.client.leaders import by_topic
from chronik.client.membership import Member
from chronik.client.producer import DELIVERY_TIMEOUT_MS, Producer
from chronik.client.routing import TRANSACTION
from chronik.client.topology import TopicPartition
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from chronik.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from chronik.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from chronik.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from chronik.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from chronik.wire.notation import VERSION_MAX, Request, Response

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient
    from chronik.wire.records import Headers

A = TypeVar("A", bound=Response)

TRANSACTION_TIMEOUT_MS: Final = 60_000
FEATURE: Final = "transaction.version"
EPOCH_BUMP_SINCE: Final = 2  # level of the feature
VERSION_BUMP: Final = 5  # EndTxn and TxnOffsetCommit version for clusters with that feature
VERSION_CLIENTS: Final = 3  # the last version of AddPartitionsToTxn for clients

# Another producer has taken over the transactional id, or the coordinator aborted the transaction and bumped the epoch.
FENCED: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    }
)


class State(Enum):
    NEW = "has no producer id yet"
    READY = "has no open transaction"
    OPEN = "has an open transaction"
    FAILED = "has a transaction that can only be aborted"
    OVER = "is fenced or closed"


class TransactionalProducer:
    def __init__(
        self,
        cluster: ClusterClient,
        transactional_id: str,
        *,
        timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS,
        **options: Any,
    ) -> None:
        """`timeout_ms`: the coordinator aborts a transaction that is open for longer. `options` are Producer's."""
        self._cluster = cluster
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._retry_ms = delivery_timeout_ms
        self._producer = Producer(cluster, delivery_timeout_ms=delivery_timeout_ms, transaction=self, **options)
        self._identity = NOBODY
        self._state = State.NEW
        self._has_epoch_bump = False
        self._included: set[TopicPartition] = set()
        self._adding = asyncio.Lock()
        self._is_begun = False  # the coordinator may know the transaction
        self._cause: ClientError | None = None  # why the transaction failed

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    @property
    def identity(self) -> Identity:
        """The id and epoch that the coordinator assigned to this producer."""
        return self._identity

    @property
    def producer(self) -> Producer:
        """The inner producer, for callers that watch its `stalls`."""
        return self._producer

    # --- transactions

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Commits at the end of the block; aborts if the block or the commit raises."""
        await self.begin()
        try:
            yield self
            await self.commit()
        except BaseException:
            await self._leave()
            raise

    async def begin(self) -> None:
        """The first call also fences the previous producer of the transactional id."""
        if self._state is State.NEW:
            await self._initialize()
        self._require(State.READY, "begin a transaction")
        self._included.clear()
        self._is_begun, self._cause = False, None
        self._producer.become(self._identity)
        self._state = State.OPEN

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> Coroutine[Any, Any, Delivery]:
        """Like Producer.send. A delivery gives a record's offset, not its visibility: that depends on `commit`.

        Raises when it is called, not when it is awaited: an extra coroutine would cost a tenth of the time per record.
        """
        if self._state is not State.OPEN:
            self._require(State.OPEN, "send a record")
        return self._producer.send(topic, value, key=key, partition=partition, timestamp=timestamp, headers=headers)

    async def send_offsets(
        self, positions: Mapping[TopicPartition, int], member: Member | None, *, metadata: str = ""
    ) -> None:
        """Sets the group's offsets if the transaction is committed."""
        self._require(State.OPEN, "commit offsets")
        if member is None:
            raise ValueError("committing offsets needs the group of a consumer: pass its `membership`")
        if not positions:
            return
        self._is_begun = True
        if not self._has_epoch_bump:
            request = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self._identity.producer_id,
                producer_epoch=self._identity.epoch,
                group_id=member.group_id,
            )

            async def add() -> None:
                answer = await self._ask(request, AddOffsetsToTxnResponse)
                self._refuse(answer.error_code, f"cannot add group {member.group_id!r} to the transaction")

            await self._retrying(add)
        await self._retrying(lambda: self._commit_offsets(positions, member, metadata))

    async def commit(self) -> None:
        """Returns when the commit is final. Raises TransactionFailed, after which you must abort."""
        if self._state is State.FAILED:
            assert self._cause is not None
            raise TransactionFailed(self.transactional_id, self._cause)
        self._require(State.OPEN, "commit a transaction")
        try:
            await self._producer.flush()
        except DeliveryFailed as failure:
            self._fail(failure.cause)
        if self._is_begun:
            await self._end(commits=True)
        self._state = State.READY

    async def abort(self) -> None:
        """Ends the transaction; readers of committed records never see its records."""
        if self._state not in (State.OPEN, State.FAILED):
            self._require(State.OPEN, "abort a transaction")
        why = Refused(ErrorCode.TRANSACTION_ABORTABLE, "the record was not sent", "its transaction was aborted")
        await self._producer.drop(why)
        if self._is_begun:
            # Without an epoch per transaction, a failed one leaves gaps in the sequences.
            needs_epoch = self._state is State.FAILED and not self._has_epoch_bump
            try:
                await self._end(commits=False)
            except TransactionFailed:
                needs_epoch = True  # the coordinator's state of the transaction differs: a new epoch ends it
            if needs_epoch:
                await self._initialize()
        self._state = State.READY

    async def close(self) -> None:
        """Aborts an open transaction."""
        try:
            await self._leave()
        finally:
            self._state = State.OVER
            await self._producer.close(flushes=False)

    async def _leave(self) -> None:
        if self._state in (State.OPEN, State.FAILED):
            with suppress(Fenced):  # the fencing producer has aborted the transaction
                await self.abort()

    # --- the producer's interface

    @property
    def adds_by_writing(self) -> bool:
        """Whether a write to a partition adds it to the transaction."""
        return self._has_epoch_bump

    async def include(self, partitions: Collection[TopicPartition]) -> None:
        """Adds partitions to the transaction before the first batch for them is sent."""
        self._is_begun = True
        if self._has_epoch_bump:
            return
        async with self._adding:
            missing = [at for at in partitions if at not in self._included]
            if not missing:
                return
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self._identity.producer_id,
                v3_and_below_producer_epoch=self._identity.epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name=name, partitions=[at.partition for at in them])
                    for name, them in by_topic(missing).items()
                ],
            )
            answer = await self._ask(request, AddPartitionsToTxnResponse, version_max=VERSION_CLIENTS)
            errors = {
                result.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for result in topic.results_by_partition
            }
            # One failed partition prevents adding the others, which then have OPERATION_NOT_ATTEMPTED: report it first.
            for code in sorted(errors, key=lambda code: code == ErrorCode.OPERATION_NOT_ATTEMPTED):
                self._refuse(code, f"cannot add partitions to the transaction of {self.transactional_id!r}")
            self._included.update(missing)

    # --- requests

    async def _initialize(self) -> None:
        """Gets a producer id and an epoch. The request names the current ones, if any, so it never fences a
        successor."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
        )

        async def attempt() -> None:
            self._has_epoch_bump = await self._finalized_level() >= EPOCH_BUMP_SINCE
            answer = await self._ask(request, InitProducerIdResponse)
            self._refuse(answer.error_code, f"cannot get a producer id for transactional id {self.transactional_id!r}")
            self._identity = Identity(answer.producer_id, answer.producer_epoch)

        await self._retrying(attempt)
        self._state = State.READY

    async def _finalized_level(self) -> int:
        node_id = await self._cluster.coordinator(self.transactional_id, TRANSACTION)
        connection = await self._cluster.to_node(node_id)
        return connection.features.get(FEATURE, 0)

    async def _commit_offsets(self, positions: Mapping[TopicPartition, int], member: Member, metadata: str) -> None:
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=member.group_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=at.partition, committed_offset=positions[at], committed_metadata=metadata
                        )
                        for at in them
                    ],
                )
                for name, them in by_topic(positions).items()
            ],
        )
        answer = await self._cluster.ask_coordinator(
            member.group_id,
            request,
            TxnOffsetCommitResponse,
            version_min=VERSION_BUMP if self._has_epoch_bump else 0,
            version_max=VERSION_BUMP if self._has_epoch_bump else VERSION_BUMP - 1,
        )
        for topic in answer.topics:
            for partition in topic.partitions:
                what = f"cannot commit the offset of {topic.name}-{partition.partition_index} in a transaction"
                self._cluster.refuse_from_coordinator(member.group_id, partition.error_code, what)

    async def _end(self, *, commits: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            committed=commits,
        )

        async def attempt() -> None:
            answer = await self._ask(
                request,
                EndTxnResponse,
                version_min=VERSION_BUMP if self._has_epoch_bump else 0,
                version_max=VERSION_BUMP if self._has_epoch_bump else VERSION_BUMP - 1,
            )
            what = f"cannot {'commit' if commits else 'abort'} the transaction of {self.transactional_id!r}"
            self._refuse(answer.error_code, what)
            if self._has_epoch_bump:
                self._identity = Identity(answer.producer_id, answer.producer_epoch)

        await self._retrying(attempt)

    async def _ask(
        self, request: Request, answer: type[A], *, version_min: int = 0, version_max: int = VERSION_MAX
    ) -> A:
        return await self._cluster.ask_coordinator(
            self.transactional_id,
            request,
            answer,
            key_type=TRANSACTION,
            version_min=version_min,
            version_max=version_max,
        )

    def _refuse(self, code: int, what: str) -> None:
        self._cluster.refuse_from_coordinator(self.transactional_id, code, what, key_type=TRANSACTION)

    async def _retrying(self, attempt: Callable[[], Awaitable[None]]) -> None:
        try:
            await self._cluster.retrying(attempt, timeout_ms=self._retry_ms)
        except ClientError as fault:
            self._fail(fault)

    # --- the state

    def _fail(self, fault: ClientError) -> NoReturn:
        """Raises the error that tells the caller how to continue."""
        if isinstance(fault, Refused) and fault.kafka_error in FENCED:
            self._state = State.OVER
            raise Fenced(self.transactional_id, self._timeout_ms, fault) from fault
        if self._state is State.NEW:
            raise fault
        self._state, self._cause = State.FAILED, fault
        raise TransactionFailed(self.transactional_id, fault) from fault

    def _require(self, state: State, what: str) -> None:
        if self._state is State.OVER:
            raise Closed(f"cannot {what}: the producer of {self.transactional_id!r} is fenced or closed")
        if self._state is not state:
            raise ClientError(f"cannot {what}: the producer of {self.transactional_id!r} {self._state.value}")
