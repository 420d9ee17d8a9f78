"""A log's state of its idempotent and transactional producers. Pure state, no I/O, no clock.

`check_batch` decides whether a leader may append a batch: the batch continues its producer's sequence, repeats one of
the last five batches, or is refused. It changes nothing. `note_batch` records a written batch and refuses nothing.
Followers and recovery only call `note_batch`, so the state is always derived from the log. After a truncation fewer of
a producer's last batches may be known, and all guards are dropped.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from operator import itemgetter
from typing import NamedTuple

from chronik.runtime.invariants import broken, check
from chronik.runtime.pieces import ITEMS_PER_PIECE, Work, at_once
from chronik.storage.errors import (
    CoordinatorFenced,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
)
from chronik.storage.origins import Origin
from chronik.storage.transaction_guards import Guard, TransactionGuards
from chronik.wire import records
from chronik.wire.batches import CONTROL, TRANSACTIONAL, BatchView
from chronik.wire.records import ControlType

BATCHES_KEPT = 5  # a producer has at most five requests in flight, so a retry is one of these
SEQUENCE_MAX = 2**31 - 1
EPOCH_MAX = 2**15 - 1
STRICT_MARKERS = 2  # from this transaction version on, a marker's epoch is higher than its transaction's
CLIENT = Origin.CLIENT
HEADER = struct.Struct(">II")
PRODUCER = struct.Struct(">qhiqqB")
BATCH = struct.Struct(">iiqqq")
ABORTED = struct.Struct(">qqqq")
ENDED = struct.Struct(">qq")
MARKER_BYTES_MAX = 1 << 16  # a control batch holds one small record
TRANSACTIONAL_OR_CONTROL = TRANSACTIONAL | CONTROL
_new = tuple.__new__


class WrittenBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp_ms: int


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int  # offset of the abort marker
    last_stable_offset: int  # last stable offset of the log when the marker was written


class Producer:
    """`batches` holds the last batches of the current epoch, newest last. It is empty after a marker that raised the
    epoch."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp_ms",
        "silent_since_ms",
        "transaction_first_offset",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.coordinator_epoch = -1
        self.last_timestamp_ms = -1
        self.silent_since_ms = -1  # -1: active since the last `expiring`; not durable
        self.transaction_first_offset = -1  # -1: no transaction is open
        self.batches: list[WrittenBatch] = []

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1

    def written_before(self, first_sequence: int, last_sequence: int) -> WrittenBatch | None:
        for written in self.batches:
            if written.first_sequence == first_sequence and written.last_sequence == last_sequence:
                return written
        return None


