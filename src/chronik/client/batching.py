"""Records queued for one partition: the open batch, the waiting batches, and the one in flight.

At most one batch per partition is in flight. So a resent batch cannot overtake another, order holds without the
broker's help, and the next batch fills meanwhile.

Does no I/O and reads no clock: `producer` moves batches along. The fate of a batch is reported once, by its `outcome`;
a `Delivery` is one record's view of that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from typing import Any, Final, NamedTuple

from chronik.client.errors import DeliveryFailed
from chronik.client.topology import TopicPartition
from chronik.runtime.invariants import check
from chronik.wire import batches
from chronik.wire.compression import Codec
from chronik.wire.records import EncodedRecords, Headers, Record, iterate

RECORD_OVERHEAD_BYTES: Final = 21  # lengths, deltas and attributes at their longest
HEADER_OVERHEAD_BYTES: Final = 10
SEQUENCE_MAX: Final = 2**31 - 1


class Identity(NamedTuple):
    """Lets a broker recognise a batch that it has already written."""

    producer_id: int
    epoch: int


NOBODY: Final = Identity(batches.NO_PRODUCER_ID, batches.NO_PRODUCER_EPOCH)


class Acknowledged(NamedTuple):
    """The batch was acknowledged. `base_offset` is -1 if the broker did not report it, as with acks=0."""

    base_offset: int
    append_time_ms: int  # -1: the records keep their own timestamps


class Split(NamedTuple):
    """The batch was too large for the broker and was split in two."""

    first: Batch
    second: Batch


Outcome = Acknowledged | Split | DeliveryFailed


class RecordPosition(NamedTuple):
    """Where a record was written."""

    topic: str
    partition: int
    offset: int  # -1 if unknown, as with acks=0
    timestamp: int


class Batch:
    """Records for one partition. It is filled, then numbered and sent, perhaps repeatedly, then settled. If it is made
    of records that are `ready` encoded, it is full."""

    __slots__ = (
        "_ready",
        "_records",
        "at",
        "attempt_count",
        "born_ns",
        "identity",
        "outcome",
        "sequence",
        "size_bytes",
    )

    def __init__(self, at: TopicPartition, born_ns: int, ready: EncodedRecords | None = None) -> None:
        self.at = at
        self.born_ns = born_ns
        self._ready = ready
        self._records: list[Record] = []
        self.size_bytes = batches.HEADER_BYTES + (0 if ready is None else ready.size_bytes)
        self.attempt_count = 0
        self.identity = NOBODY  # set with the sequence when it is first sent
        self.sequence = batches.NO_SEQUENCE
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    @property
    def count(self) -> int:
        return len(self._records) if self._ready is None else self._ready.count

    @property
    def is_full(self) -> bool:
        return self._ready is not None

    @property
    def records(self) -> list[Record]:
        if self._ready is not None and not self._records:
            [view] = batches.split(memoryview(batches.build_encoded(self._ready)))
            self._records = list(iterate(view, len(self._ready.section)))
        return self._records

    def add(self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers, size_bytes: int) -> int:
        """Adds a record and returns its index in the batch."""
        index = len(self._records)
        self._records.append(Record(index, timestamp, key, value, headers))
        self.size_bytes += size_bytes
        return index

    def encoded(self, codec: Codec, level: int | None, *, is_transactional: bool = False) -> bytes:
        check(self.count > 0, "13 a batch that is sent has records", at=self.at)
        check(
            (self.sequence == batches.NO_SEQUENCE) == (self.identity == NOBODY),
            "12 a batch has a sequence under its producer's id",
            at=self.at,
            sequence=self.sequence,
            producer=self.identity.producer_id,
        )
        if self._ready is not None:
            return batches.build_encoded(
                self._ready,
                codec,
                level=level,
                producer_id=self.identity.producer_id,
                producer_epoch=self.identity.epoch,
                base_sequence=self.sequence,
                is_transactional=is_transactional,
            )
        return batches.build(
            self._records,
            codec,
            level=level,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            base_sequence=self.sequence,
            is_transactional=is_transactional,
        )

    def settle(self, outcome: Outcome) -> None:
        check(not self.outcome.done(), "27 a batch is settled once", at=self.at, outcome=outcome)
        self.outcome.set_result(outcome)


class Delivery:
    """The receipt of one record. Awaiting it is optional: it returns the position, or raises DeliveryFailed."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def is_done(self) -> bool:
        return self._batch.outcome.done()

    def __await__(self) -> Generator[Any, None, RecordPosition]:
        return self._wait().__await__()

    async def _wait(self) -> RecordPosition:
        batch, index = self._batch, self._index
        # Shielded: many callers wait for one outcome, and cancelling one must not affect the others.
        while isinstance(outcome := await asyncio.shield(batch.outcome), Split):
            first_count = outcome.first.count
            batch, index = (outcome.first, index) if index < first_count else (outcome.second, index - first_count)
        if isinstance(outcome, DeliveryFailed):
            raise outcome
        check(
            0 <= index < batch.count,
            "8 a receipt is of a record of its batch",
            at=batch.at,
            index=index,
            count=batch.count,
        )
        offset = outcome.base_offset + index if outcome.base_offset >= 0 else -1
        timestamp = batch.records[index].timestamp if outcome.append_time_ms < 0 else outcome.append_time_ms
        return RecordPosition(batch.at.topic, batch.at.partition, offset, timestamp)


