"""One partition's shard, with its pending writes.

Every change goes through `write`: encode, append, wait for the commit, replay, respond. Records of types with
`at_append` are replayed right after the append, and the response waits for the commit as well. No response is sent
before the commit, and everything is replayed in log order.

Invariants: for each record type, the replayed records are a prefix of the log, and of the committed log unless the type
has `at_append`. A failed append changes nothing. A write that failed or timed out after its append stays in the queue,
because it is still in the log: it is settled when it, or a later write, is committed. While this node leads, an
appended batch is never removed. So records that were replayed at append need to be undone only when the leadership
ends, and then the whole shard is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Generic, TypeVar

from chronik.coordinator.errors import told_to_clients
from chronik.coordinator.open_transactions import Producer, marker_batch, transactional_batch
from chronik.coordinator.records import decode_record, encode_records
from chronik.coordinator.shard import CoordinatorRecord, OnWritten, Shard, StatePartition
from chronik.coordinator.timers import Timers
from chronik.runtime.buggify import SMALL_LOADS
from chronik.runtime.interfaces import Clock
from chronik.runtime.invariants import broken, check
from chronik.runtime.units import NS_PER_MS
from chronik.storage.transaction_guards import Guard
from chronik.wire import batches, records
from chronik.wire.error_codes import ErrorCode
from chronik.wire.notation import InternalRecord

log = logging.getLogger("chronik.coordinator")

S = TypeVar("S", bound=Shard)

LOAD_BYTES = 1 << 20  # bytes per read while loading
LOAD_RECORDS_PER_SLICE = 500  # replayed before other work can run: a few milliseconds
BATCH_BYTES_MAX = 64 << 20  # decompressed; this release writes no compressed batches, but other brokers may

RETRY_MS = 100  # before the next wait for the commit of a record in the log
COMMITTED_LATER = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)

_WRITE_TIMEOUT = object()  # the key of the timer for the oldest write in the queue


class _Write:
    """A batch in the log that is not committed yet."""

    __slots__ = ("deadline_ns", "end_offset", "outcome", "producer", "records", "written")

    def __init__(
        self,
        end_offset: int,
        appended: list[CoordinatorRecord],
        written: OnWritten,
        deadline_ns: int,
        producer: Producer | None,
        outcome: records.ControlType | None,
    ) -> None:
        self.end_offset = end_offset
        self.records = appended
        self.producer = producer  # the producer of its transaction
        self.outcome = outcome  # of that transaction, if this is a marker
        self.written: OnWritten | None = written  # None once it has been called
        self.deadline_ns = deadline_ns


class Slot(Generic[S]):
    """One partition's shard, with its pending writes."""

    def __init__(self, partition: StatePartition, clock: Clock, write_timeout_ms: int) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch  # as of this load; the partition's epoch may increase later
        self.timers = Timers(clock)
        self.shard: S  # set by `hold`, because the shard is created with this slot as its writer
        self._at_append: frozenset[type[InternalRecord]] = frozenset()  # keys of records that are replayed at append
        self.is_active = False
        self.is_over = False
        self._clock = clock
        self._timeout_ns = write_timeout_ms * NS_PER_MS
        self._queue: deque[_Write] = deque()
        self._committed_offset = 0
        self._is_applying = False

    def hold(self, shard: S) -> None:
        self.shard = shard
        self._at_append = frozenset(kind.key for kind in shard.record_types.values() if kind.at_append)

    # --- writing

    def write(
        self,
        appended: list[CoordinatorRecord],
        written: OnWritten,
        batch: bytes | None = None,
        *,
        producer: Producer | None = None,
        guard: Guard | None = None,
    ) -> bool:
        check(not self.is_over, "18 a shard that has ended writes nothing", partition=self.partition.index)
        if not appended:
            self.when_settled(written)
            return True
        if batch is None:
            encoded = encode_records(appended, self._clock.wall_ms())
            batch = batches.build(encoded) if producer is None else transactional_batch(encoded, producer)
        if self._at_append and producer is not None:
            check(
                self._at_append.isdisjoint([type(record.key) for record in appended]),
                "17 what belongs to a transaction is not replayed before its end",
                partition=self.partition.index,
                producer=producer.producer_id,
            )
        end_offset = self._append(batch, written, len(appended), guard=guard)
        if end_offset is None:
            return False
        for offset, record in enumerate(appended, end_offset - len(appended)) if self._at_append else ():
            if type(record.key) in self._at_append:
                self.shard.replay(record, offset)
        self._await(end_offset, appended, written, producer)
        return True

    def end_transaction(
        self,
        producer: Producer,
        outcome: records.ControlType,
        coordinator_epoch: int,
        written: OnWritten,
        transaction_version: int = 0,
    ) -> None:
        check(not self.is_over, "18 a shard that has ended writes nothing", partition=self.partition.index)
        batch = marker_batch(producer, outcome, coordinator_epoch, self._clock.wall_ms())
        end_offset = self._append(batch, written, 1, transaction_version)
        if end_offset is not None:
            self._await(end_offset, [], written, producer, outcome)

    def _append(
        self,
        batch: bytes,
        written: OnWritten,
        count: int,
        transaction_version: int = 0,
        guard: Guard | None = None,
    ) -> int | None:
        """The offset after the batch; None if the log refused it and the error was reported."""
        before = self.partition.end_offset
        try:
            end_offset = self.partition.append(batch, transaction_version, guard)
        except Exception as error:  # noqa: BLE001 - what carries no code is raised again
            code = _code_of(error)
            log.warning("a write of %d records to partition %d failed: %s", count, self.partition.index, error)
            written(told_to_clients(code))
            return None
        # A log answers a client's duplicate batch without writing it. All batches of a coordinator begin with sequence
        # 0, so a batch that was mistaken for a duplicate would be acknowledged and lost.
        check(
            end_offset == before + count,
            "17 a coordinator's records stand at the end of the log",
            partition=self.partition.index,
            before=before,
            end=end_offset,
            count=count,
        )
        return end_offset

    def unsettled(self) -> Iterator[CoordinatorRecord]:
        in_flight = (record for write in self._queue for record in write.records)
        return chain(in_flight, self.shard.open_transactions.records())

    @property
    def is_settled(self) -> bool:
        return not self._queue

    def when_settled(self, settled: OnWritten) -> None:
        """Calls back once everything that is in the log now is committed and replayed; at once if it already is."""
        if self._queue:
            self._await(self._queue[-1].end_offset, [], settled)
        else:
            settled(ErrorCode.NONE)

    def _await(
        self,
        end_offset: int,
        appended: list[CoordinatorRecord],
        written: OnWritten,
        producer: Producer | None = None,
        outcome: records.ControlType | None = None,
    ) -> None:
        if _WRITE_TIMEOUT not in self.timers:
            self.timers.set(_WRITE_TIMEOUT, self._timeout_ns // NS_PER_MS, self._give_up_on_slow_writes)
        check(
            not self._queue or self._queue[-1].end_offset <= end_offset,
            "17 writes are queued in the order of the log",
            partition=self.partition.index,
            offset=end_offset,
        )
        deadline_ns = self._clock.monotonic_ns() + self._timeout_ns
        write = _Write(end_offset, appended, written, deadline_ns, producer, outcome)
        self._queue.append(write)
        committed = self.partition.when_committed(end_offset)
        if committed is None:
            self._apply_up_to(end_offset)
        else:
            committed.add_done_callback(partial(self._settle, write))

    def _settle(self, write: _Write, committed: asyncio.Future[None]) -> None:
        failure = asyncio.CancelledError() if committed.cancelled() else committed.exception()
        if self.is_over:
            return
        if failure is None:
            self._apply_up_to(write.end_offset)
            return
        log.warning(
            "the commit of offset %d of partition %d failed: %s", write.end_offset, self.partition.index, failure
        )
        code = _code_of(failure)
        self._answer(write, told_to_clients(code))
        if code in COMMITTED_LATER:
            self.timers.set(write, RETRY_MS, partial(self._watch, write))

    def _watch(self, write: _Write) -> None:
        """Waits again for a write that was reported as failed: it is still in the log, and there may be no later write
        that settles it."""
        if write not in self._queue:
            return
        try:
            committed = self.partition.when_committed(write.end_offset)
        except Exception as error:  # noqa: BLE001 - what carries no code is raised again
            if _code_of(error) in COMMITTED_LATER:
                self.timers.set(write, RETRY_MS, partial(self._watch, write))
            return
        if committed is None:
            self._apply_up_to(write.end_offset)
        else:
            committed.add_done_callback(partial(self._settle, write))

    def _apply_up_to(self, offset: int) -> None:
        check(
            not self.is_over, "18 a shard that has ended replays nothing", partition=self.partition.index, offset=offset
        )
        self._committed_offset = max(self._committed_offset, offset)
        if self._is_applying:
            return  # a replay caused a write that is committed at once: it is replayed after the current one
        self._is_applying = True
        try:
            while self._queue and self._queue[0].end_offset <= self._committed_offset:
                write = self._queue.popleft()
                base = write.end_offset - len(write.records)
                if base < self.partition.start_offset and write.records:
                    broken("17 what is replayed is in the log", partition=self.partition.index, offset=base)
                self._apply(write, base)
                self._answer(write, ErrorCode.NONE)
        finally:
            self._is_applying = False

    def _apply(self, write: _Write, base: int) -> None:
        if write.outcome is not None and write.producer is not None:
            self._end_transaction(write.producer.producer_id, write.outcome)
        elif write.producer is not None:
            for offset, record in enumerate(write.records, base):
                self.shard.open_transactions.add(write.producer.producer_id, record, offset)
        else:
            at_append = self._at_append
            for offset, record in enumerate(write.records, base):
                if not at_append or type(record.key) not in at_append:
                    self.shard.replay(record, offset)

    def _answer(self, write: _Write, error: ErrorCode) -> None:
        written, write.written = write.written, None
        if written is not None:
            written(error)

    def _give_up_on_slow_writes(self) -> None:
        """Fails requests that have waited too long. Their writes stay queued, because the log may still commit them."""
        now_ns = self._clock.monotonic_ns()
        for write in list(self._queue):
            if write.deadline_ns > now_ns:
                delay_ms = -(-(write.deadline_ns - now_ns) // NS_PER_MS)
                self.timers.set(_WRITE_TIMEOUT, delay_ms, self._give_up_on_slow_writes)
                return
            self._answer(write, told_to_clients(ErrorCode.REQUEST_TIMED_OUT))

    # --- loading and unloading

    async def load(self) -> None:
        """Replays the whole log, then waits until all of it is committed, because uncommitted records could be lost."""
        end_offset = self.partition.end_offset
        offset = self.partition.start_offset
        skipped_count = 0
        while offset < end_offset and not self.is_over:
            pieces = self.partition.read(offset, 1 if SMALL_LOADS.is_on and SMALL_LOADS.fires() else LOAD_BYTES)
            if not pieces:
                break  # compaction has removed the rest
            for piece in pieces:
                for batch in batches.split(piece):
                    skipped_count += await self._replay_batch(batch)
                    offset = batch.next_offset
        await self._committed(end_offset)
        if skipped_count:
            log.info("partition %d: skipped %d records of unknown types", self.partition.index, skipped_count)

    async def _committed(self, end_offset: int) -> None:
        """Waits without a time limit: with too few in-sync replicas, the node stays leader, and loads when it has
        enough."""
        told = ""
        while not self.is_over:
            try:
                committed = self.partition.when_committed(end_offset)
                if committed is None:
                    return
                await committed
            except Exception as error:
                if _code_of(error) not in COMMITTED_LATER:
                    raise
                if str(error) != told:
                    told = str(error)
                    log.info("partition %d waits to be loaded: %s", self.partition.index, error)
                await asyncio.sleep(RETRY_MS / 1000)

    async def _replay_batch(self, batch: batches.BatchView) -> int:
        skipped_count = 0
        for number, record in enumerate(records.iterate(batch, BATCH_BYTES_MAX)):
            if number % LOAD_RECORDS_PER_SLICE == 0:
                await asyncio.sleep(0)
                if self.is_over:
                    break
            if batch.is_control:
                self._end_transaction(batch.producer_id, records.control_type(record))
                continue
            known = record.key and decode_record(
                self.shard.record_types,
                memoryview(record.key),
                None if record.value is None else memoryview(record.value),
            )
            if not known:
                skipped_count += 1
            elif batch.is_transactional:
                self.shard.open_transactions.add(batch.producer_id, known, record.offset)
            else:
                self.shard.replay(known, record.offset)
        return skipped_count

    def _end_transaction(self, producer_id: int, outcome: records.ControlType) -> None:
        if outcome not in (records.ControlType.COMMIT, records.ControlType.ABORT):
            return
        for record, offset in self.shard.open_transactions.end(producer_id):
            if outcome is records.ControlType.COMMIT:
                self.shard.replay(record, offset)

    def end(self) -> None:
        """Ends the shard first, so that its responses cannot cause further writes."""
        check(not self.is_over, "30 a shard ends once", partition=self.partition.index)
        self.is_over = True
        self.is_active = False
        self.shard.unloaded()
        for write in self._queue:
            self._answer(write, ErrorCode.NOT_COORDINATOR)
        self._queue.clear()
        self.timers.clear()


def _code_of(error: BaseException) -> ErrorCode:
    """The error code of a partition's error, which may come from several packages. Other exceptions are bugs."""
    if isinstance(error, asyncio.CancelledError):
        return ErrorCode.NOT_COORDINATOR
    code = getattr(error, "kafka_error", None)
    if not isinstance(code, ErrorCode):
        raise error
    return code
