"""Loads, writes and unloads the shards of one internal topic; once for all coordinators.

A shard follows its partition: `load` when this node becomes its leader, `unload` when it stops. In between every change
goes through `write`: encode, append, wait until the partition says it is committed, replay, answer. Nothing is replayed
or answered before it is committed, and everything is replayed in the order of the log.

Invariants: a shard serves only between `loaded` and `unloaded`; what it has replayed is a prefix of the committed log;
a write that failed or timed out after its append stays in the queue, because the log still holds it: it is replayed as
soon as anything behind it is committed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Generic, TypeVar

from chronik.coordinator.errors import Loading, NotCoordinator, told_to_clients
from chronik.coordinator.records import decode_record, encode_records
from chronik.coordinator.shard import Record, Shard, StatePartition, Writer, Written
from chronik.coordinator.timers import NS_PER_MS, Timers
from chronik.metadata.delta import Changes
from chronik.metadata.image import Image
from chronik.runtime.buggify import SMALL_LOADS, STILL_LOADING
from chronik.runtime.interfaces import Clock
from chronik.runtime.invariants import broken, check
from chronik.runtime.pieces import ITEMS_PER_PIECE, Work
from chronik.wire import batches, records
from chronik.wire.error_codes import ErrorCode

log = logging.getLogger("chronik.coordinator")

S = TypeVar("S", bound=Shard)

LOAD_BYTES = 1 << 20  # read at once while loading
LOAD_RECORDS_PER_SLICE = 500  # replayed before other work gets its turn: a few milliseconds
BATCH_BYTES_MAX = 64 << 20  # decompressed; we write batches plainly, other brokers may not have

LOAD_RETRY_MS = 100
COMMITTED_LATER = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)

_WRITE_TIMEOUT = object()  # the key of the timer that watches the queue's head


class _Write:
    """A batch in the log whose commit is awaited."""

    __slots__ = ("deadline_ns", "end_offset", "records", "written")

    def __init__(self, end_offset: int, appended: list[Record], written: Written, deadline_ns: int) -> None:
        self.end_offset = end_offset
        self.records = appended
        self.written: Written | None = written  # None once it has been answered
        self.deadline_ns = deadline_ns


class _Slot(Generic[S]):
    """One partition's shard, with the writes that are on their way."""

    def __init__(self, partition: StatePartition, clock: Clock, write_timeout_ms: int) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch  # of this load; the partition's own may move on under us
        self.timers = Timers(clock)
        self.shard: S  # set right after, since it is made with this slot as its writer
        self.is_active = False
        self.is_over = False
        self._clock = clock
        self._timeout_ns = write_timeout_ms * NS_PER_MS
        self._queue: deque[_Write] = deque()
        # Records of transactions that have not ended, by producer: they count once a COMMIT marker says so.
        self._open_transactions: dict[int, list[tuple[Record, int]]] = {}

    # --- writing

    def write(self, appended: list[Record], written: Written, batch: bytes | None = None) -> None:
        check(not self.is_over, "18 a shard that has ended writes nothing", partition=self.partition.index)
        if batch is None:
            batch = batches.build(encode_records(appended, self._clock.wall_ms()))
        try:
            end_offset = self.partition.append(batch)
        except Exception as error:  # noqa: BLE001 - what carries no code is raised again
            code = _code_of(error)
            log.warning("a write of %d records to partition %d failed: %s", len(appended), self.partition.index, error)
            written(told_to_clients(code))
            return
        self._await(end_offset, appended, written)

    def unsettled(self) -> Iterator[Record]:
        return (record for write in self._queue for record in write.records)

    @property
    def is_settled(self) -> bool:
        return not self._queue

    def when_settled(self, settled: Written) -> None:
        """Calls back once everything that is in the log now is committed and replayed; at once when it already is."""
        if self._queue:
            self._await(self._queue[-1].end_offset, [], settled)
        else:
            settled(ErrorCode.NONE)

    def _await(self, end_offset: int, appended: list[Record], written: Written) -> None:
        if _WRITE_TIMEOUT not in self.timers:
            self.timers.set(_WRITE_TIMEOUT, self._timeout_ns // NS_PER_MS, self._give_up_on_slow_writes)
        check(
            not self._queue or self._queue[-1].end_offset <= end_offset,
            "17 writes are queued in the order of the log",
            partition=self.partition.index,
            offset=end_offset,
        )
        write = _Write(end_offset, appended, written, self._clock.monotonic_ns() + self._timeout_ns)
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
        self._answer(write, told_to_clients(_code_of(failure)))

    def _apply_up_to(self, offset: int) -> None:
        check(
            not self.is_over, "18 a shard that has ended replays nothing", partition=self.partition.index, offset=offset
        )
        while self._queue and self._queue[0].end_offset <= offset:
            write = self._queue.popleft()
            base = write.end_offset - len(write.records)
            if base < self.partition.start_offset and write.records:
                broken("17 what is replayed is in the log", partition=self.partition.index, offset=base)
            for position, record in enumerate(write.records):
                self.shard.replay(record, base + position)
            self._answer(write, ErrorCode.NONE)

    def _answer(self, write: _Write, error: ErrorCode) -> None:
        written, write.written = write.written, None
        if written is not None:
            written(error)

    def _give_up_on_slow_writes(self) -> None:
        """Tells those who have waited too long. The writes stay queued: the log may still commit them."""
        now_ns = self._clock.monotonic_ns()
        for write in list(self._queue):
            if write.deadline_ns > now_ns:
                delay_ms = -(-(write.deadline_ns - now_ns) // NS_PER_MS)
                self.timers.set(_WRITE_TIMEOUT, delay_ms, self._give_up_on_slow_writes)
                return
            self._answer(write, told_to_clients(ErrorCode.REQUEST_TIMED_OUT))

    # --- loading and unloading

    async def load(self) -> None:
        """Replays the whole log, then waits until all of it is committed: what is not could still be lost."""
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
        """However long it takes: a leader stays one while it has too few replicas, and loads once it has enough."""
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
                await asyncio.sleep(LOAD_RETRY_MS / 1000)

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
                self._open_transactions.setdefault(batch.producer_id, []).append((known, record.offset))
            else:
                self.shard.replay(known, record.offset)
        return skipped_count

    def _end_transaction(self, producer_id: int, outcome: records.ControlType) -> None:
        if outcome not in (records.ControlType.COMMIT, records.ControlType.ABORT):
            return
        for record, offset in self._open_transactions.pop(producer_id, ()):
            if outcome is records.ControlType.COMMIT:
                self.shard.replay(record, offset)

    def end(self) -> None:
        """The shard goes first: its own answers then find nothing left to act on."""
        check(not self.is_over, "30 a shard ends once", partition=self.partition.index)
        self.is_over = True
        self.is_active = False
        self.shard.unloaded()
        for write in self._queue:
            self._answer(write, ErrorCode.NOT_COORDINATOR)
        self._queue.clear()
        self.timers.clear()


def _code_of(error: BaseException) -> ErrorCode:
    """The partition's errors belong to several packages; what they share is the code they carry. Others are bugs."""
    if isinstance(error, asyncio.CancelledError):
        return ErrorCode.NOT_COORDINATOR
    code = getattr(error, "kafka_error", None)
    if not isinstance(code, ErrorCode):
        raise error
    return code


class CoordinatorRuntime(Generic[S]):
    def __init__(
        self,
        topic: str,
        make_shard: Callable[[Writer, Timers], S],
        clock: Clock,
        write_timeout_ms: int,
    ) -> None:
        self.topic = topic
        self._make_shard = make_shard
        self._clock = clock
        self._write_timeout_ms = write_timeout_ms
        self._slots: dict[int, _Slot[S]] = {}
        self._image: Image | None = None  # the newest that was told

    def shard(self, index: int) -> S:
        """The shard of a partition that is led here and loaded; raises NotCoordinator or Loading otherwise."""
        return self._slot(index).shard

    def shards(self) -> list[S]:
        """All of them; raises Loading when one is not ready yet, since a partial answer would look complete."""
        return [self._slot(index).shard for index in self._slots]

    def active(self) -> list[tuple[int, S]]:
        """Those that are loaded, with their partitions."""
        return [(index, slot.shard) for index, slot in self._slots.items() if slot.is_active]

    def image_changed(self, image: Image, changes: Changes) -> None:
        self._image = image
        for _, shard in self.active():
            shard.image_changed(image, changes)

    def serves(self, index: int, shard: S) -> bool:
        """Whether this very shard is still the one of the partition; after an await it may not be."""
        slot = self._slots.get(index)
        return slot is not None and slot.is_active and slot.shard is shard

    def write(self, index: int, appended: list[Record], written: Written, batch: bytes | None = None) -> None:
        """`batch` is what `encoding` made of the records, where they are many."""
        self._served(index).write(appended, written, batch)

    def encoding(self, appended: list[Record]) -> Work[bytes]:
        """The batch of these records, made in pieces."""
        now_ms = self._clock.wall_ms()
        encoded: list[records.Record] = []
        for start in range(0, len(appended), ITEMS_PER_PIECE):
            encoded += encode_records(appended[start : start + ITEMS_PER_PIECE], now_ms, first_offset=start)
            yield 3
        return batches.build(encoded)

    def when_settled(self, index: int, settled: Written) -> None:
        self._slot(index).when_settled(settled)

    def _slot(self, index: int) -> _Slot[S]:
        slot = self._served(index)
        if STILL_LOADING.is_on and STILL_LOADING.fires():
            raise Loading(self.topic, index)
        return slot

    def _served(self, index: int) -> _Slot[S]:
        """For what follows a decision: once a shard has decided, its records must not be lost to a made-up fault."""
        slot = self._slots.get(index)
        if slot is None:
            raise NotCoordinator(self.topic, index)
        if not slot.is_active:
            raise Loading(self.topic, index)
        return slot

    async def load(self, partition: StatePartition) -> None:
        """Replays the partition's log and serves it from then on. A load of an older leadership is given up."""
        current = self._slots.get(partition.index)
        if current is not None:
            if current.leader_epoch >= partition.leader_epoch:
                return
            self.unload(partition.index)
        slot: _Slot[S] = _Slot(partition, self._clock, self._write_timeout_ms)
        slot.shard = self._make_shard(slot, slot.timers)
        check(
            partition.index not in self._slots,
            "18 a partition has one shard",
            topic=self.topic,
            partition=partition.index,
        )
        self._slots[partition.index] = slot
        try:
            await slot.load()
        except BaseException:
            if not slot.is_over:
                self.unload(partition.index)
            raise
        if not slot.is_over:
            check(
                self._slots.get(partition.index) is slot,
                "18 a partition has one shard",
                topic=self.topic,
                partition=partition.index,
                epoch=slot.leader_epoch,
            )
            check(
                slot.is_settled,
                "17 nothing is written to a shard while it loads",
                topic=self.topic,
                partition=partition.index,
            )
            slot.is_active = True
            slot.shard.loaded()
            if self._image is not None:
                slot.shard.image_changed(self._image, Changes())

    def unload(self, index: int, leader_epoch: int | None = None) -> None:
        """Stops serving a partition. With `leader_epoch`, only if nothing newer has been loaded in the meantime."""
        slot = self._slots.get(index)
        if slot is None or (leader_epoch is not None and slot.leader_epoch > leader_epoch):
            return
        del self._slots[index]
        slot.end()
        check(not slot.is_active, "18 a shard that has ended serves nobody", topic=self.topic, partition=index)