class PartitionQueue:
    """Batches of one partition, oldest first. The last one accepts records while it has room."""

    __slots__ = ("_identity", "_next_sequence", "at", "batches", "in_flight", "is_due", "is_held_back")

    def __init__(self, at: TopicPartition) -> None:
        self.at = at
        self.batches: deque[Batch] = deque()
        self.in_flight: Batch | None = None
        self.is_due = False  # the last batch has waited long enough, or is being flushed
        self.is_held_back = False  # the head failed and waits for its retry
        self._identity = NOBODY
        self._next_sequence = 0

    @property
    def is_ready(self) -> bool:
        """Whether a batch can be sent now: a full one, one that has waited long enough, or a retry."""
        if self.in_flight is not None or self.is_held_back or not self.batches:
            return False
        return self.is_due or len(self.batches) > 1 or self.batches[0].is_full or self.batches[0].attempt_count > 0

    def filling(self, size_bytes: int, batch_bytes_max: int) -> Batch | None:
        """The batch with room for a record of this size, if any."""
        if self.batches:
            last = self.batches[-1]
            if last.attempt_count == 0 and not last.is_full and last.size_bytes + size_bytes <= batch_bytes_max:
                return last
        return None

    def take(self, identity: Identity) -> Batch:
        """Takes the head for sending. It gets its sequence number the first time."""
        check(self.in_flight is None, "12 one batch of a partition is in flight", at=self.at)
        batch = self.batches.popleft()
        self.in_flight = batch
        if not self.batches:
            self.is_due = False
        check(
            not self._is_numbered(batch) or _after(batch.sequence, batch.count) == self._next_sequence,
            "12 a batch that is sent again is the last that was numbered",
            at=self.at,
            sequence=batch.sequence,
            next=self._next_sequence,
        )
        if batch.sequence == batches.NO_SEQUENCE and identity != NOBODY:
            if identity != self._identity:
                self._identity, self._next_sequence = identity, 0
            batch.identity, batch.sequence = identity, self._next_sequence
            self._next_sequence = _after(self._next_sequence, batch.count)
        batch.attempt_count += 1
        return batch

    def put_back(self, batch: Batch) -> None:
        """The batch failed and will be resent before all others of this partition."""
        check(batch.attempt_count > 0, "12 only a batch that was sent is sent again", at=self.at)
        self._land(batch)
        self.batches.appendleft(batch)

    def take_unsent(self) -> Batch:
        """Takes the head to give it up: it waited too long."""
        check(self.in_flight is None, "12 one batch of a partition is in flight", at=self.at)
        self.in_flight = self.batches.popleft()
        return self.in_flight

    def finish(self, batch: Batch, outcome: Acknowledged | DeliveryFailed, *, may_be_written: bool) -> None:
        """The batch is settled. One that was certainly not written leaves no gap in the sequence."""
        self._land(batch)
        if not may_be_written:
            self._forget_sequence(batch)
        check(batch not in self.batches, "27 a batch that is settled waits no more", at=self.at)
        batch.settle(outcome)

    def renumber(self, batch: Batch) -> None:
        """The broker no longer knows the sequence and wrote nothing: the batch starts a new one."""
        self._forget_sequence(batch)
        self.put_back(batch)

    def split(self, batch: Batch) -> None:
        """Continues with two halves of a batch that was too large."""
        self._land(batch)
        self._forget_sequence(batch)
        halves = Split(Batch(batch.at, batch.born_ns), Batch(batch.at, batch.born_ns))
        middle, whole = (batch.count + 1) // 2, batch.records
        for half, records in zip(halves, (whole[:middle], whole[middle:]), strict=True):
            for _, timestamp, key, value, headers in records:
                half.add(timestamp, key, value, headers, record_bytes(key, value, headers))
        check(
            halves.first.count + halves.second.count == batch.count and halves.second.count > 0,
            "13 two halves hold the records of the whole",
            at=self.at,
            records=batch.count,
            first=halves.first.count,
            second=halves.second.count,
        )
        check(
            halves.first.size_bytes + halves.second.size_bytes - batches.HEADER_BYTES == batch.size_bytes,
            "26 two halves take the memory of the whole",
            at=self.at,
            size=batch.size_bytes,
        )
        self.batches.extendleft(reversed(halves))
        self.is_due = True
        batch.settle(halves)

    def _land(self, batch: Batch) -> None:
        check(self.in_flight is batch, "12 only the batch in flight comes back", at=self.at)
        self.in_flight = None

    def _is_numbered(self, batch: Batch) -> bool:
        return batch.identity == self._identity and batch.sequence != batches.NO_SEQUENCE

    def _forget_sequence(self, batch: Batch) -> None:
        if batch.identity == self._identity and batch.sequence != batches.NO_SEQUENCE:
            check(
                _after(batch.sequence, batch.count) == self._next_sequence,
                "12 the sequence goes on from the batch that was given up",
                at=self.at,
                sequence=batch.sequence,
                next=self._next_sequence,
            )
            self._next_sequence = batch.sequence
        batch.identity, batch.sequence = NOBODY, batches.NO_SEQUENCE


def record_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """The largest size of a record in a batch."""
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += HEADER_OVERHEAD_BYTES + 4 * len(name) + len(content or b"")
    return size


def _after(sequence: int, count: int) -> int:
    """Sequence numbers wrap around: 0 follows 2^31 - 1."""
    return (sequence + count) & SEQUENCE_MAX
