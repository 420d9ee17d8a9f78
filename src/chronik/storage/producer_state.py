"""What a log knows of its idempotent and transactional producers. Pure state, no I/O, no clock.

`check_batch` says whether a batch continues its producer's sequence, repeats one of its last five batches, or must be
refused; it changes nothing. `note_batch` takes what was written, and the same calls replay the log after a restart, so
state is always what the log says; only that after a truncation fewer of a producer's last batches may be known.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from typing import NamedTuple

from chronik.runtime.invariants import broken, check
from chronik.storage.errors import CoordinatorFenced, InvalidProducerEpoch, OutOfOrderSequence
from chronik.wire import records
from chronik.wire.batches import CONTROL, TRANSACTIONAL, BatchView
from chronik.wire.records import ControlType

BATCHES_KEPT = 5  # a producer has at most five requests in flight, so a repeat is never older than that
SEQUENCE_MAX = 2**31 - 1
HEADER = struct.Struct(">II")
PRODUCER = struct.Struct(">qhiqqB")
BATCH = struct.Struct(">iiqqq")
ABORTED = struct.Struct(">qqqq")
MARKER_BYTES_MAX = 1 << 16  # a control batch holds one small record
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
    last_offset: int  # of the abort marker
    last_stable_offset: int  # of the log when the marker was written


class Producer:
    """`batches` are the last ones of the current epoch, the newest last; empty after a marker that raised the epoch."""

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
        self.silent_since_ms = -1  # -1: heard of since `expire` last looked; soft, a restart sets it back
        self.transaction_first_offset = -1  # -1: no transaction is open
        self.batches: list[WrittenBatch] = []

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1


class ProducerState:
    def __init__(self) -> None:
        self.producers: dict[int, Producer] = {}
        self._open: dict[int, int] = {}  # producer id -> first offset of its open transaction, oldest first
        self._ended: list[tuple[int, int]] = []  # (first offset, marker's offset) of ended ones, until settled
        self._aborted: list[AbortedTransaction] = []  # by last_offset

    def check_batch(self, batch: BatchView) -> WrittenBatch | None:
        """None: append it. A batch: it was written before, answer with that one. Raises if it may not be written."""
        if batch.attributes & CONTROL:
            marker = next(records.iterate(batch, MARKER_BYTES_MAX))
            self.check_marker(batch.producer_id, batch.producer_epoch, records.coordinator_epoch(marker))
            return None
        first = batch.base_sequence
        last = (first + batch.last_offset_delta) & SEQUENCE_MAX
        return self.check(batch.producer_id, batch.producer_epoch, first, last)

    def note_batch(self, batch: BatchView, offset: int, timestamp_ms: int) -> None:
        """The batch was written at `offset`."""
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
        elif batch.record_count:  # else compaction has taken the marker
            marker = next(records.iterate(batch, MARKER_BYTES_MAX))
            kind = records.control_type(marker)
            if kind in (ControlType.COMMIT, ControlType.ABORT):
                self.end_transaction(
                    batch.producer_id,
                    batch.producer_epoch,
                    records.coordinator_epoch(marker),
                    last_offset,
                    timestamp_ms,
                    committed=kind is ControlType.COMMIT,
                )

    def check(self, producer_id: int, epoch: int, first_sequence: int, last_sequence: int) -> WrittenBatch | None:
        producer = self.producers.get(producer_id)
        if producer is None:
            return None  # never heard of, or expired: whatever comes first starts the sequence, as in Kafka
        if epoch != producer.epoch:
            if epoch < producer.epoch:
                raise InvalidProducerEpoch(producer_id, epoch, producer.epoch)
            if first_sequence != 0:
                raise OutOfOrderSequence(producer_id, first_sequence, 0)
            return None
        batches = producer.batches
        expected = (batches[-1].last_sequence + 1) & SEQUENCE_MAX if batches else 0
        if first_sequence == expected:
            return None
        for written in batches:
            if written.first_sequence == first_sequence and written.last_sequence == last_sequence:
                return written
        raise OutOfOrderSequence(producer_id, first_sequence, expected)

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        producer = self.producers.get(producer_id)
        if producer is None:
            return
        if epoch < producer.epoch:
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
    ) -> None:
        """A marker was written at `offset`. Without an open transaction it only fences older epochs."""
        producer = self.producers.get(producer_id)
        if producer is None:
            producer = self.producers[producer_id] = Producer(epoch)
        elif producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches.clear()
        producer.coordinator_epoch = coordinator_epoch
        producer.last_timestamp_ms = timestamp_ms
        producer.silent_since_ms = -1
        first_offset = self._open.pop(producer_id, None)
        producer.transaction_first_offset = -1
        if first_offset is None:
            return
        check(
            first_offset <= offset,
            "14 a transaction ends behind its first record",
            producer=producer_id,
            first=first_offset,
            marker=offset,
        )
        self._ended.append((first_offset, offset))
        if not committed:
            stable = min([offset + 1, *self._open.values()])
            check(
                not self._aborted or self._aborted[-1].last_offset < offset,
                "14 aborted transactions are kept in the order of their markers",
                producer=producer_id,
                marker=offset,
            )
            check(stable <= offset + 1, "16 the stable offset passes no marker", marker=offset, stable=stable)
            self._aborted.append(AbortedTransaction(producer_id, first_offset, offset, stable))

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below it no transaction is undecided, and every decision is itself below the high watermark."""
        ended = self._ended
        if ended:
            ended[:] = [transaction for transaction in ended if transaction[1] >= high_watermark]
        first = high_watermark
        if self._open:
            first = min(first, next(iter(self._open.values())))
        for first_offset, _ in ended:
            first = min(first, first_offset)
        return first

    def aborted(self, first_offset: int, last_offset: int) -> list[AbortedTransaction]:
        """Those with a record in first..last, both included, by first offset: what a read_committed fetch carries."""
        index = bisect_left(self._aborted, first_offset, key=lambda aborted: aborted.last_offset)
        found = [aborted for aborted in self._aborted[index:] if aborted.first_offset <= last_offset]
        return sorted(found, key=lambda aborted: aborted.first_offset)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forgets producers that were silent for so long.

        Silence is measured from call to call and not by the times of records: those of a backfill are old when they
        arrive, and its producer, forgotten at once, could write a batch twice.
        """
        limit_ms = now_ms - expiration_ms
        for producer_id, producer in list(self.producers.items()):
            if producer.silent_since_ms < 0:
                producer.silent_since_ms = now_ms
            elif producer.silent_since_ms < limit_ms and producer.transaction_first_offset < 0:
                if producer_id in self._open:
                    broken("14 a producer with an open transaction is not forgotten", producer=producer_id)
                del self.producers[producer_id]

    def truncate_start(self, offset: int) -> None:
        """No reader gets anything below `offset` any more."""
        index = bisect_left(self._aborted, offset, key=lambda aborted: aborted.last_offset)
        del self._aborted[:index]
        check(
            not self._aborted or self._aborted[0].last_offset >= offset,
            "14 transactions below the start are forgotten",
            start=offset,
        )

    def forget_aborted(self, offset: int, kept: set[AbortedTransaction]) -> None:
        """Compaction has left nothing of those that ended below `offset`, besides of those `kept`. Once the markers of
        the others go too, a reader who was told of them would take what their producers did next for aborted."""
        self._aborted = [aborted for aborted in self._aborted if aborted.last_offset >= offset or aborted in kept]

    def take_back_from(self, offset: int) -> bool:
        """Nothing at or behind `offset` was written after all. False, and nothing is changed, if the batches kept of a
        producer do not tell how it was before; then the log does.

        Of the batches kept those stay that lie before; the others were the last that the producer sent, so with them
        they are still five.
        """
        if self._open or self._ended or (self._aborted and self._aborted[-1].last_offset >= offset):
            return False
        left: dict[int, list[WrittenBatch]] = {}
        for producer_id, producer in self.producers.items():
            batches = producer.batches
            if producer.coordinator_epoch >= 0 or not batches:
                return False  # a marker may be among what goes, and nobody remembers where it is
            if batches[-1].last_offset >= offset:
                left[producer_id] = [batch for batch in batches if batch.last_offset < offset]
                is_its_first = producer.epoch == 0 and batches[0].first_sequence == 0
                if not left[producer_id] and not is_its_first:
                    return False
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
        return True

    def clear(self) -> None:
        self.producers.clear()
        self._open.clear()
        self._ended.clear()
        self._aborted.clear()

    def encode(self) -> bytes:
        check(
            all(
                self.producers[producer_id].transaction_first_offset == first
                for producer_id, first in self._open.items()
            ),
            "14 an open transaction is known by its producer",
            open=self._open,
        )
        check(
            all(len(producer.batches) <= BATCHES_KEPT for producer in self.producers.values()),
            "13 of each producer the last batches are kept",
            producers=len(self.producers),
        )
        """A snapshot for `decode`. Transactions not settled yet are in it: a restart may not move the stable offset."""
        if not self.producers and not self._aborted and not self._ended:
            return b""
        parts = [HEADER.pack(len(self.producers), len(self._ended))]
        for producer_id, producer in self.producers.items():
            parts.append(
                PRODUCER.pack(
                    producer_id,
                    producer.epoch,
                    producer.coordinator_epoch,
                    producer.last_timestamp_ms,
                    producer.transaction_first_offset,
                    len(producer.batches),
                )
            )
            parts += [BATCH.pack(*batch) for batch in producer.batches]
        parts += [struct.pack(">qq", *ended) for ended in self._ended]
        parts += [ABORTED.pack(*aborted) for aborted in self._aborted]
        return b"".join(parts)

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
        state._ended = [(first, last) for first, last in struct.iter_unpack(">qq", data[position:end])]
        state._aborted = [AbortedTransaction(*fields) for fields in ABORTED.iter_unpack(data[end:])]
        return state
