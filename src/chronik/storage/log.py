"""One partition's log: append, read, roll, truncate. What is durable, it learns from the journal.

Everything here runs on the event loop, in sections without await, so offsets are assigned in the order of the calls and
no reader ever sees half an append. A log never waits: `when_durable` hands out a future, nothing else is asynchronous.

Offsets: start_offset <= durable_offset <= end_offset. Nothing is on disk before the first append, so that thousands of
new partitions cost nothing. `high_watermark` is the replica's; here it only bounds what retention and compaction touch.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

from chronik.runtime.errors import DiskFull
from chronik.runtime.interfaces import Buffer, Disk
from chronik.runtime.invariants import check
from chronik.storage import time_lookup
from chronik.storage.config import FOREVER, LogConfig
from chronik.storage.errors import (
    CorruptSegment,
    InvalidRecord,
    LogFull,
    OffsetOutOfRange,
    RecordTooLarge,
    StorageError,
)
from chronik.storage.journal import Capture, Journal
from chronik.storage.journal_format import Kind
from chronik.storage.leader_epochs import LeaderEpochs
from chronik.storage.producer_state import SEQUENCE_MAX, AbortedTransaction, ProducerState
from chronik.storage.segment import OFFSET_SPAN_MAX, Segment
from chronik.storage.time_lookup import TimestampedOffset
from chronik.wire import records
from chronik.wire.batches import (
    CONTROL,
    LENGTH_COVERS_FROM,
    NO_PRODUCER_ID,
    TRANSACTIONAL,
    BatchView,
    patch,
    patch_append_time,
    stamped,
    validate_replicated,
)
from chronik.wire.records import ControlType

DECOMPRESSED_BYTES_MAX = 64 << 20  # of one batch, when a rule of the topic makes the broker look inside


class Appended(NamedTuple):
    first_offset: int
    last_offset: int
    append_time_ms: int  # -1 unless the topic has LogAppendTime
    is_duplicate: bool  # an idempotent producer sent it again: nothing was written, the offsets are the first ones


class LogRead(NamedTuple):
    """Whole batches. The first may start before the asked offset, which then lies inside it, as Kafka has it too."""

    buffers: list[memoryview]
    size_bytes: int
    next_offset: int  # where to go on; the asked offset if nothing was read


class Log:
    def __init__(
        self,
        disk: Disk,
        directory: str,
        topic: str,
        topic_id: bytes,
        partition: int,
        config: LogConfig,
        journal: Journal,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.directory = f"{directory}/{topic}-{partition}"
        self.config = config
        self.start_offset = 0
        self.end_offset = 0
        self.high_watermark = 0
        self.compacted_offset = 0  # below it compaction has seen every record
        self.generation = 0  # counts truncations: what was captured before one is void
        self.producers = ProducerState()
        self.epochs = LeaderEpochs()
        self.segments: list[Segment] = []  # by base offset; the last one is written to
        self.damage: CorruptSegment | None = None  # found by recovery below the durable mark: nothing is appended
        self.durable_mark = (0, 0, 0)  # segment, position and offset known to recovery; only kept for damaged logs
        self.must_sync = False  # truncated: bytes behind the cut are void only once the segment itself is synced
        self.snapshot: tuple[int, bytes] = (0, b"")  # (offset, producers as of it), from where truncation replays
        self.deleted = False
        self.on_durable: Callable[[], None] | None = None  # called whenever durable_offset has moved forward
        self.directory_durably = False  # a deleted log had this directory: its removal must not come undone later
        self._bases: list[int] = []
        self._disk = disk
        self._journal = journal
        self._durable_offset = 0
        self._round_offset = 0  # what the round under way makes durable

    def __repr__(self) -> str:
        return f"<Log {self.topic}-{self.partition} {self.start_offset}..{self.end_offset}>"

    @property
    def durable_offset(self) -> int:
        """The end of what survives a power cut; with durability "os", of what survives the end of the process."""
        return self.end_offset if self.config.durability == "os" else self._durable_offset

    @property
    def size_bytes(self) -> int:
        return sum([segment.size_bytes for segment in self.segments])

    # Appending.

    def append(self, batches: list[BatchView], *, leader_epoch: int, now_ms: int, from_client: bool = True) -> Appended:
        """Assigns offsets and writes, or raises and changes nothing. A repeated batch is answered, not written.

        `from_client=False` leaves out the topic's rules about sizes, keys and times, which coordinators need not prove.
        """
        if self._journal.failed is not None or self.damage is not None:
            raise self._journal.failed or self.damage or StorageError
        config = self.config
        stamps_time = config.message_timestamp_type == "LogAppendTime"
        offset = first_offset = self.end_offset
        buffers: list[Buffer] = []
        size_bytes = 0
        for batch in batches:
            if batch.producer_id != NO_PRODUCER_ID:
                if len(batches) > 1:
                    raise InvalidRecord("an idempotent producer sends one batch for a partition in one request")
                duplicate = self._check_producer(batch)
                if duplicate is not None:
                    return duplicate
            if from_client:
                self._check_rules(batch, config, now_ms, stamps_time)
            if stamps_time:
                data = bytearray(batch.data)
                patch(data, 0, offset, leader_epoch)
                patch_append_time(data, 0, now_ms)
                buffers.append(data)
            else:
                buffers += stamped(batch, offset, leader_epoch)
            size_bytes += batch.length_bytes + LENGTH_COVERS_FROM
            offset += batch.last_offset_delta + 1
        largest_ms = now_ms if stamps_time else batches[0].max_timestamp
        segment = self._room_for(size_bytes, offset, largest_ms, now_ms)
        check(leader_epoch >= self.epochs.latest, "a leader's epoch never goes back")
        position = self._write(segment, buffers, size_bytes)
        self.epochs.assign(leader_epoch, first_offset)
        self.end_offset = offset
        offset = first_offset
        for batch in batches:
            next_offset = offset + batch.last_offset_delta + 1
            end = position + batch.length_bytes + LENGTH_COVERS_FROM
            timestamp_ms = now_ms if stamps_time else batch.max_timestamp
            segment.note(offset, next_offset, position, end, timestamp_ms, config.index_interval_bytes)
            if batch.producer_id != NO_PRODUCER_ID:
                self._note_producer(batch, offset, timestamp_ms)
            position, offset = end, next_offset
        return Appended(first_offset, offset - 1, now_ms if stamps_time else -1, False)

    def append_fetched(self, buffer: memoryview) -> None:
        """A follower's append: offsets and epochs are the leader's. A batch cut short at the end is left out."""
        if self._journal.failed is not None or self.damage is not None:
            raise self._journal.failed or self.damage or StorageError
        batches = validate_replicated(buffer, self.end_offset)
        if not batches:
            return
        size_bytes = sum([batch.size_bytes for batch in batches])
        next_offset = batches[-1].next_offset
        segment = self._room_for(size_bytes, next_offset, batches[0].max_timestamp, batches[0].max_timestamp)
        position = self._write(segment, [buffer[:size_bytes]], size_bytes)
        for batch in batches:
            self.note_batch(segment, position, batch)
            position += batch.size_bytes
        self.end_offset = next_offset

    def note_batch(self, segment: Segment, position: int, batch: BatchView) -> None:
        """Takes a batch that is in the segment into everything derived from the log; recovery and followers use it."""
        end = position + batch.size_bytes
        interval_bytes = self.config.index_interval_bytes
        segment.note(batch.base_offset, batch.next_offset, position, end, batch.max_timestamp, interval_bytes)
        self.epochs.assign(batch.partition_leader_epoch, batch.base_offset)
        if batch.producer_id != NO_PRODUCER_ID:
            self._note_producer(batch, batch.base_offset, batch.max_timestamp)

    def _check_producer(self, batch: BatchView) -> Appended | None:
        if batch.attributes & CONTROL:
            outcome = next(records.iterate(batch, DECOMPRESSED_BYTES_MAX))
            epoch = records.coordinator_epoch(outcome)
            self.producers.check_marker(batch.producer_id, batch.producer_epoch, epoch)
            return None
        last_sequence = batch.base_sequence + batch.last_offset_delta & SEQUENCE_MAX
        written = self.producers.check(batch.producer_id, batch.producer_epoch, batch.base_sequence, last_sequence)
        if written is None:
            return None
        stamps_time = self.config.message_timestamp_type == "LogAppendTime"
        return Appended(written.first_offset, written.last_offset, written.timestamp_ms if stamps_time else -1, True)

    def _note_producer(self, batch: BatchView, offset: int, timestamp_ms: int) -> None:
        last_offset = offset + batch.last_offset_delta
        if not batch.attributes & CONTROL:
            self.producers.append(
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                batch.base_sequence + batch.last_offset_delta & SEQUENCE_MAX,
                offset,
                last_offset,
                timestamp_ms,
                transactional=batch.attributes & TRANSACTIONAL != 0,
            )
            return
        if batch.record_count == 0:
            return  # compaction has taken the marker; what it ended went before
        outcome = next(records.iterate(batch, DECOMPRESSED_BYTES_MAX))
        kind = records.control_type(outcome)
        if kind in (ControlType.COMMIT, ControlType.ABORT):
            self.producers.end_transaction(
                batch.producer_id,
                batch.producer_epoch,
                records.coordinator_epoch(outcome),
                last_offset,
                timestamp_ms,
                committed=kind is ControlType.COMMIT,
            )

    def _check_rules(self, batch: BatchView, config: LogConfig, now_ms: int, stamps_time: bool) -> None:
        if batch.length_bytes + LENGTH_COVERS_FROM > config.max_message_bytes:
            raise RecordTooLarge(batch.length_bytes + LENGTH_COVERS_FROM, config.max_message_bytes)
        latest_ms = now_ms + config.message_timestamp_after_max_ms
        before_max_ms = config.message_timestamp_before_max_ms
        late = not stamps_time and batch.max_timestamp > latest_ms
        if late or config.compacts or (before_max_ms != FOREVER and not stamps_time):
            records.verify(
                batch,
                DECOMPRESSED_BYTES_MAX,
                keys_required=config.compacts,
                timestamp_ms_min=-FOREVER if stamps_time else now_ms - before_max_ms,
                timestamp_ms_max=FOREVER if stamps_time else latest_ms,
            )

    def _room_for(self, size_bytes: int, next_offset: int, timestamp_ms: int, now_ms: int) -> Segment:
        """The segment to write to; a new one when the present one is full or old enough."""
        if not self.segments:
            self._disk.make_directory(self.directory, durable=self.directory_durably)
            return self._add_segment(self.end_offset)
        segment = self.segments[-1]
        if segment.size_bytes and (
            segment.size_bytes + size_bytes > self.config.segment_bytes
            or next_offset - segment.base_offset > OFFSET_SPAN_MAX
            or timestamp_ms - segment.first_timestamp_ms > self.config.segment_ms
        ):
            return self.roll()
        return segment

    def roll(self) -> Segment:
        """Starts a new segment at the end."""
        self.segments[-1].seal()
        return self._add_segment(self.end_offset)

    def _add_segment(self, base_offset: int) -> Segment:
        self._journal.note(self, Kind.ROLL, base_offset)
        segment = Segment(self._disk, self.directory, base_offset)
        try:
            segment.file.truncate(0)  # creates it; bytes of an older segment of this name are none of ours
        except OSError as error:
            self._journal.fail(error)
            raise self._journal.failed or error from error
        self.segments.append(segment)
        self._bases.append(base_offset)
        return segment

    def _write(self, segment: Segment, buffers: list[Buffer], size_bytes: int) -> int:
        try:
            return segment.write(buffers, size_bytes)
        except DiskFull as error:
            raise LogFull(f"no space for {size_bytes} bytes in {segment.path}: free some disk space") from error
        except OSError as error:
            self._journal.fail(error)
            raise self._journal.failed or error from error

    # Durability.

    def when_durable(self, offset: int) -> asyncio.Future[None] | None:
        """None if everything below `offset` is durable already; else what resolves when it is, shared by all waiters.

        It fails with StorageFailed if a sync failed. A log may be truncated while somebody waits: what counts in the
        end is `durable_offset`.
        """
        if offset <= self._durable_offset or self.config.durability == "os":
            return None
        if offset <= self._round_offset and self._journal.running is not None:
            return self._journal.running
        return self._journal.when_durable(self)

    @property
    def entries_synced(self) -> bool:
        return not self.segments or self.segments[-1].entry_synced

    def capture(self) -> Capture:
        """What is not durable at this moment. A round makes it so; segments before a durable one are durable too."""
        pieces: list[tuple[Segment, int, int]] = []
        for segment in reversed(self.segments):
            if segment.durable_bytes < segment.size_bytes:
                pieces.append((segment, segment.durable_bytes, segment.size_bytes))
            elif segment.size_bytes:
                break
        pieces.reverse()
        if self.must_sync and not pieces and self.segments:
            segment = self.segments[-1]
            pieces = [(segment, segment.size_bytes, segment.size_bytes)]
        self._round_offset = self.end_offset
        return Capture(self, pieces, self.end_offset, self.generation)

    def capture_unsynced(self) -> Capture:
        """What a checkpoint must sync. A segment may be durable by the journal alone while a later one is synced."""
        pieces = [
            (segment, segment.synced_bytes, segment.size_bytes)
            for segment in self.segments
            if segment.synced_bytes < segment.size_bytes or not segment.entry_synced
        ]
        capture = Capture(self, pieces, self.end_offset, self.generation)
        capture.by_sync = True
        return capture

    def syncs(self, capture: Capture) -> list[Callable[[], None]]:
        """The calls that make a capture durable in its segments, to run in order on a lane."""
        calls: list[Callable[[], None]] = [segment.file.sync for segment, _, _ in capture.pieces]
        if not all(segment.entry_synced for segment, _, _ in capture.pieces):
            sync = self._disk.sync_directory
            parent = self.directory.rpartition("/")[0]
            calls += [lambda: sync(self.directory), lambda: sync(parent)]
        return calls

    def made_durable(self, capture: Capture) -> bool:
        """False if the log was truncated meanwhile: the capture says nothing about it any more."""
        if capture.generation != self.generation:
            return False
        for segment, _, end in capture.pieces:
            segment.durable_bytes = max(segment.durable_bytes, end)
            if capture.by_sync:
                segment.synced_bytes = max(segment.synced_bytes, end)
                segment.entry_synced = True
        if capture.by_sync:
            self.must_sync = False
        if capture.end_offset > self._durable_offset:
            self._durable_offset = capture.end_offset
            if self.on_durable is not None:
                self.on_durable()
        return True

    @property
    def state(self) -> tuple[int, int, int]:
        """Changes with everything that a checkpoint holds."""
        return self.generation, self.start_offset, self.end_offset

    @property
    def unsynced_bytes(self) -> int:
        segments = self.segments
        return segments[-1].size_bytes - segments[-1].synced_bytes if segments else 0

    # Reading.

    def read(self, offset: int, *, bytes_max: int, offset_limit: int, at_least_one: bool = True) -> LogRead:
        """Whole batches from the one that holds `offset`, all below `offset_limit`, of one segment at a time.

        `at_least_one` returns a first batch that is larger than `bytes_max`, so that a reader always gets on.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        limit = min(offset_limit, self.end_offset)
        if offset >= limit:
            return LogRead([], 0, offset)
        index = max(0, bisect_right(self._bases, offset) - 1)
        while True:
            segment = self.segments[index]
            is_last = index + 1 == len(self.segments)
            segment_end = self.end_offset if is_last else self._bases[index + 1]
            start = segment.position_of(offset)
            stop = segment.size_bytes if limit >= segment_end else segment.position_of(limit)
            if start < stop:
                break
            if is_last or segment_end >= limit:
                return LogRead([], 0, offset)  # compaction left nothing between here and the limit
            index += 1
        size_bytes = stop - start
        next_offset = min(limit, segment_end)
        if size_bytes > bytes_max:
            data = segment.read(start, bytes_max)
            size_bytes, next_offset = segment.whole_batches(data, start)
            if size_bytes == 0:
                if not at_least_one:
                    return LogRead([], 0, offset)
                first = next(iter(segment.headers(start)))[1]
                size_bytes, next_offset = first.size_bytes, first.next_offset
                data = segment.read(start, size_bytes)
            data = data[:size_bytes]
        else:
            data = segment.read(start, size_bytes)
        segment.check(data, start)
        segment.remember(next_offset, start + size_bytes)
        return LogRead([data], size_bytes, next_offset)

    def offset_for_timestamp(self, timestamp_ms: int, offset_limit: int) -> TimestampedOffset | None:
        """The first record at or after a time, below `offset_limit`."""
        return time_lookup.first_at_or_after(self.segments, timestamp_ms, self.start_offset, offset_limit, self.epochs)

    def max_timestamp(self) -> TimestampedOffset | None:
        """The first record with the largest timestamp."""
        return time_lookup.latest(self.segments, self.start_offset, self.epochs)

    def last_stable_offset(self, high_watermark: int) -> int:
        return self.producers.last_stable_offset(high_watermark)

    def aborted_transactions(self, first_offset: int, last_offset: int) -> list[AbortedTransaction]:
        return self.producers.aborted(first_offset, last_offset)

    # Cutting.

    def truncate_to(self, offset: int) -> None:
        """Drops every batch that reaches `offset` or lies behind it. A batch across the offset goes as a whole."""
        if offset >= self.end_offset:
            return
        if offset < self.start_offset or not self.segments:
            self.restart_at(offset)
            return
        index = max(0, bisect_right(self._bases, offset) - 1)
        segment = self.segments[index]
        position = segment.position_of(offset)
        for _, header in segment.headers(position):
            offset = min(offset, header.base_offset)
            break
        # First the note: a file found shorter than the journal says would count as damaged.
        self._journal.note(self, Kind.TRUNCATE, segment.base_offset, position, offset)
        self._journal.sync_notes()
        self._drop_segments(index + 1, len(self.segments))
        segment.truncate(position)
        self._cut_back(offset)
        self.epochs.truncate_end(offset)
        self._rebuild_producers()

    def restart_at(self, offset: int) -> None:
        """Drops everything and goes on at `offset`."""
        self._journal.note(self, Kind.TRUNCATE, offset, 0, offset)
        self._journal.note(self, Kind.START, offset=offset)
        self._journal.sync_notes()
        self._drop_segments(0, len(self.segments))
        self._disk.make_directory(self.directory, durable=False)
        self.start_offset = offset
        self._add_segment(offset)
        self._cut_back(offset)
        self._durable_offset = offset
        self.damage = None
        self.epochs.clear()
        self.producers.clear()
        self.snapshot = (offset, b"")

    def _cut_back(self, offset: int) -> None:
        self.end_offset = offset
        self._durable_offset = self._round_offset = min(self._durable_offset, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.compacted_offset = min(self.compacted_offset, offset)
        self.must_sync = True
        self.generation += 1

    def _rebuild_producers(self) -> None:
        offset, data = self.snapshot
        if offset > self.end_offset:
            offset, data = self.start_offset, b""
            self.snapshot = (offset, data)
        self.producers = ProducerState.decode(data)
        self.replay_producers(offset)

    def replay_producers(self, offset: int) -> None:
        """Reads from `offset` on what producers wrote."""
        for index in range(max(0, bisect_right(self._bases, offset) - 1), len(self.segments)):
            segment = self.segments[index]
            for position, header in segment.headers(segment.position_of(offset)):
                if header.producer_id == NO_PRODUCER_ID or header.base_offset < offset:
                    continue
                batch = segment.batch_at(position, header) if header.is_control else header
                self._note_producer(batch, batch.base_offset, batch.max_timestamp)

    def advance_start(self, offset: int) -> None:
        """No reader gets anything below `offset` any more (DeleteRecords, retention). Files go by maintenance."""
        if not self.start_offset < offset <= self.end_offset:
            return
        self._journal.note(self, Kind.START, offset=offset)
        self.start_offset = offset
        self.epochs.truncate_start(offset)
        self.producers.truncate_start(offset)

    def drop_below_start(self) -> None:
        """Removes segments that hold nothing at or above start_offset. The one that is written to stays."""
        count = 0
        while count + 1 < len(self.segments) and self._bases[count + 1] <= self.start_offset:
            count += 1
        self._drop_segments(0, count)

    def _drop_segments(self, first: int, end: int) -> None:
        for segment in self.segments[first:end]:
            segment.remove()
        del self.segments[first:end], self._bases[first:end]

    def index_of(self, segment: Segment) -> int:
        """Where a segment stands; -1 if it is not there any more."""
        index = bisect_right(self._bases, segment.base_offset) - 1
        return index if index >= 0 and self.segments[index] is segment else -1

    def replace_segments(self, first: int, end: int, replacements: list[Segment]) -> None:
        """Compaction has put other files in place of segments first..end."""
        self.segments[first:end] = replacements
        self._bases[first:end] = [segment.base_offset for segment in replacements]

    def adopt(self, segments: list[Segment], durable_offset: int) -> None:
        """Recovery hands over what it found."""
        self.segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._durable_offset = durable_offset

    def note_cut(self) -> None:
        """Recovery has cut a torn tail, or removed files: what an older journal says of them is void."""
        segment = self.segments[-1]
        self._journal.note(self, Kind.TRUNCATE, segment.base_offset, segment.size_bytes, self.end_offset)
        self.must_sync = True

    def let_go(self) -> None:
        """Of a deleted log: files that a lane works on stay open until it is done."""
        self.deleted = True
        self.segments, self._bases = [], []

    def close(self) -> None:
        for segment in self.segments:
            segment.close()
