"""The transaction coordinator's interface for the broker's handlers: one method per API.

Methods return client errors as codes and never raise for them. A transactional id is stored in the partition of
`__transaction_state` that `partition_for` returns. If this node does not lead that partition, the result is
NOT_COORDINATOR; while it is loading, COORDINATOR_LOAD_IN_PROGRESS. The handlers check permissions and whether topics
exist.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple

from chronik.coordinator.errors import CoordinatorError, Loading
from chronik.coordinator.partitions import partition_for
from chronik.coordinator.runtime import CoordinatorRuntime
from chronik.coordinator.shard import StatePartition
from chronik.coordinator.transactions import transitions
from chronik.coordinator.transactions.config import TransactionsConfig
from chronik.coordinator.transactions.markers import MarkerWriter
from chronik.coordinator.transactions.shard import Entry, Known, TransactionShard
from chronik.coordinator.transactions.transaction import (
    EPOCH_BUMP_SINCE,
    NEVER_MS,
    State,
    TopicPartition,
    Transaction,
)
from chronik.coordinator.transactions.transitions import Needs, Outcome, Producer
from chronik.metadata.delta import Changes
from chronik.metadata.image import Image
from chronik.runtime.interfaces import Clock
from chronik.runtime.units import NS_PER_MS
from chronik.wire.batches import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from chronik.wire.error_codes import ErrorCode

log = logging.getLogger("chronik.coordinator.transactions")

STATE_TOPIC: Final = "__transaction_state"
ATTEMPTS_MAX: Final = 5  # attempts to decide a request, if the transaction changes while it waits or gets a producer id
# How long a new transaction waits for the end of the previous one, whose markers take about as long as two commits. A
# client that must retry comes back after at least 20 ms.
PATIENCE_MS: Final = 100

Decide = Callable[[Known, int | None], Outcome]  # the second argument is a new producer id, if one was fetched


class Initialized(NamedTuple):
    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class NoProducerId(Exception):
    """The controller did not allocate producer ids; `kafka_error` is the reason."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(f"no producer id could be allocated: {error.name}")
        self.kafka_error = error