class ProducerState:
    def __init__(self) -> None:
        self.producers: dict[int, Producer] = {}
        self.guards = TransactionGuards()
        self._open: dict[int, int] = {}  # producer id -> first offset of its open transaction, oldest first
        self._ended: list[tuple[int, int]] = []  # (first offset, marker's offset) of ended transactions, until settled
        # The entries of `_ended` without a later entry that began earlier. So the first of them has the lowest first
        # offset.
        self._ended_first: deque[tuple[int, int]] = deque()
        # While a snapshot is encoded: the producers that changed since it began.
        self._before: dict[int, bytes] | None = None

    def guard_for(self, producer_id: int, epoch: int, first_sequence: int, *, is_tv2: bool) -> Guard | None:
        """Returns the guard for the request that asks whether a transaction includes this partition. None: the
        transaction is open here in this epoch, so its coordinator knows it. A transaction of an older epoch may have
        ended although its marker has not arrived here."""
        producer = self.producers.get(producer_id)
        if producer is not None:
            if epoch < producer.epoch:
                raise InvalidProducerEpoch(producer_id, epoch, producer.epoch)
            if producer.transaction_first_offset >= 0 and epoch == producer.epoch:
                return None
        return self.guards.begin(producer_id, epoch, first_sequence, is_tv2=is_tv2)

    def check_batch(
        self, batch: BatchView, origin: Origin = CLIENT, guard: Guard | None = None, transaction_version: int = 0
    ) -> WrittenBatch | None:
        """None: append the batch. A WrittenBatch: the batch is a duplicate of it. Raises if the batch may not be
        written."""
        first = batch.base_sequence
        last = (first + batch.last_offset_delta) & SEQUENCE_MAX
        if origin is CLIENT and not batch.attributes & TRANSACTIONAL_OR_CONTROL:
            return self.check(batch.producer_id, batch.producer_epoch, first, last)
        if batch.attributes & CONTROL:
            marker = next(records.iterate(batch, MARKER_BYTES_MAX))
            coordinator_epoch = records.coordinator_epoch(marker)
            self.check_marker(batch.producer_id, batch.producer_epoch, coordinator_epoch, transaction_version)
            return None
        if origin is not CLIENT:
            self._check_epoch(batch)
            self._check_open(batch, guard)
            return None
        producer = self.producers.get(batch.producer_id)
        if producer is not None and producer.epoch == batch.producer_epoch:
            written = producer.written_before(first, last)
            if written is not None:
                return written
        self._check_epoch(batch)
        self._check_open(batch, guard)
        return self.check(batch.producer_id, batch.producer_epoch, first, last, transactional=True)

    def _check_epoch(self, batch: BatchView) -> None:
        producer = self.producers.get(batch.producer_id)
        if producer is not None and batch.producer_epoch < producer.epoch:
            raise InvalidProducerEpoch(batch.producer_id, batch.producer_epoch, producer.epoch)

    def _check_open(self, batch: BatchView, guard: Guard | None) -> None:
        """Raises unless the batch belongs to a transaction that its coordinator knows to be open on this partition."""
        producer_id, epoch = batch.producer_id, batch.producer_epoch
        producer = self.producers.get(producer_id)
        if producer is not None and producer.transaction_first_offset >= 0 and producer.epoch == epoch:
            return
        if not self.guards.is_current(producer_id, guard):
            raise InvalidTransactionState(
                f"producer {producer_id} sent a transactional batch in epoch {epoch}, but the partition has no open "
                "transaction of that epoch: send it again, or abort the transaction"
            )

    def note_batch(self, batch: BatchView, offset: int, timestamp_ms: int) -> AbortedTransaction | None:
        """Records that the batch was written at `offset`. Returns the transaction that it aborts, if any."""
        last_offset = offset + batch.last_offset_delta
        if not batch.attributes & CONTROL:
            first = batch.base_sequence
            last = (first + batch.last_offset_delta) & SEQUENCE_MAX
            transactional = batch.attributes & TRANSACTIONAL != 0
            self.append(
                batch.producer_id,
                batch.producer_epoch,
                first,
                last,
                offset,
                last_offset,
                timestamp_ms,
                transactional=transactional,
            )
        elif batch.record_count:  # otherwise compaction has removed the marker
            marker = next(records.iterate(batch, MARKER_BYTES_MAX))
            kind = records.control_type(marker)
            if kind in (ControlType.COMMIT, ControlType.ABORT):
                return self.end_transaction(
                    batch.producer_id,
                    batch.producer_epoch,
                    records.coordinator_epoch(marker),
                    last_offset,
                    timestamp_ms,
                    committed=kind is ControlType.COMMIT,
                )
        return None

    def check(
        self, producer_id: int, epoch: int, first_sequence: int, last_sequence: int, *, transactional: bool = False
    ) -> WrittenBatch | None:
        """The decision of `check_batch` for a client's batch."""
        producer = self.producers.get(producer_id)
        if producer is None:
            # Unknown or expired: the first batch starts the sequence, as in Kafka.
            if self.guards.entries:
                self.guards.check_sequence(producer_id, first_sequence, has_batches=False)
            return None
        if epoch != producer.epoch:
            if epoch < producer.epoch:
                raise InvalidProducerEpoch(producer_id, epoch, producer.epoch)
            if first_sequence != 0:
                raise OutOfOrderSequence(producer_id, first_sequence, 0)
        else:
            batches = producer.batches
            expected = (batches[-1].last_sequence + 1) & SEQUENCE_MAX if batches else 0
            if first_sequence != expected:
                written = producer.written_before(first_sequence, last_sequence)
                if written is None:
                    raise OutOfOrderSequence(producer_id, first_sequence, expected)
                return written
        if self.guards.entries:
            self.guards.check_sequence(producer_id, first_sequence, has_batches=bool(producer.batches))
        if producer.transaction_first_offset >= 0 and not transactional:
            raise InvalidTransactionState(
                f"producer {producer_id} sent a batch outside of a transaction, but its transaction that begins at "
                f"offset {producer.transaction_first_offset} is open: commit or abort it first"
            )
        return None

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int = 0) -> None:
        """Refuses a marker of an earlier transaction. From version 2 on, a marker has a higher epoch than its
        transaction, so a marker with the current epoch is outdated. Two such markers are accepted: the repetition of a
        marker that was written here already, when no transaction is open; and one with the largest epoch, which cannot
        be exceeded."""
        producer = self.producers.get(producer_id)
        if producer is None:
            return
        is_late = (
            transaction_version >= STRICT_MARKERS
            and epoch == producer.epoch
            and producer.transaction_first_offset >= 0
            and epoch != EPOCH_MAX
        )
        if epoch < producer.epoch or is_late:
            raise InvalidProducerEpoch(producer_id, epoch, producer.epoch)
        if coordinator_epoch < producer.coordinator_epoch:
            raise CoordinatorFenced(producer_id, coordinator_epoch, producer.coordinator_epoch)

    def append(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        last_sequence: int,
        first_offset: int,
        last_offset: int,
        timestamp_ms: int,
        *,
        transactional: bool,
    ) -> None:
        if self._before is not None:
            self._keep(producer_id)
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self.producers[producer_id] = Producer(epoch)
        elif producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches.clear()
        batches = producer.batches
        if batches and batches[-1].last_offset >= first_offset:
            broken(
                "12 a producer's batches stand in the order of sending",
                producer=producer_id,
                before=batches[-1].last_offset,
                offset=first_offset,
            )
        if last_offset < first_offset:
            broken("8 a batch has offsets of its own", producer=producer_id, first=first_offset, last=last_offset)
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        batches.append(_new(WrittenBatch, (first_sequence, last_sequence, first_offset, last_offset, timestamp_ms)))
        producer.last_timestamp_ms = timestamp_ms
        producer.silent_since_ms = -1
        if transactional and self.guards.entries:
            self.guards.written(producer_id, epoch, is_marker=False)
        if transactional and producer.transaction_first_offset < 0:
            producer.transaction_first_offset = first_offset
            if self._open and next(reversed(self._open.values())) >= first_offset:
                broken("16 open transactions are kept oldest first", producer=producer_id, first=first_offset)
            self._open[producer_id] = first_offset
            check(
                len(self._open) <= len(self.producers),
                "14 an open transaction has a producer",
                open=len(self._open),
                producers=len(self.producers),
            )

    def end_transaction(
        self, producer_id: int, epoch: int, coordinator_epoch: int, offset: int, timestamp_ms: int, *, committed: bool
    ) -> AbortedTransaction | None:
        """A marker was written at `offset`. If no transaction is open, it only fences older epochs.

        Returns the transaction if it was aborted.
        """
        if self._before is not None:
            self._keep(producer_id)
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self.producers[producer_id] = Producer(epoch)
        elif producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches.clear()
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp_ms = timestamp_ms
        producer.silent_since_ms = -1
        self.guards.written(producer_id, epoch, is_marker=True)
        first_offset = self._open.pop(producer_id, None)
        producer.transaction_first_offset = -1
        if first_offset is None:
            return None
        check(
            first_offset <= offset,
            "14 a transaction ends behind its first record",
            producer=producer_id,
            first=first_offset,
            marker=offset,
        )
        self._ended.append((first_offset, offset))
        self._note_ended(first_offset, offset)
        if committed:
            return None
        stable = next(iter(self._open.values())) if self._open else offset + 1
        check(stable <= offset + 1, "16 the stable offset passes no marker", marker=offset, stable=stable)
        return AbortedTransaction(producer_id, first_offset, offset, stable)

    def in_transaction(self) -> list[int]:
        """The producers with an open transaction, the oldest transaction first."""
        return list(self._open)

    def last_stable_offset(self, high_watermark: int) -> int:
        """The offset below which every transaction has ended with a marker below the high watermark."""
        if self._ended:
            self.settle(high_watermark)
        first = high_watermark
        if self._open:
            first = min(first, next(iter(self._open.values())))
        if self._ended_first:
            first = min(first, self._ended_first[0][0])
        return first

    def settle(self, high_watermark: int) -> None:
        """Drops transactions whose markers are committed. Until then a truncation could still remove the marker."""
        del self._ended[: bisect_left(self._ended, high_watermark, key=itemgetter(1))]
        while self._ended_first and self._ended_first[0][1] < high_watermark:
            self._ended_first.popleft()

    def _note_ended(self, first_offset: int, marker_offset: int) -> None:
        """Adds the newest entry of `_ended`."""
        while self._ended_first and self._ended_first[-1][0] >= first_offset:
            self._ended_first.pop()
        self._ended_first.append((first_offset, marker_offset))

    def _index_ended(self) -> None:
        self._ended_first.clear()
        for ended in self._ended:
            self._note_ended(*ended)

    def begun_before(self, offset: int) -> tuple[list[int], list[int]]:
        """Transactions that began before `offset`: the producers of open ones, and the marker offsets, at or after
        `offset`, of ended ones."""
        self.settle(offset)
        open_ones = [producer_id for producer_id, first in self._open.items() if first < offset]
        return open_ones, [last for first, last in self._ended if first < offset]

    def begin_later(self, first_offsets: Mapping[int, int | None]) -> None:
        """Sets the first remaining record of open transactions, by producer. None: no record remains, so the
        transaction is not open here."""
        self._before = None
        for producer_id, first_offset in first_offsets.items():
            self._open.pop(producer_id)
            self.producers[producer_id].transaction_first_offset = -1 if first_offset is None else first_offset
            if first_offset is not None:
                self._open[producer_id] = first_offset
        self._open = dict(sorted(self._open.items(), key=itemgetter(1)))

    def began_later(self, marker_offset: int, first_offset: int | None) -> None:
        """Like `begin_later`, for a transaction with a marker that is not committed yet."""
        at = bisect_left(self._ended, marker_offset, key=itemgetter(1))
        self._before = None
        self._ended[at : at + 1] = [] if first_offset is None else [(first_offset, marker_offset)]
        self._index_ended()

    def expiring(self, now_ms: int, expiration_ms: int) -> Work[None]:
        """Drops producers that were silent for this long, in turns.

        Silence is measured between calls, not by record timestamps: the records of a backfill are old when they arrive,
        and a producer that is dropped immediately could write a batch twice.
        """
        limit_ms = now_ms - expiration_ms
        for number, producer_id in enumerate(list(self.producers)):
            if number % ITEMS_PER_PIECE == ITEMS_PER_PIECE - 1:
                yield 1
            producer = self.producers.get(producer_id)
            if producer is None:
                continue  # a cut has removed it meanwhile
            if producer.silent_since_ms < 0:
                producer.silent_since_ms = now_ms
            elif producer.silent_since_ms < limit_ms and producer.transaction_first_offset < 0:
                if producer_id in self._open:
                    broken("14 a producer with an open transaction is not forgotten", producer=producer_id)
                self._before = None
                del self.producers[producer_id]
        self.guards.expire(now_ms, limit_ms)

    def take_back_from(self, offset: int) -> bool:
        """Removes everything at or after `offset`. Returns False and changes nothing if the kept batches of a producer
        do not determine its earlier state; the log must be read then."""
        left = self._left_before(offset)
        if left is None:
            return False
        self._before = None
        for producer_id, batches in left.items():
            if batches:
                self.producers[producer_id].batches = batches
                check(
                    batches[-1].last_offset < offset,
                    "13 what was cut is no batch of its producer",
                    producer=producer_id,
                    last=batches[-1].last_offset,
                    cut=offset,
                )
                self.producers[producer_id].last_timestamp_ms = batches[-1].timestamp_ms
            else:
                del self.producers[producer_id]
        self.guards = TransactionGuards()
        return True

    def may_take_back_from(self, offset: int) -> bool:
        """Returns what `take_back_from` would return, and changes nothing."""
        return self._left_before(offset) is not None

    def _left_before(self, offset: int) -> dict[int, list[WrittenBatch]] | None:
        """The batches before `offset` of each producer that wrote at or after it. None: the kept batches do not
        suffice.

        The kept batches before `offset` remain. The removed ones were the producer's last, so the result is its last
        five batches again.
        """
        if self._open or self._ended:
            return None
        left: dict[int, list[WrittenBatch]] = {}
        for producer_id, producer in self.producers.items():
            batches = producer.batches
            if producer.coordinator_epoch >= 0 or not batches:
                return None  # the removed part may hold a marker, whose position is unknown
            if batches[-1].last_offset >= offset:
                left[producer_id] = [batch for batch in batches if batch.last_offset < offset]
                is_its_first = producer.epoch == 0 and batches[0].first_sequence == 0
                if not left[producer_id] and not is_its_first:
                    return None
        return left

    def clear(self) -> None:
        self._before = None
        self.producers.clear()
        self._open.clear()
        self._ended.clear()
        self._ended_first.clear()
        self.guards = TransactionGuards()

    def encode(self) -> bytes:
        """A snapshot for `decode`. It includes transactions that are not settled yet, because a restart must not move
        the last stable offset."""
        data = at_once(self.encoding())
        assert data is not None
        return data

    def encoding(self) -> Work[bytes | None]:
        """Like `encode`, in slices, as of the first slice. Batches written meanwhile do not change the result. Returns
        None if something else changed meanwhile, such as a truncation."""
        check(
            all(
                self.producers[producer_id].transaction_first_offset == first
                for producer_id, first in self._open.items()
            ),
            "14 an open transaction is known by its producer",
            open=self._open,
        )
        if not self.producers and not self._ended:
            return b""
        producer_ids, ended = list(self.producers), list(self._ended)
        data = bytearray(HEADER.pack(len(producer_ids), len(ended)))
        before = self._before = {}
        try:
            for producer_id in producer_ids:
                data += before.get(producer_id) or _encoded(producer_id, self.producers[producer_id])
                yield 1
                if self._before is not before:
                    return None
        finally:
            if self._before is before:
                self._before = None
        for first_and_marker in ended:
            data += ENDED.pack(*first_and_marker)
        return bytes(data)

    def _keep(self, producer_id: int) -> None:
        """Keeps the producer's current state for the snapshot, because it is about to change."""
        producer = self.producers.get(producer_id)
        if producer is not None and self._before is not None and producer_id not in self._before:
            self._before[producer_id] = _encoded(producer_id, producer)

    @classmethod
    def decode(cls, data: bytes) -> ProducerState:
        state = cls()
        if not data:
            return state
        producer_count, ended_count = HEADER.unpack_from(data)
        position = HEADER.size
        for _ in range(producer_count):
            producer_id, epoch, coordinator_epoch, timestamp_ms, first_offset, count = PRODUCER.unpack_from(
                data, position
            )
            position += PRODUCER.size
            producer = state.producers[producer_id] = Producer(epoch)
            producer.coordinator_epoch = coordinator_epoch
            producer.last_timestamp_ms = timestamp_ms
            producer.transaction_first_offset = first_offset
            end = position + count * BATCH.size
            producer.batches = [WrittenBatch(*fields) for fields in BATCH.iter_unpack(data[position:end])]
            position = end
        open_ones = sorted((p.transaction_first_offset, i) for i, p in state.producers.items())
        state._open = {producer_id: first for first, producer_id in open_ones if first >= 0}
        end = position + ended_count * 16
        state._ended = [(first, last) for first, last in ENDED.iter_unpack(data[position:end])]
        state._index_ended()
        return state


def _encoded(producer_id: int, producer: Producer) -> bytes:
    batches = producer.batches
    if len(batches) > BATCHES_KEPT:
        broken("13 of each producer the last batches are kept", producer=producer_id, batches=len(batches))
    head = PRODUCER.pack(
        producer_id,
        producer.epoch,
        producer.coordinator_epoch,
        producer.last_timestamp_ms,
        producer.transaction_first_offset,
        len(batches),
    )
    return head + b"".join([BATCH.pack(*batch) for batch in batches])


def aborted_in(data: bytes) -> list[AbortedTransaction]:
    """The aborted transactions in a snapshot of an older release, which stored them there."""
    if not data:
        return []
    producer_count, ended_count = HEADER.unpack_from(data)
    position = HEADER.size
    for _ in range(producer_count):
        position += PRODUCER.size + PRODUCER.unpack_from(data, position)[5] * BATCH.size
    return [AbortedTransaction(*fields) for fields in ABORTED.iter_unpack(data[position + ended_count * 16 :])]
