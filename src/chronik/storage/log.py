"""One partition's log: append, roll, truncate. The journal reports what is durable. Reads are in `log_reads`.

Everything runs on the event loop in sections without await. So offsets are assigned in the order of the calls, and no
reader sees half an append. A log never waits: only `when_durable` is asynchronous, and it returns a future.

Offsets: start_offset <= durable_offset <= end_offset. Nothing is on disk before the first append, so thousands of new
partitions cost nothing. The replica owns `high_watermark`; here it only limits retention and compaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from operator import attrgetter

from chronik.runtime.buggify import EARLY_ROLL
from chronik.runtime.errors import DiskFull
from chronik.runtime.interfaces import Buffer, Disk
from chronik.runtime.invariants import broken
from chronik.runtime.pieces import Work
from chronik.storage.aborted_index import DamagedIndex, NotReady
from chronik.storage.answers import Appended, Verify
from chronik.storage.capture import Capture
from chronik.storage.config import LogConfig
from chronik.storage.errors import CorruptSegment, LogFull, StorageError
from chronik.storage.journal import Journal
from chronik.storage.journal_format import RecordKind
from chronik.storage.log_invariants import check_log
from chronik.storage.log_reads import ReadableLog
from chronik.storage.origins import Origin
from chronik.storage.producer_replay import PreparedCut, forget_deleted, preparing_cut, rebuild_producers
from chronik.storage.producer_state import CLIENT, AbortedTransaction, ProducerState
from chronik.storage.segment import OFFSET_SPAN_MAX, Segment
from chronik.storage.transaction_guards import Guard
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

JOINED_BYTES_MAX = 4096  # up to this size, one copy is cheaper than a system call with several buffers
_new = tuple.__new__
_stamp = STAMP.pack
_base_offset = attrgetter("base_offset")


class Log(ReadableLog):
    __slots__ = (
        "_durable_offset",
        "_round_offset",
        "checkpointed_segment",
        "drops_first",
        "durable_mark",
        "high_watermark",
        "is_noted",
        "is_read",
        "needed_journals",
        "on_durable",
        "prepared_cut",
        "producers",
        "rolled",
        "snapshot",
    )

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
        super().__init__(disk, directory, topic, topic_id, partition, config, journal)
        self.high_watermark = 0
        self.producers = ProducerState()
        # (offset, producers as of it), where replay after a truncation starts.
        self.snapshot: tuple[int, bytes] = (0, b"")
        self.prepared_cut: PreparedCut | None = None  # computed in advance for a planned truncation
        self.on_durable: Callable[[], None] | None = None  # called whenever durable_offset has advanced
        self.is_read = True  # by consumers or followers: synced data stays in the page cache while the kernel has room
        self.is_noted = False  # whether the journal has ever mentioned this log
        # A log of this id was deleted without space to note it: the journal must note that first.
        self.drops_first = False
        self.checkpointed_segment = 0  # compaction stays below it: recovery writes no journaled bytes there
        self.durable_mark = (0, 0, 0)  # segment, position and offset that recovery found, for damaged logs
        # Journals with bytes that recovery could not put into segments.
        self.needed_journals: frozenset[int] = frozenset()
        self.rolled: set[int] = set()  # base offsets of segments that recovery knows only from the journal
        self._durable_offset = 0
        self._round_offset = 0  # durable after the running round

    @property
    def durable_offset(self) -> int:
        """The end of the data that survives a power cut; with durability "os", a crash of the process."""
        return self.end_offset if self.config.durability == "os" else self._durable_offset

    # Appending.

    def append(
        self,
        batch: BatchView,
        leader_epoch: int,
        now_ms: int,
        verify: Verify | None = None,
        origin: Origin = CLIENT,
        guard: Guard | None = None,
        transaction_version: int = 0,
    ) -> Appended:
        """Assigns offsets and writes the batches, or raises and changes nothing. Returns the original offsets of a
        duplicate.

        The caller has checked the batch. `verify` is the check to run after the sequence numbers. `guard` is the
        result of `producers.guard_for`, and `transaction_version` that of a marker's transaction.
        """
        if self._journal.failed is not None or self.damage is not None:
            raise self._journal.failed or self.damage or StorageError
        _, length_bytes, _, _, crc, _, last_offset_delta, _, timestamp_ms, producer_id, _, _, _, data = batch
        if producer_id != NO_PRODUCER_ID:
            written = self.producers.check_batch(batch, origin, guard, transaction_version)
            if written is not None:
                if written.last_offset >= self.end_offset:
                    broken("13 a batch that was written before is in the log", log=self, last=written.last_offset)
                return Appended(written.first_offset, written.last_offset, written.timestamp_ms, True)
        if verify is not None:
            verify(batch)
        config, offset = self.config, self.end_offset
        size_bytes = length_bytes + LENGTH_COVERS_FROM
        append_time_ms = -1
        rest: Buffer
        if config.message_timestamp_type == "LogAppendTime":
            timestamp_ms = append_time_ms = now_ms
            stamped = bytearray(data)
            patch(stamped, 0, offset, leader_epoch)
            patch_append_time(stamped, 0, now_ms)
            stamp, rest, crc = bytes(stamped[:STAMP_BYTES]), memoryview(stamped)[STAMP_BYTES:], crc_of(stamped)
        else:
            stamp, rest = _stamp(offset, length_bytes, leader_epoch), data[STAMP_BYTES:]
        next_offset = offset + last_offset_delta + 1
        segment = self._room_for(size_bytes, next_offset, timestamp_ms)
        epochs = self.epochs
        if leader_epoch < epochs.latest:
            broken("11 a leader's epoch never goes back", log=self, epoch=leader_epoch)
        buffers: list[Buffer] = [stamp + rest] if size_bytes < JOINED_BYTES_MAX else [stamp, rest]
        position = self._write(segment, buffers, size_bytes)
        if leader_epoch != epochs.latest:
            epochs.assign(leader_epoch, offset)
        self.end_offset = next_offset
        if producer_id != NO_PRODUCER_ID:
            aborted = self.producers.note_batch(batch, offset, timestamp_ms)
            if aborted is not None:
                self.aborted.add(segment.base_offset, aborted)
        end = position + size_bytes
        segment.note(offset, next_offset, position, end, timestamp_ms, config.index_interval_bytes, stamp, crc)
        if end != segment.size_bytes:
            broken("8 offsets and positions of an append join", log=self, offset=next_offset, position=end)
        return _new(Appended, (offset, next_offset - 1, append_time_ms, False))

    def append_fetched(self, buffer: memoryview, leader_epoch: int = EPOCH_MAX) -> None:
        """A follower's append: the leader has assigned offsets and epochs. Ignores an incomplete batch at the end."""
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
        # Small batches are copied, so that the journal need not read them from the file again.
        position = self._write(segment, [bytes(whole) if size_bytes < JOINED_BYTES_MAX else whole], size_bytes)
        self.end_offset = next_offset
        for batch in batches:
            self.note_batch(segment, position, batch)
            position += batch.size_bytes
        if position != segment.size_bytes:
            broken("9 a follower writes what its leader has", log=self, position=position, size=segment.size_bytes)

    def _note_gaps(self, segment: Segment, batches: list[BatchView]) -> None:
        """Notes gaps of the leader's compaction. Recovery accepts no others, because no checksum covers base
        offsets."""
        position, expected = segment.size_bytes, self.end_offset
        gaps: list[tuple[RecordKind, int, int, int]] = []
        for batch in batches:
            if batch.base_offset != expected:
                gaps.append((RecordKind.GAP, segment.base_offset, position, batch.base_offset))
            position, expected = position + batch.size_bytes, batch.next_offset
        if gaps:
            self._journal.note_all(self, gaps)
            self.sparse_offset = batches[-1].next_offset

    def note_batch(self, segment: Segment, position: int, batch: BatchView) -> None:
        """Updates all state derived from the log with a batch in the segment. Used by recovery and followers."""
        self.epochs.assign(batch.partition_leader_epoch, batch.base_offset)
        if batch.producer_id != NO_PRODUCER_ID:
            aborted = self.producers.note_batch(batch, batch.base_offset, batch.max_timestamp)
            if aborted is not None:
                self.aborted.add(segment.base_offset, aborted)
        end, interval_bytes = position + batch.size_bytes, self.config.index_interval_bytes
        stamp, largest_ms = batch.data[:STAMP_BYTES], batch.max_timestamp
        segment.note(batch.base_offset, batch.next_offset, position, end, largest_ms, interval_bytes, stamp, batch.crc)

    def _room_for(self, size_bytes: int, next_offset: int, timestamp_ms: int) -> Segment:
        """The segment for the next write; a new one if the current one is full or old enough."""
        segments = self.segments
        if not segments:
            return self._add_segment(self.end_offset)
        segment = segments[-1]
        if segment.size_bytes and (
            segment.size_bytes + size_bytes > self.config.segment_bytes
            or next_offset - segment.base_offset > OFFSET_SPAN_MAX
            or 0 <= segment.first_timestamp_ms < timestamp_ms - self.config.segment_ms
            or (EARLY_ROLL.is_on and EARLY_ROLL.fires())
        ):
            return self.roll()
        return segment

    def roll(self) -> Segment:
        """Starts a new segment at the end of the log. If there is no space for it, the log is unchanged."""
        self.segments[-1].seal()
        return self._add_segment(self.end_offset)

    def _add_segment(self, base_offset: int) -> Segment:
        segment = self._make_segment(base_offset)
        try:
            self._journal.note(self, RecordKind.ROLL, base_offset)
        except LogFull:
            # Do not keep a segment whose file could not be noted: a noted segment without a file would mark the end of
            # the previous one, which continues to be used.
            self._remove(segment)
            raise
        self.segments.append(segment)
        return segment

    def _write(self, segment: Segment, buffers: list[Buffer], size_bytes: int) -> int:
        try:
            return segment.write(buffers, size_bytes)
        except DiskFull as error:
            raise LogFull(f"no space for {size_bytes} bytes in {segment.path}: free some disk space") from error
        except FileNotFoundError as error:  # it was removed while it was closed
            lost = CorruptSegment(segment.path, 0, segment.base_offset, f"it cannot be opened: {error}")
            self.met_damage(lost)
            raise lost from error
        except OSError as error:
            raise self._journal.fail(error) from error

    # Durability.

    def when_durable(self, offset: int) -> asyncio.Future[None] | None:
        """None if everything below `offset` is durable; else a future for that, shared by all waiters.

        It fails with StorageFailed if a sync failed. The log may be truncated meanwhile, so check `durable_offset`
        afterwards.
        """
        if offset <= self._durable_offset or self.config.durability == "os":
            return None
        if offset <= self._round_offset and self._journal.running is not None:
            return self._journal.running
        return self._journal.when_durable(self)

    def capture(self) -> Capture:
        """Captures the state for the round that starts now."""
        self._round_offset = self.end_offset
        return Capture.of_undurable(self)

    def made_durable(self, capture: Capture) -> bool:
        """False if the log was truncated since the capture, which makes it void."""
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
        """Like `made_durable`, but only for the segments: a note that they depend on may not be synced in the journal
        yet."""
        self.is_named_durably |= capture.names
        if capture.generation != self.generation:
            return False
        for segment, _, end in capture.pieces:
            segment.synced_bytes = max(segment.synced_bytes, end)
            segment.entry_synced = True
            if not self.is_read:
                segment.leave_memory()
        for index, count, _ in capture.aborted:
            index.synced_count, index.entry_synced = max(index.synced_count, count), True
        return True

    # Transactions.

    def last_stable_offset(self, high_watermark: int) -> int:
        """The end offset for consumers that read committed records; never before the log's start."""
        return max(self.producers.last_stable_offset(high_watermark), min(self.start_offset, high_watermark))

    def aborted_transactions(self, first_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions with a record in first..end, `end` exclusive, by first offset, for consumers that read
        committed records. Raises NotReady if finding them takes long (see `aborted_mending`)."""
        if not self.segments:
            return []
        if not self.aborted.is_whole:
            raise NotReady(f"aborted transactions of {self!r} are being read again")
        base_offset = self.segments[self.index_at(first_offset)].base_offset
        try:
            return self.aborted.between(first_offset, end_offset, base_offset)
        except DamagedIndex as error:
            self.aborted.distrust(str(error))
            raise NotReady(str(error)) from error

    # Truncation.

    def preparing_cut(self, offset: int) -> Work[None] | None:
        """Work to run in steps before `truncate_to(offset)`, which would otherwise block the loop for long. None: no
        work is needed."""
        if offset >= self.end_offset or offset < self.start_offset or not self.segments:
            return None
        return preparing_cut(self, self._cut_at(offset)[2])

    def _cut_at(self, offset: int) -> tuple[int, int, int]:
        """The place of a truncation at `offset`: index of the segment, position in it, and the offset of the batch
        there."""
        index = self.index_at(offset)
        segment = self.segments[index]
        position = segment.position_of(offset)
        header = next(segment.headers(position), None)
        return index, position, offset if header is None else min(offset, header[1].base_offset)

    def truncate_to(self, offset: int) -> None:
        """Drops every batch with records at or above `offset`, including such a batch's records below `offset`.

        Also drops epochs without records, because a follower does not have them.
        """
        if offset >= self.end_offset:
            self.epochs.truncate_end(self.end_offset)
            return
        if offset < self.start_offset or not self.segments:
            self.restart_at(offset)
            return
        index, position, offset = self._cut_at(offset)
        segment = self.segments[index]
        segment.make_ready_to_cut()
        # The note comes first: a file that is shorter than the journal says counts as damaged.
        self._journal.note(self, RecordKind.TRUNCATE, segment.base_offset, position, offset)
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
        """Drops everything and continues at `offset`, even if LogFull reports that there is no space for a file yet."""
        notes = [
            (RecordKind.TRUNCATE, offset, 0, offset),
            (RecordKind.START, 0, 0, offset),
            (RecordKind.ROLL, offset, 0, 0),
        ]
        self._journal.note_all(self, notes)
        self._journal.sync_notes()
        self._drop_segments(0, len(self.segments))
        self._cut_back(offset)
        self.start_offset = self._durable_offset = offset
        self.damage = self.rot = None
        self.is_named_durably = False  # the directory may be a new one
        self.epochs.clear()
        self.producers.clear()
        self.aborted.clear()
        self.prepared_cut = None
        self.snapshot = (offset, b"")
        segment = self._make_segment(offset)
        self.segments.append(segment)
        self.sync_cut(segment)
        check_log(self)

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
        """Hides records below `offset` from readers (DeleteRecords, retention). Maintenance removes the files."""
        if not self.start_offset < offset <= self.end_offset:
            return
        self._journal.note(self, RecordKind.START, offset=offset)
        self.start_offset = offset
        self.epochs.truncate_start(offset)
        forget_deleted(self)
        check_log(self)

    def drop_below(self, offset: int) -> None:
        """Removes segments without records at or above `offset`, except the last segment.

        Before the call, the journal must durably record that the log starts at or above `offset`. `start_offset` alone
        is not enough: it may just have advanced, and a power cut would undo that.
        """
        self._drop_segments(0, self.index_at(min(offset, self.start_offset)))
        check_log(self)

    def replace_segments(self, first: int, end: int, replacements: list[Segment]) -> None:
        """Puts the result of compaction in the place of the segments first..end."""
        self.segments[first:end] = replacements
        self._watch(replacements)
        check_log(self)

    def adopt(self, segments: list[Segment], durable_offset: int) -> None:
        """Takes over the segments that recovery found."""
        self.segments = segments
        self._durable_offset = durable_offset
        self._watch(segments)
        forget_deleted(self)
        check_log(self)

    def note_cut(self) -> None:
        """Records that recovery truncated a torn tail or removed files; older records about these are void."""
        segment = self.segments[-1]
        self._journal.note(self, RecordKind.TRUNCATE, segment.base_offset, segment.size_bytes, self.end_offset)
