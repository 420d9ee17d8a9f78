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
from operator import attrgetter

from chronik.runtime.errors import DiskFull
from chronik.runtime.interfaces import Buffer, Disk, File
from chronik.runtime.invariants import broken
from chronik.storage import partition_metadata
from chronik.storage.answers import Appended, LogRead, Verify
from chronik.storage.capture import Capture
from chronik.storage.config import LogConfig
from chronik.storage.errors import CorruptSegment, InvalidRecord, LogFull, OffsetOutOfRange, StorageError
from chronik.storage.journal import Journal
from chronik.storage.journal_format import Kind
from chronik.storage.leader_epochs import LeaderEpochs
from chronik.storage.log_invariants import check_log
from chronik.storage.partition_metadata import PartitionName
from chronik.storage.producer_replay import rebuild_producers
from chronik.storage.producer_state import AbortedTransaction, ProducerState
from chronik.storage.segment import OFFSET_SPAN_MAX, Segment
from chronik.storage.unread import Unread
from chronik.storage.verification import Expected
from chronik.wire.batches import (
    EPOCH_MAX,
    LENGTH_COVERS_FROM,
    NO_PRODUCER_ID,
    STAMP,
    STAMP_BYTES,
    BatchView,
    crc_of,
    patch,
    patch_append_time,
    validate_replicated,
)