class TransactionCoordinator:
    def __init__(
        self,
        config: TransactionsConfig,
        clock: Clock,
        partition_count: int,
        *,
        next_producer_id: Callable[[], Awaitable[int]],
        markers: MarkerWriter,
        start: Callable[[str, Coroutine[Any, Any, None]], object],
    ) -> None:
        """`next_producer_id` raises NoProducerId. `start` runs a coroutine as a task of the node."""
        self.config = config
        self.partition_count = partition_count  # of __transaction_state; set it if the topic has a different number
        self._clock = clock
        self._next_producer_id = next_producer_id
        self._start = start
        self._runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            STATE_TOPIC,
            lambda writer, timers, partition: TransactionShard(
                partition.index, partition.leader_epoch, config, clock, writer, timers, markers, self._time_out
            ),
            clock,
            config.write_timeout_ms,
        )

    # --- partitions

    def partition_for(self, transactional_id: str) -> int:
        return partition_for(transactional_id, self.partition_count)

    async def load(self, partition: StatePartition) -> None:
        await self._runtime.load(partition)

    def unload(self, partition_index: int, leader_epoch: int | None = None) -> None:
        self._runtime.unload(partition_index, leader_epoch)

    def image_changed(self, image: Image, changes: Changes) -> None:
        self._runtime.image_changed(image, changes)

    # --- InitProducerId

    async def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: Producer | None,
        *,
        has_two_phase_commit: bool = False,
        keeps_prepared: bool = False,
    ) -> Initialized:
        if not transactional_id:
            return Initialized(ErrorCode.INVALID_REQUEST)
        if has_two_phase_commit and not self.config.has_two_phase_commit:
            return Initialized(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if keeps_prepared:
            return Initialized(ErrorCode.UNSUPPORTED_VERSION)
        if has_two_phase_commit:
            timeout_ms = NEVER_MS
        elif not 0 < timeout_ms <= self.config.timeout_ms_max:
            return Initialized(ErrorCode.INVALID_TRANSACTION_TIMEOUT)

        def decide(known: Known, new_id: int | None) -> Outcome:
            return transitions.initialize(
                known.current,
                transactional_id,
                expected,
                timeout_ms=timeout_ms,
                is_pending=known.is_pending,
                transaction_version=known.transaction_version,
                new_producer_id=new_id,
                now_ms=self._clock.wall_ms(),
            )

        done = await self._change(transactional_id, decide)
        if isinstance(done, ErrorCode):
            return Initialized(done)
        if done.state is State.PREPARE_ABORT:
            return Initialized(ErrorCode.CONCURRENT_TRANSACTIONS)  # its producer is fenced now; the client retries
        return Initialized(ErrorCode.NONE, done.producer_id, done.producer_epoch)

    # --- AddPartitionsToTxn, AddOffsetsToTxn

    async def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        verify_only: bool = False,
        transaction_version: int,
        connection: int = 0,
    ) -> dict[TopicPartition, ErrorCode]:
        """Adds the partitions to the transaction, which this begins if needed; with `verify_only`, returns whether each
        is in it.

        `connection` is the number of the producer's connection, 0 for a request from another node (see `_is_late`).
        """
        producer, asked = Producer(producer_id, producer_epoch), frozenset(partitions)
        if not transactional_id:
            return dict.fromkeys(asked, ErrorCode.INVALID_REQUEST)
        if verify_only:
            try:
                current = self._shard(transactional_id).find(transactional_id).current
            except CoordinatorError as error:
                return dict.fromkeys(asked, error.kafka_error)
            return transitions.verify_partitions(current, producer, asked)

        def decide(known: Known, new_id: int | None) -> Outcome:
            if _is_late(known, producer, connection):
                return ErrorCode.INVALID_TXN_STATE
            return transitions.add_partitions(
                known.current,
                producer,
                asked,
                client_version=transaction_version,
                is_pending=known.is_pending,
                now_ms=self._clock.wall_ms(),
            )

        done = await self._change(transactional_id, decide, connection, PATIENCE_MS)
        return dict.fromkeys(asked, done if isinstance(done, ErrorCode) else ErrorCode.NONE)

    # --- EndTxn

    async def end(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        commits: bool,
        transaction_version: int,
        connection: int = 0,
    ) -> Initialized:
        """Decides the transaction. Returns when the decision is committed; markers follow.

        With epoch bump the result names the id and epoch for the producer's next transaction.
        """
        if not transactional_id:
            return Initialized(ErrorCode.INVALID_REQUEST)
        producer = Producer(producer_id, producer_epoch)
        has_epoch_bump = transaction_version >= EPOCH_BUMP_SINCE

        def decide(known: Known, new_id: int | None) -> Outcome:
            now_ms = self._clock.wall_ms()
            if not has_epoch_bump:
                if _is_late(known, producer, connection):
                    return ErrorCode.INVALID_TXN_STATE
                return transitions.end_with_same_epoch(
                    known.current, producer, commits=commits, is_pending=known.is_pending, now_ms=now_ms
                )
            return transitions.end_with_epoch_bump(
                known.current,
                producer,
                commits=commits,
                client_version=transaction_version,
                is_pending=known.is_pending,
                new_producer_id=new_id,
                now_ms=now_ms,
            )

        done = await self._change(transactional_id, decide, connection)
        if isinstance(done, Transaction):
            if not has_epoch_bump:
                return Initialized(ErrorCode.NONE)
            after = transitions.complete(done, 0)
            return Initialized(ErrorCode.NONE, after.producer_id, after.producer_epoch)
        if done is not ErrorCode.NONE or not has_epoch_bump:
            return Initialized(done)
        try:
            current = self._shard(transactional_id).find(transactional_id).current  # a repeated request
        except CoordinatorError as error:
            return Initialized(error.kafka_error)
        if current is None:
            return Initialized(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return Initialized(ErrorCode.NONE, current.producer_id, current.producer_epoch)

    def _time_out(self, transactional_id: str, failed: Callable[[], None]) -> None:
        self._start(f"abort {transactional_id}", self._abort_timed_out(transactional_id, failed))

    async def _abort_timed_out(self, transactional_id: str, failed: Callable[[], None]) -> None:
        def decide(known: Known, new_id: int | None) -> Outcome:
            if known.current is None or known.is_pending or known.current.state is not State.ONGOING:
                return ErrorCode.NONE
            return transitions.fence(
                known.current,
                transaction_version=known.transaction_version,
                new_producer_id=new_id,
                now_ms=self._clock.wall_ms(),
            )

        done = await self._change(transactional_id, decide)
        if isinstance(done, Transaction):
            log.info(
                "aborted the transaction of %r: it was open for longer than its timeout of %d ms",
                transactional_id,
                done.timeout_ms,
            )
        elif done is not ErrorCode.NONE:
            log.warning("could not abort the transaction of %r after its timeout: %s", transactional_id, done.name)
            failed()

    # --- reading

    def describe(self, transactional_id: str) -> Entry | ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        try:
            entry = self._shard(transactional_id).entries.get(transactional_id)
        except CoordinatorError as error:
            return error.kafka_error
        if entry is None or entry.current is None or entry.is_removing:
            return ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return entry

    def transactions(self) -> list[Transaction] | ErrorCode:
        """All transactions that this node coordinates. An error while a partition is loading, because a partial list
        would look complete."""
        try:
            shards = self._runtime.shards()
        except Loading as error:
            return error.kafka_error
        return [
            entry.current
            for shard in shards
            for entry in shard.entries.values()
            if entry.current is not None and not entry.is_removing
        ]

    def expire(self, now_ms: int) -> None:
        """Removes ids that were not used for `id_expiration_ms`."""
        for _, shard in self._runtime.active():
            shard.expire(now_ms)

    # --- writing transitions

    def _shard(self, transactional_id: str) -> TransactionShard:
        return self._runtime.shard(self.partition_for(transactional_id))

    async def _change(
        self, transactional_id: str, decide: Decide, connection: int = 0, patience_ms: int = 0
    ) -> Transaction | ErrorCode:
        """Writes the result of `decide`. Returns the transaction once its record is committed, or the error of the
        write.

        A positive `patience_ms` is for requests that begin a transaction: it waits for the end of the previous
        transaction, so that the client need not retry, and the new record shares the commit of that transaction's
        completion.
        """
        new_id: int | None = None
        until_ns = self._clock.monotonic_ns() + patience_ms * NS_PER_MS

        def step() -> _Written | Needs | ErrorCode:
            shard = self._shard(transactional_id)
            known = shard.find_to_begin(transactional_id) if patience_ms else shard.find(transactional_id)
            outcome = decide(known, new_id)
            return self._write(shard, outcome) if isinstance(outcome, Transaction) else outcome

        try:
            for _ in range(ATTEMPTS_MAX):
                done = step()
                if done is ErrorCode.CONCURRENT_TRANSACTIONS:
                    left_ns = until_ns - self._clock.monotonic_ns()
                    done = await self._when_open(transactional_id, step, left_ns) if left_ns > 0 else done
                if isinstance(done, Needs):
                    new_id = await self._next_producer_id()
                elif isinstance(done, ErrorCode):
                    if done is not ErrorCode.CONCURRENT_TRANSACTIONS or self._clock.monotonic_ns() >= until_ns:
                        return done
                else:
                    error = await done.settled
                    if error is ErrorCode.NONE:
                        done.shard.served(done.transaction, connection)
                    return done.transaction if error is ErrorCode.NONE else error
        except (CoordinatorError, NoProducerId) as fault:
            return fault.kafka_error
        return ErrorCode.CONCURRENT_TRANSACTIONS

    async def _when_open(
        self, transactional_id: str, step: Callable[[], _Written | Needs | ErrorCode], within_ns: int
    ) -> _Written | Needs | ErrorCode:
        """Runs `step` at the moment when the id's next transaction may begin."""
        taken: asyncio.Future[_Written | Needs | ErrorCode] = asyncio.get_running_loop().create_future()

        def take() -> None:
            if taken.done():
                return
            try:
                taken.set_result(step())
            except CoordinatorError as fault:
                taken.set_exception(fault)

        self._shard(transactional_id).when_open(transactional_id, take)
        try:
            async with asyncio.timeout(within_ns / 1e9):
                return await taken
        except TimeoutError:
            return ErrorCode.CONCURRENT_TRANSACTIONS

    def _write(self, shard: TransactionShard, outcome: Transaction) -> _Written:
        settled: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        records, written = shard.change(outcome, partial(_resolve, settled))
        if not self._runtime.write(shard.index, records, written):
            shard.take_back(outcome.transactional_id)
        return _Written(shard, outcome, settled)


class _Written(NamedTuple):
    """A transition whose record was appended to the log."""

    shard: TransactionShard
    transaction: Transaction
    settled: asyncio.Future[ErrorCode]


def _is_late(known: Known, producer: Producer, connection: int) -> bool:
    """Whether a request of a producer without epoch bump comes from its past.

    Its transactions all have the same epoch, so a request that was delayed in the network would end, or extend, a later
    transaction than it was meant for. A client has one connection to its coordinator, and opens a new one only after it
    has given up the one before. So a request on an older connection than one that was served since is late. A producer
    with a new epoch may have an older connection than the one that it replaces, for example if it waited to take over.
    A producer with an older epoch is fenced, which its client has to hear.
    """
    is_present = known.current is not None and known.current.producer == producer
    return is_present and 0 < connection < known.connection


def _resolve(future: asyncio.Future[ErrorCode], error: ErrorCode) -> None:
    if not future.done():  # done: the client is gone and its handler was cancelled
        future.set_result(error)