JOINED_BYTES_MAX = 4096  # up to here one copy is cheaper than a system call with several buffers
_new = tuple.__new__
_base_offset = attrgetter("base_offset")


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
        self.needed_journals: frozenset[int] = frozenset()  # what they hold of it could not be put into its segments
        self.rolled: set[int] = set()  # base offsets of segments that only the journal told recovery of
        self.sparse_offset = 0  # below it offsets may be missing: compacted here, or by whoever it was fetched from
        self.generation = 0  # counts truncations: what was captured before one is void
        self.producers = ProducerState()
        self.epochs = LeaderEpochs()
        self.segments: list[Segment] = []  # by base offset; the last one is written to
        self.damage: CorruptSegment | None = None  # found by recovery below the durable mark: nothing is appended
        self.rot: CorruptSegment | None = None  # met since then, where it lies lowest: only what is damaged is refused
        self.on_lost: Callable[[Log], None] | None = None  # called when `lost` has changed, in the middle of anything
        self.durable_mark = (0, 0, 0)  # segment, position and offset, as recovery found it: for damaged logs
        self.snapshot: tuple[int, bytes] = (0, b"")  # (offset, producers as of it), from where truncation replays
        self.deleted = False
        self.on_durable: Callable[[], None] | None = None  # called whenever durable_offset has moved forward
        self.checkpointed_segment = 0  # compaction stays below it: recovery puts no journaled bytes there
        self.on_open: Callable[[Segment], None] | None = None  # called before one of its files is opened
        self.is_read = True  # by consumers and followers: what is synced stays in memory while the kernel has room
        self.is_noted = False  # the journal tells of it, or did
        self.drops_first = False  # one of this id was deleted and the journal had no room for that: what it hears first
        self.has_directory = False  # its own, with files or without
        self.is_named_durably = False  # its directory says whose it is, also after a power cut
        self.directory_durably = False  # a deleted log had this directory: its removal must not come undone later
        self._disk = disk
        self._journal = journal
        self._durable_offset = 0
        self._round_offset = 0  # what the round under way makes durable

    def __repr__(self) -> str:
        return f"<Log {self.topic}-{self.partition} {self.start_offset}..{self.end_offset}>"

    @property
    def lost(self) -> CorruptSegment | None:
        """What is damaged, from its `lost_from` on; None if nothing is known to be. That takes another replica."""
        if self.damage is None or self.rot is None:
            return self.damage or self.rot
        return min(self.damage, self.rot, key=attrgetter("lost_from"))

    @property
    def partition_name(self) -> PartitionName:
        return PartitionName(self.topic, self.topic_id, self.partition)

    @property
    def durable_offset(self) -> int:
        """The end of what survives a power cut; with durability "os", of what survives the end of the process."""
        return self.end_offset if self.config.durability == "os" else self._durable_offset

    @property
    def size_bytes(self) -> int:
        return sum([segment.size_bytes for segment in self.segments])

    # Appending.

    def append(
        self, batches: list[BatchView], *, leader_epoch: int, now_ms: int, verify: Verify | None = None
    ) -> Appended:
        """Assigns offsets and writes, or raises and changes nothing. A repeated batch is answered, not written.

        The caller has checked the batches. What is left to check after their sequence numbers it passes as `verify`.
        """
        if self._journal.failed is not None or self.damage is not None:
            raise self._journal.failed or self.damage or StorageError
        config = self.config
        stamps_time = config.message_timestamp_type == "LogAppendTime"
        offset = first_offset = self.end_offset
        buffers: list[Buffer] = []
        stamps: list[tuple[Buffer, int]] = []  # of each batch, and its CRC
        size_bytes = 0
        for batch in batches:
            if batch.producer_id != NO_PRODUCER_ID:
                if len(batches) > 1:
                    raise InvalidRecord("an idempotent producer sends one batch for a partition in one request")
                written = self.producers.check_batch(batch)
                if written is not None:
                    if written.last_offset >= self.end_offset:
                        broken("13 a batch that was written before is in the log", log=self, last=written.last_offset)
                    return Appended(written.first_offset, written.last_offset, written.timestamp_ms, True)
            if verify is not None:
                verify(batch)
            if stamps_time:
                data = bytearray(batch.data)
                patch(data, 0, offset, leader_epoch)
                patch_append_time(data, 0, now_ms)
                buffers.append(data)
                stamps.append((data[:STAMP_BYTES], crc_of(data)))
            else:
                stamp: Buffer = STAMP.pack(offset, batch.length_bytes, leader_epoch)
                buffers += (stamp, batch.data[STAMP_BYTES:])
                stamps.append((stamp, batch.crc))
            size_bytes += batch.length_bytes + LENGTH_COVERS_FROM
            offset += batch.last_offset_delta + 1
        segment = self._room_for(size_bytes, offset, now_ms if stamps_time else batches[0].max_timestamp)
        if size_bytes < JOINED_BYTES_MAX:
            buffers = [b"".join(buffers)]
        if leader_epoch < self.epochs.latest:
            broken("11 a leader's epoch never goes back", log=self, epoch=leader_epoch)
        position = self._write(segment, buffers, size_bytes)
        if leader_epoch != self.epochs.latest:
            self.epochs.assign(leader_epoch, first_offset)
        self.end_offset = offset
        offset = first_offset
        for batch, (stamp, crc) in zip(batches, stamps, strict=True):
            next_offset = offset + batch.last_offset_delta + 1
            end = position + batch.length_bytes + LENGTH_COVERS_FROM
            timestamp_ms = now_ms if stamps_time else batch.max_timestamp
            if batch.producer_id != NO_PRODUCER_ID:
                self.producers.note_batch(batch, offset, timestamp_ms)
            segment.note(offset, next_offset, position, end, timestamp_ms, config.index_interval_bytes, stamp, crc)
            position, offset = end, next_offset
        if offset != self.end_offset or position != segment.size_bytes:
            broken("8 offsets and positions of an append join", log=self, offset=offset, position=position)
        return _new(Appended, (first_offset, offset - 1, now_ms if stamps_time else -1, False))

    def append_fetched(self, buffer: memoryview, leader_epoch: int = EPOCH_MAX) -> None:
        """A follower's append: offsets and epochs are the leader's. A batch cut short at the end is left out."""
        if self._journal.failed is not None or self.damage is not None:
            raise self._journal.failed or self.damage or StorageError
        batches = validate_replicated(buffer, self.end_offset, leader_epoch)
        if not batches:
            return
        size_bytes = sum([batch.size_bytes for batch in batches])
        next_offset = batches[-1].next_offset
        segment = self._room_for(size_bytes, next_offset, batches[0].max_timestamp)
        self._note_gaps(segment, batches)
        whole = buffer[:size_bytes]
        # Bytes of a few small batches go to the journal as they are, without being read again from the file.
        position = self._write(segment, [bytes(whole) if size_bytes < JOINED_BYTES_MAX else whole], size_bytes)
        self.end_offset = next_offset
        for batch in batches:
            self.note_batch(segment, position, batch)
            position += batch.size_bytes
        if position != segment.size_bytes:
            broken("9 a follower writes what its leader has", log=self, position=position, size=segment.size_bytes)

    def _note_gaps(self, segment: Segment, batches: list[BatchView]) -> None:
        """Where the leader's log was compacted. Recovery believes no other gap: no checksum covers a batch's offset."""
        position, expected = segment.size_bytes, self.end_offset
        gaps: list[tuple[Kind, int, int, int]] = []
        for batch in batches:
            if batch.base_offset != expected:
                gaps.append((Kind.GAP, segment.base_offset, position, batch.base_offset))
            position, expected = position + batch.size_bytes, batch.next_offset
        if gaps:
            self._journal.note_all(self, gaps)
            self.sparse_offset = batches[-1].next_offset

    def note_batch(self, segment: Segment, position: int, batch: BatchView) -> None:
        """Takes a batch that is in the segment into everything derived from the log; recovery and followers use it."""
        self.epochs.assign(batch.partition_leader_epoch, batch.base_offset)
        if batch.producer_id != NO_PRODUCER_ID:
            self.producers.note_batch(batch, batch.base_offset, batch.max_timestamp)
        end, interval_bytes = position + batch.size_bytes, self.config.index_interval_bytes
        stamp, largest_ms = batch.data[:STAMP_BYTES], batch.max_timestamp
        segment.note(batch.base_offset, batch.next_offset, position, end, largest_ms, interval_bytes, stamp, batch.crc)

    def _room_for(self, size_bytes: int, next_offset: int, timestamp_ms: int) -> Segment:
        """The segment to write to; a new one when the present one is full or old enough."""
        if not self.segments:
            return self._add_segment(self.end_offset)
        segment = self.segments[-1]
        if segment.size_bytes and (
            not segment.has_room(size_bytes, self.config.segment_bytes)
            or next_offset - segment.base_offset > OFFSET_SPAN_MAX
            or 0 <= segment.first_timestamp_ms < timestamp_ms - self.config.segment_ms
        ):
            return self.roll()
        return segment

    def roll(self) -> Segment:
        """Starts a new segment at the end; without room for one the log goes on as it was."""
        self.segments[-1].seal()
        return self._add_segment(self.end_offset)

    def _add_segment(self, base_offset: int) -> Segment:
        segment = self._make_segment(base_offset)
        try:
            self._journal.note(self, Kind.ROLL, base_offset)
        except LogFull:
            # Not behind the file, which may find no room either: a segment noted and not begun would end the one
            # before it, which goes on.
            self._remove(segment)
            raise
        self.segments.append(segment)
        return segment

    def _make_segment(self, base_offset: int) -> Segment:
        """An empty one. A file that nobody notes and that stays until the next start is removed then."""
        segment = Segment(self._disk, self.directory, base_offset)
        segment.on_damage, segment.on_open = self.met_damage, self.on_open
        try:
            if not self.segments:
                self._disk.make_directory(self.directory, durable=self.directory_durably)
                self.has_directory = True
            segment.truncate(0)  # bytes of an older segment of this name are none of ours
            if not self.segments:
                self.naming_file()
        except DiskFull as error:
            raise LogFull(str(error)) from error
        except OSError as error:
            raise self._journal.fail(error) from error
        return segment

    def naming_file(self) -> File | None:
        """What says whose directory it is; None without a directory, or without room for it: it is tried again."""
        if not self.has_directory or self.damage is not None:  # which may be that the directory is another's
            return None
        try:
            return partition_metadata.write(self._disk, self.directory, self.partition_name)
        except DiskFull:
            return None

    def _remove(self, segment: Segment) -> None:
        try:
            segment.remove()
        except OSError as error:
            raise self._journal.fail(error) from error

    def _write(self, segment: Segment, buffers: list[Buffer], size_bytes: int) -> int:
        try:
            return segment.write(buffers, size_bytes)
        except DiskFull as error:
            raise LogFull(f"no space for {size_bytes} bytes in {segment.path}: free some disk space") from error
        except FileNotFoundError as error:  # removed while it was closed
            lost = CorruptSegment(segment.path, 0, segment.base_offset, f"it cannot be opened: {error}")
            self.met_damage(lost)
            raise lost from error
        except OSError as error:
            raise self._journal.fail(error) from error

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

    def capture(self) -> Capture:
        """For the round that starts now."""
        self._round_offset = self.end_offset
        return Capture.of_undurable(self)

    def made_durable(self, capture: Capture) -> bool:
        """False if the log was truncated meanwhile: the capture says nothing about it any more."""
        if capture.generation != self.generation:
            return False
        for segment, _, end in capture.pieces:
            segment.durable_bytes = max(segment.durable_bytes, end)
        if capture.by_sync:
            self.made_synced(capture)
        if capture.end_offset > self._durable_offset:
            if capture.end_offset > self.end_offset:
                broken("10 nothing is durable that was not written", log=self, durable=capture.end_offset)
            self._durable_offset = capture.end_offset
            if self.on_durable is not None:
                self.on_durable()
        return True

    def made_synced(self, capture: Capture) -> bool:
        """As `made_durable`, of the segments alone: until the journal is synced, a note may be lost that they need."""
        self.is_named_durably |= capture.names
        if capture.generation != self.generation:
            return False
        for segment, _, end in capture.pieces:
            segment.synced_bytes = max(segment.synced_bytes, end)
            segment.entry_synced = True
            if not self.is_read:
                segment.leave_memory()
        return True

    @property
    def state(self) -> tuple[int, int, int, bool]:
        """Changes with everything that a checkpoint holds."""
        return self.generation, self.start_offset, self.end_offset, self.config.compacts

    # Reading.

    def read(
        self, offset: int, *, bytes_max: int, offset_limit: int, at_least_one: bool = True, to_send: bool = False
    ) -> LogRead:
        """Whole batches from the one that holds `offset`, all below `offset_limit`, of one segment at a time.

        `at_least_one` returns a first batch that is larger than `bytes_max`, so that a reader always gets on. What is
        only `to_send` may be Unread.
        """
        limit = self._end_of_reading(offset, offset_limit)
        if offset >= limit:
            return LogRead([], 0, offset)
        index = self.index_at(offset)
        while True:
            segment = self.segments[index]
            is_last = index + 1 == len(self.segments)
            segment_end = self.end_offset if is_last else self.segments[index + 1].base_offset
            start = segment.position_of(offset)
            stop = segment.size_bytes if limit >= segment_end else segment.position_of(limit)
            if start < stop:
                break
            if start >= segment.size_bytes and self._is_dense(segment):
                raise segment.lacks(offset)
            if is_last or segment_end >= limit:
                return LogRead([], 0, offset)  # compaction left nothing between here and the limit
            index += 1
        found = None
        if to_send:
            found = self._find(segment, start, stop, bytes_max, segment_end, at_least_one=at_least_one)
        data, next_offset = found or segment.read_batches(
            start, stop, bytes_max, offset_end=segment_end, at_least_one=at_least_one
        )
        if not data:
            return LogRead([], 0, offset)
        if next_offset < 0:
            next_offset = min(limit, segment_end)
        segment.remember(next_offset, start + len(data))
        return _new(LogRead, ([data], len(data), next_offset))

    def _find(
        self, segment: Segment, start: int, stop: int, bytes_max: int, offset_end: int, *, at_least_one: bool
    ) -> tuple[Unread, int] | None:
        """What `read_batches` would return, if it is large and has been checked before."""
        large_bytes = self._disk.piece_bytes_min
        if min(stop - start, bytes_max) < large_bytes:
            return None
        size_bytes, next_offset = segment.find_batches(start, stop, bytes_max, at_least_one=at_least_one)
        if size_bytes < large_bytes or not segment.is_checked(start, start + size_bytes):
            return None
        try:
            return Unread(self, segment, start, size_bytes, offset_end), next_offset
        except OSError:  # who reads it says what is wrong with it
            return None

    def _end_of_reading(self, offset: int, offset_limit: int) -> int:
        """Up to where there is something to read from `offset` on; raises where nothing is, or must not be, read."""
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        limit = min(offset_limit, self.end_offset)
        if self.damage is not None:
            limit = min(limit, self.damage.offset)
            if offset >= limit:
                raise self.damage
        return limit

    def doubt(self, offset: int) -> None:
        """Whoever reads there next looks at every byte, also if it was right before."""
        if self.segments and self.start_offset <= offset < self.end_offset:
            self.segments[self.index_at(offset)].doubt()

    def require_readable(self, offset: int, *, offset_limit: int) -> None:
        """Raises what `read` would raise for where it is asked to read, not for what it would find there."""
        self._end_of_reading(offset, offset_limit)

    def readable_bytes(self, offset: int, *, offset_limit: int) -> int:
        """How much `read` would return from there on, segment after segment, told by positions alone."""
        limit = self._end_of_reading(offset, offset_limit)
        if offset >= limit:
            return 0
        first, last = self.index_at(offset), self.index_at(limit - 1)
        stop = self.segments[last]
        is_whole = limit == (self.end_offset if stop is self.segments[-1] else self.segments[last + 1].base_offset)
        before_stop = sum([segment.size_bytes for segment in self.segments[first:last]])
        until_limit = stop.size_bytes if is_whole else stop.position_of(limit)
        return before_stop + until_limit - self.segments[first].position_of(offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        return self.producers.last_stable_offset(high_watermark)

    def aborted_transactions(self, first_offset: int, last_offset: int) -> list[AbortedTransaction]:
        return self.producers.aborted(first_offset, last_offset)

    # Cutting.

    def truncate_to(self, offset: int) -> None:
        """Drops every batch that reaches `offset` or lies behind it. A batch across the offset goes as a whole.

        Epochs in which nothing was written are forgotten in any case: a follower does not have them.
        """
        if offset >= self.end_offset:
            self.epochs.truncate_end(self.end_offset)
            return
        if offset < self.start_offset or not self.segments:
            self.restart_at(offset)
            return
        index = self.index_at(offset)
        segment = self.segments[index]
        position = segment.position_of(offset)
        header = next(segment.headers(position), None)
        offset = offset if header is None else min(offset, header[1].base_offset)
        segment.make_ready_to_cut()
        # First the note: a file found shorter than the journal says would count as damaged.
        self._journal.note(self, Kind.TRUNCATE, segment.base_offset, position, offset)
        self._journal.sync_notes()
        self._drop_segments(index + 1, len(self.segments))
        try:
            segment.truncate(position)
        except OSError as error:
            raise self._journal.fail(error) from error
        self.sync_cut(segment)
        self._cut_back(offset)
        self.epochs.truncate_end(offset)
        rebuild_producers(self)
        check_log(self)

    def restart_at(self, offset: int) -> None:
        """Drops everything and goes on at `offset`, also if LogFull says that there is no room for a file yet."""
        notes = [(Kind.TRUNCATE, offset, 0, offset), (Kind.START, 0, 0, offset), (Kind.ROLL, offset, 0, 0)]
        self._journal.note_all(self, notes)
        self._journal.sync_notes()
        self._drop_segments(0, len(self.segments))
        self._cut_back(offset)
        self.start_offset = self._durable_offset = offset
        self.damage = self.rot = None
        self.is_named_durably = False  # it may be in a new directory
        self.epochs.clear()
        self.producers.clear()
        self.snapshot = (offset, b"")
        segment = self._make_segment(offset)
        self.segments.append(segment)
        self.sync_cut(segment)
        check_log(self)

    def met_damage(self, damage: CorruptSegment) -> None:
        """Somebody read bytes that are not what was written, or missed a file. Changes nothing but what is known."""
        if self.deleted or (self.rot is not None and self.rot.lost_from <= damage.lost_from):
            return
        self.rot = damage
        if self.on_lost is not None:
            self.on_lost(self)

    def _cut_back(self, offset: int) -> None:
        self.end_offset = offset
        self._durable_offset = self._round_offset = min(self._durable_offset, offset)
        self.high_watermark = min(self.high_watermark, offset)
        self.compacted_offset = min(self.compacted_offset, offset)
        self.sparse_offset = min(self.sparse_offset, offset)
        last = self.segments[-1].base_offset if self.segments else offset
        self.checkpointed_segment = min(self.checkpointed_segment, last)
        self.generation += 1

    def advance_start(self, offset: int) -> None:
        """No reader gets anything below `offset` any more (DeleteRecords, retention). Files go by maintenance."""
        if not self.start_offset < offset <= self.end_offset:
            return
        self._journal.note(self, Kind.START, offset=offset)
        self.start_offset = offset
        self.epochs.truncate_start(offset)
        self.producers.truncate_start(offset)
        check_log(self)

    def drop_below_start(self) -> None:
        """Removes segments that hold nothing at or above start_offset. The one that is written to stays."""
        count = 0
        while count + 1 < len(self.segments) and self.segments[count + 1].base_offset <= self.start_offset:
            count += 1
        self._drop_segments(0, count)
        check_log(self)

    def _drop_segments(self, first: int, end: int) -> None:
        for segment in self.segments[first:end]:
            self._remove(segment)
        del self.segments[first:end]

    def expected_bases(self) -> list[int] | None:
        """Of the segments that recovery must find; None if compaction may join some of them."""
        if self.config.compacts or self.compacted_offset:
            return None
        return [segment.base_offset for segment in self.segments]

    def expected_in(self, segment: Segment) -> Expected:
        """What must stand at the beginning of a segment of this log."""
        index = self.segments.index(segment) + 1
        offset_end = self.end_offset if index == len(self.segments) else self.segments[index].base_offset
        return Expected(segment.base_offset, offset_end, self._is_dense(segment), self.epochs.epoch_of)

    def _is_dense(self, segment: Segment) -> bool:
        return self.sparse_offset <= segment.base_offset and not self.config.compacts

    def index_at(self, offset: int) -> int:
        """Of the segment that holds `offset`, or of the first."""
        return max(0, bisect_right(self.segments, offset, key=_base_offset) - 1)

    def replace_segments(self, first: int, end: int, replacements: list[Segment]) -> None:
        """Compaction has put other files in place of segments first..end."""
        self.segments[first:end] = replacements
        self._watch(replacements)
        check_log(self)

    def adopt(self, segments: list[Segment], durable_offset: int) -> None:
        """Recovery hands over what it found."""
        self.segments = segments
        self._durable_offset = durable_offset
        self._watch(segments)
        check_log(self)

    def _watch(self, segments: list[Segment]) -> None:
        for segment in segments:
            segment.on_damage, segment.on_open = self.met_damage, self.on_open
            if segment.has_open_files and self.on_open is not None:
                self.on_open(segment)

    def sync_cut(self, segment: Segment) -> None:
        """Blocks until what was cut cannot come back: bytes of before and after a cut, mixed by a power cut, could look
        like a log that no leader ever had, and its epochs would not tell."""
        try:
            for file in segment.files():
                file.sync()
            self._disk.sync_directory(self.directory)
        except OSError as error:
            raise self._journal.fail(error) from error

    def note_cut(self) -> None:
        """Recovery has cut a torn tail, or removed files: what an older journal says of them is void."""
        segment = self.segments[-1]
        self._journal.note(self, Kind.TRUNCATE, segment.base_offset, segment.size_bytes, self.end_offset)

    def let_go(self) -> None:
        """Of a deleted log: files that a lane works on stay open until it is done."""
        self.deleted = True
        self.segments = []

    def close(self) -> None:
        for segment in self.segments:
            segment.close()
