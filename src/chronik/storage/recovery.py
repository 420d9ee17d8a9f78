"""The first step of a node's start: restores every log to its last durable state or a later one.

There are three sources. The checkpoint records up to where each log's segments are synced. The journals since the
checkpoint record what became durable later, and hold the bytes of small appends. The segments hold everything, perhaps
with a torn tail.

For each log, recovery writes the journal's bytes where segments lack them, and then reads all batches after the
checkpoint. An incomplete batch after the durable mark is a torn tail, and is truncated. Below the mark it is damage:
the log keeps its end offset, reports file and byte position, serves the records before the damage, and refuses appends.

Compaction changes positions, so journaled bytes must never be applied to a compacted segment. A checkpoint first starts
a new journal and then processes the logs one by one. Meanwhile a log may append, roll or be truncated; the new journal
records this. Records about a segment before the last one of the checkpoint, or of a truncation, are skipped, because
the checkpoint has synced that segment. So compaction may change those segments and no others: the ones below
`Log.checkpointed_segment`. A truncation lowers this value. A checkpoint raises it, unless its journal holds records
from before this log's line was written that truncate the log, or that belong to an earlier log in its place: recovery
could not tell that these records are older than the line.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from chronik.runtime.errors import DiskFull
from chronik.runtime.interfaces import Disk, File
from chronik.runtime.invariants import broken, check
from chronik.storage import partition_metadata
from chronik.storage.checkpoint import LogPoint
from chronik.storage.compaction import finish_swaps
from chronik.storage.config import FOREVER
from chronik.storage.errors import CorruptJournal, CorruptSegment, ForeignDirectory, ForeignFile
from chronik.storage.journal_format import OWNER, Frame, JournalRecord, RecordKind, digest_of, identity, read_frames
from chronik.storage.leader_epochs import LeaderEpochs
from chronik.storage.log import Log
from chronik.storage.producer_state import ProducerState, aborted_in
from chronik.storage.segment import UNINDEXED_BYTES_MAX, Segment, segment_path
from chronik.wire.batches import HEADER_BYTES, LENGTH_COVERS_FROM, BatchView, crc_holds, split
from chronik.wire.errors import WireError

logger = logging.getLogger("chronik.storage")

LogKey = tuple[bytes, int]  # topic id, partition
CRC_COVERS_FROM = slice(17, HEADER_BYTES)  # the part of a batch header with the checksum and the fields that it covers
SCAN_BYTES = 4 << 20  # bytes per read when batches are checked


class KnownLog:
    """The state of one log according to checkpoint and journal."""

    def __init__(self, topic: str, topic_id: bytes, partition: int) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.point = LogPoint(topic, partition, topic_id, 0, 0, 0, 0, 0, [], b"")
        self.line = self.point  # the line in the checkpoint, without the journals applied
        self.durable = (0, 0, 0)  # segment, position, offset
        self.start_offset = 0
        self.pieces: list[tuple[int, int, bytes | memoryview]] = []  # segment, position, bytes
        self.rolls: set[int] = set()  # segments started since the checkpoint
        self.gaps: set[tuple[int, int, int]] = set()  # segment, position and offset of batches after a gap
        self.digests: dict[tuple[int, int], int] = {}  # by segment and position: the digest of the batches before it
        self.is_read_anew = False  # whether the log is read from its beginning, including compacted segments
        self.last_trusted = -1  # up to this segment, the directory is as the checkpoint left it
        self.dropped = False
        self.is_named = False  # its directory durably names its partition
        self.is_set_aside = False  # dropped, and its files are kept
        # Journals with its bytes, or with facts about it that are recorded nowhere else.
        self.journals: set[int] = set()
        # Number of the journal that first declared this log, and the position in it. The same for older journals.
        self.begun_at = (-1, -1)

    @classmethod
    def at(cls, point: LogPoint) -> KnownLog:
        known = cls(point.topic, point.topic_id, point.partition)
        known.point = known.line = point
        known.durable = (point.segment, point.position, point.offset)
        known.start_offset = point.start_offset
        known.last_trusted = point.segment
        known.is_named = point.is_named
        return known

    def needs(self, journal: int) -> bool:
        """Whether the log needs this journal, which is older than the checkpoint."""
        return self.line.kept_from is not None and self.line.kept_from <= journal

    def kept_line(self, first: int) -> LogPoint:
        """The checkpoint line for a log that still needs its journals."""
        return self.line._replace(kept_from=first if self.line.kept_from is None else self.line.kept_from)

    def apply(self, record: JournalRecord) -> None:
        is_trusted = record.segment < self.last_trusted  # this segment is complete, and perhaps compacted by now
        if record.kind == RecordKind.BYTES:
            if not is_trusted:
                self.pieces.append((record.segment, record.position, record.data))
            self.durable = max(self.durable, (record.segment, record.position + len(record.data), record.offset))
        elif record.kind == RecordKind.MARK:
            self.durable = max(self.durable, (record.segment, record.position, record.offset))
            if not is_trusted and (digest := digest_of(record)) is not None:
                self.digests[record.segment, record.position] = digest
        elif record.kind == RecordKind.TRUNCATE:
            self._truncate(record.segment, record.position, record.offset)
        elif record.kind == RecordKind.ROLL and not is_trusted:
            self.rolls.add(record.segment)
        elif record.kind == RecordKind.GAP and not is_trusted:
            self.gaps.add((record.segment, record.position, record.offset))
        elif record.kind == RecordKind.START:
            self.start_offset = record.offset
        elif record.kind == RecordKind.NAMED:
            self.is_named = True
        elif record.kind in (RecordKind.DROP, RecordKind.SET_ASIDE):
            self.dropped = True
            self.is_set_aside = record.kind == RecordKind.SET_ASIDE

    def _truncate(self, segment: int, position: int, offset: int) -> None:
        kept: list[tuple[int, int, bytes | memoryview]] = []
        for piece_segment, piece_position, data in self.pieces:
            if piece_segment == segment:
                data = data[: max(0, position - piece_position)]
            if piece_segment <= segment and len(data):
                kept.append((piece_segment, piece_position, data))
        self.pieces = kept
        if position == 0 and segment == offset:
            self.is_named = False  # the log was created again, perhaps in a new directory
        self.rolls = {base for base in self.rolls if base <= segment}
        self.gaps = {gap for gap in self.gaps if gap[:2] < (segment, position)}
        self.digests = {place: digest for place, digest in self.digests.items() if place <= (segment, position)}
        self.last_trusted = min(self.last_trusted, segment)
        if self.durable[2] >= offset:
            self.durable = (segment, position, offset)
        point = self.point
        if point.offset > offset:
            # The checkpoint's epochs and producers are from after the truncation, so everything is read again.
            unread = LogPoint(self.topic, self.partition, self.topic_id, 0, 0, 0, point.start_offset, 0, [], b"")
            self.point = unread._replace(sparse_offset=point.sparse_offset)
            self.is_read_anew = True


class Gathered(NamedTuple):
    known: dict[LogKey, KnownLog]
    first: int  # number of the first journal that the checkpoint does not cover
    ends: dict[int, int]  # by number of a journal: where its whole frames end
    owners: set[bytes | None]  # the directories that the journals name


def gather(
    points: Iterable[LogPoint], journals: Mapping[int, tuple[str, bytes]], first: int, owner: bytes = b""
) -> Gathered:
    """Folds the journals, given by number as (path, content), into the checkpoint.

    Raises ForeignFile if one names another directory than `owner`; without an owner, all are taken.

    Journals below `first` are applied only to logs whose line in the checkpoint says that they need them.
    """
    known = {(point.topic_id, point.partition): KnownLog.at(point) for point in points}
    ends, owners = dict[int, int](), set[bytes | None]()
    for number, (path, data) in sorted(journals.items()):
        frames, torn = read_frames(memoryview(data))
        if torn.damaged:
            raise CorruptJournal(path, torn.position)
        named = owner_in(frames)
        if owner and named is not None and named != owner:
            raise ForeignFile(path, named, owner)
        owners.add(named)
        _apply(known, frames, number, path, first)
        ends[number] = torn.position
    return Gathered(known, first, ends, owners)


def owner_in(frames: list[Frame]) -> bytes | None:
    """The id of the directory that the journal says it is of. None of an older release's."""
    for frame in frames:
        for record in frame.records:
            if record.kind == RecordKind.DECLARE:
                _, directory_id, partition = identity(record.data)
                if partition == OWNER:
                    return directory_id
    return None


def _apply(known: dict[LogKey, KnownLog], frames: list[Frame], number: int, path: str, first: int) -> None:
    by_handle: dict[int, KnownLog] = {}
    for frame in frames:
        for record in frame.records:
            if record.kind == RecordKind.DECLARE:
                topic, topic_id, partition = identity(record.data)
                log = known.get((topic_id, partition))
                if partition == OWNER:
                    log = KnownLog(topic, topic_id, partition)  # discarded: it is none
                elif number < first and (log is None or not log.needs(number)):
                    log = KnownLog(topic, topic_id, partition)  # discarded: nothing needs this old journal for it
                elif log is None or log.dropped:
                    log = known[topic_id, partition] = KnownLog(topic, topic_id, partition)
                    log.begun_at = (number, frame.position)
                by_handle[record.handle] = log
            elif record.handle in by_handle:
                by_handle[record.handle].apply(record)
                if record.kind in (RecordKind.BYTES, RecordKind.TRUNCATE, RecordKind.GAP):
                    by_handle[record.handle].journals.add(number)
            else:
                raise CorruptJournal(path, frame.position)  # it refers to a log that it did not declare


def restore(log: Log, known: KnownLog, disk: Disk) -> None:
    """Restores one log's files and state. `log` is new."""
    if _is_foreign(log, known, disk):
        return
    if not finish_swaps(log.directory, disk):
        log.aborted.distrust("compaction was interrupted")
    bases, found_stale = _segment_bases(log, known, disk)
    if bases:
        disk.make_directory(log.directory, durable=False)
    log.has_directory = disk.exists(log.directory)
    gone = _missing_bases(known, bases)
    point, durable = known.point, known.durable
    if gone and gone[-1] >= point.segment:
        _lose(log, known, _gone(log, known, gone[-1]))
        log.adopt(_sealed(log, bases, gone, disk, known), log.end_offset)
        return
    _put_journaled_bytes(log, known, disk, set(bases))
    bases = sorted({*bases, *gone})
    log.start_offset = known.start_offset
    log.compacted_offset = point.compacted_offset
    log.sparse_offset = max([point.sparse_offset, point.compacted_offset, *[offset for _, _, offset in known.gaps]])
    log.checkpointed_segment = point.segment
    log.durable_mark = durable
    check(
        point.offset <= durable[2] or point.offset == 0 or known.is_read_anew,
        "10 the journal only adds to what a checkpoint says is durable",
        log=log,
        checkpoint=point.offset,
        durable=durable[2],
    )
    log.rolled = known.rolls | {segment for segment, _, _ in known.pieces}
    check(
        log.compacted_offset <= log.sparse_offset,
        "28 what was compacted is sparse",
        log=log,
        compacted=log.compacted_offset,
        sparse=log.sparse_offset,
    )
    log.epochs = LeaderEpochs(point.epochs)
    # An epoch without records may have been removed since: older batches after it are not a torn tail.
    log.epochs.truncate_end(point.offset)
    log.snapshot = (point.offset, point.producers)
    first_offset = bases[0] if bases else log.start_offset
    if first_offset > point.offset:
        # Part of the log after the checkpoint is lost, and the producers' progress with it. Drop all producers: an
        # unknown producer may continue with any sequence, while an outdated sequence would refuse its next batch.
        log.snapshot = (first_offset, b"")
    log.producers = ProducerState.decode(log.snapshot[1])
    _restore_aborted(log, point, bases)
    expected = point.offset
    has_cut = found_stale
    segments = _sealed(log, bases, gone, disk, known)
    for index, base in enumerate(bases[len(segments) :], len(segments)):
        file = disk.open(segment_path(log.directory, base), create=True)
        size_bytes = file.size_bytes()
        scan_from = min(point.position, size_bytes) if base == point.segment else 0
        segment = Segment(disk, log.directory, base, scan_from)
        segment.index.truncate(scan_from)
        if base == point.segment and scan_from == point.position and point.digest is not None:
            segment.trust(point.digest)
        if scan_from - segment.index.last_position() > UNINDEXED_BYTES_MAX:
            segment.extend_index(log.config.index_interval_bytes)
        segments.append(segment)
        end_offset = bases[index + 1] if index + 1 < len(bases) else FOREVER
        try:
            expected = _scan(log, segment, file, scan_from, size_bytes, max(expected, base), end_offset, known)
        except CorruptSegment as damage:  # the damage is below the checkpoint, found when earlier batches were read
            log.damage = damage
            expected = max(expected, durable[2])
            break
        if (base, segment.size_bytes) == durable[:2]:
            # Truncated at a place that compaction had emptied: no batch reaches it.
            expected = max(expected, durable[2])
        segment.durable_bytes = _durable_bytes(segment, durable)
        segment.synced_bytes = scan_from if base == point.segment else 0
        check(
            segment.durable_bytes <= segment.size_bytes and scan_from <= segment.size_bytes,
            "10 recovery takes nothing for durable that is not there",
            path=segment.path,
            durable=segment.durable_bytes,
            size=segment.size_bytes,
        )
        segment.entry_synced = base == point.segment and scan_from > 0
        segment.checked(scan_from)
        if known.is_read_anew and segment.size_bytes == size_bytes and base < durable[0]:
            expected = end_offset  # compaction may have removed the batches between its last one and the next segment
        if expected < end_offset and (base, segment.size_bytes) < durable[:2]:
            # The file ends before the checkpoint does: the offset of its last whole batch is unknown.
            lost_from = base if base == point.segment and size_bytes < point.position else None
            reason = "below the durable mark"
            log.damage = CorruptSegment(segment.path, segment.size_bytes, expected, reason, lost_from)
            logger.error("%s", log.damage)
            expected = max(expected, durable[2])
            break
        if segment.size_bytes > scan_from:
            # The last process's sync may have failed; the next one must include these bytes.
            file.write_again(scan_from, segment.size_bytes - scan_from)
        if segment.size_bytes < size_bytes:
            logger.info(
                "%s: truncated an incomplete write at byte %d, offset %d", segment.path, segment.size_bytes, expected
            )
            file.truncate(segment.size_bytes)
            log.sync_cut(segment)
            has_cut = True
        if expected < end_offset:
            for stale in bases[index + 1 :]:
                Segment(disk, log.directory, stale, 1).remove()
                has_cut = True
            break
    log.end_offset = max(expected, log.start_offset)
    log.adopt(segments, min(max(durable[2], log.start_offset), log.end_offset))
    if gone:
        log.rot = _gone(log, known, gone[0])
        logger.error("%s", log.rot)
    if not segments and durable[2] > known.start_offset:
        log.damage = CorruptSegment(segment_path(log.directory, durable[0]), 0, log.start_offset, "the file is gone")
        logger.error("%s", log.damage)
        log.end_offset = durable[2]
    elif segments and expected < log.start_offset:
        log.restart_at(log.start_offset)
    elif segments and has_cut and log.damage is None:
        log.sync_cut(segments[-1])
        log.note_cut()
    check(
        log.damage is not None or log.end_offset >= durable[2],
        "22 recovery loses nothing that was durable",
        log=log,
        durable=durable[2],
        end=log.end_offset,
    )


def _restore_aborted(log: Log, point: LogPoint, bases: list[int]) -> None:
    """Restores the aborted transactions as of the checkpoint; reading the batches after it adds the others."""
    if not log.aborted.is_whole:
        return
    if point.aborted is not None:
        if point.bases is None:
            log.aborted.restore_compacted(point.aborted, bases, point.segment)
        else:
            log.aborted.restore(point.aborted, bases, point.offset)
        return
    for aborted in aborted_in(point.producers):
        index = bisect_right(bases, aborted.last_offset)
        if index:  # else its segment was removed
            log.aborted.add(bases[index - 1], aborted)


def _sealed(log: Log, bases: list[int], gone: list[int], disk: Disk, known: KnownLog) -> list[Segment]:
    """The segments before the checkpoint's last one. A missing one gets a size, so that reads from it fail and the
    other segments are still served, in case this is the last copy."""
    made: list[Segment] = []
    for base in sorted({*bases, *gone}):
        if base >= known.point.segment:
            break
        size_bytes = 1 if base in gone else disk.open(segment_path(log.directory, base)).size_bytes()
        made.append(Segment(disk, log.directory, base, size_bytes))
    return made


def _gone(log: Log, known: KnownLog, base: int) -> CorruptSegment:
    """If another replica has the log, all of it is fetched again, because the remaining files may have been replaced
    too."""
    return CorruptSegment(segment_path(log.directory, base), 0, base, "the file is gone", known.start_offset)


def _missing_bases(known: KnownLog, bases: list[int]) -> list[int]:
    """The base offsets of missing segments.

    Retention records the log's start before it removes a segment, a truncation records its place, and compaction keeps
    the base offset of the first segment that it joins. So a missing segment was removed by something else.
    """
    if not bases:
        return []  # the caller distinguishes this case: perhaps nothing was ever written
    missing = [known.start_offset] if bases[0] > known.start_offset else []
    point = known.point
    promised = point.bases if point.bases is not None else [point.segment] if point.position else []
    in_order = sorted({*promised, *bases})
    for base, next_base in zip(in_order, [*in_order[1:], FOREVER], strict=True):
        is_dropped = next_base <= known.start_offset
        is_known = missing == [known.start_offset] and base <= known.start_offset
        if base in promised and base <= known.last_trusted and base not in bases and not is_dropped and not is_known:
            missing.append(base)
    return missing


def _is_foreign(log: Log, known: KnownLog, disk: Disk) -> bool:
    """Whether the directory belongs to another partition. Nothing in such a directory is touched."""
    found = partition_metadata.read(disk, log.directory)
    is_unnamed = found is None and disk.exists(log.directory)
    if is_unnamed and (known.is_named or _contradicts(log, known, disk)):
        holds = "files that do not say whose they are"
    else:
        holds = "" if found in (None, log.partition_name) else str(found)
    if holds:
        damage = ForeignDirectory(log.directory, known.start_offset, str(log.partition_name), holds)
        log.has_directory, log.needed_journals = True, frozenset(known.journals if known.pieces else ())
        _lose(log, known, damage)
        return True
    if is_unnamed:
        with suppress(DiskFull):  # the next sync of the log tries again
            partition_metadata.write(disk, log.directory, log.partition_name)
            disk.sync_directory(log.directory)
    log.is_named_durably = known.is_named and found is not None
    return False


def _contradicts(log: Log, known: KnownLog, disk: Disk) -> bool:
    """Whether a whole batch stands where the journal holds a different one. A power cut leaves the journal's batch or
    none."""
    for base, position, data in known.pieces:
        path = segment_path(log.directory, base)
        if not disk.exists(path):
            continue
        found = disk.open(path).read(position, len(data))
        if found == data:
            continue
        batches, _ = _whole(found)
        # Compare what the checksum covers: the batch's offset may be wrong after a sector was not written.
        if batches and crc_holds(batches[0]) and found[CRC_COVERS_FROM] != data[CRC_COVERS_FROM]:
            return True
    return False


def _lose(log: Log, known: KnownLog, damage: CorruptSegment) -> None:
    """Keeps the log's offsets and relies on none of its records. Records that can be read may be adopted."""
    damage.lost_from = known.start_offset
    log.damage = damage
    logger.error("%s", damage)
    log.durable_mark = known.durable
    log.checkpointed_segment = known.point.segment
    log.rolled = known.rolls | {segment for segment, _, _ in known.pieces}
    log.start_offset = known.start_offset
    log.end_offset = max(known.durable[2], known.start_offset)
    log.epochs = LeaderEpochs(known.point.epochs)
    log.snapshot = (log.start_offset, b"")
    log.adopt([], log.start_offset)


def _segment_bases(log: Log, known: KnownLog, disk: Disk) -> tuple[list[int], bool]:
    """The base offsets of the log's segments, and whether stale segments were found in the directory and removed.

    A stale segment lies below the log's start; or a truncation dropped it and its removal did not reach the disk; or it
    was started before a power cut, and nothing in it was durable.
    """
    found = {int(name[:20]) for name in disk.list(log.directory) if name.endswith(".log") and name[:20].isdigit()}
    rolled = known.rolls | {segment for segment, _, _ in known.pieces}
    bases = sorted({base for base in found if base <= known.last_trusted} | rolled)
    while len(bases) > 1 and bases[1] <= known.start_offset:
        bases.pop(0)
    stale = sorted(found - set(bases))
    for base in stale:
        Segment(disk, log.directory, base, 1).remove()
    return bases, bool(stale)


def _put_journaled_bytes(log: Log, known: KnownLog, disk: Disk, bases: set[int]) -> None:
    """Writes what the journal holds and the segments lack. Other content of the segments is kept."""
    files: dict[int, File] = {}
    for base, position, data in known.pieces:
        if base not in bases:
            continue
        if base not in files:
            files[base] = disk.open(segment_path(log.directory, base), create=True)
        file = files[base]
        found = file.read(position, len(data))
        if found == data:
            continue
        if file.size_bytes() < position:
            return  # bytes that were synced are missing; the scan reports the position
        rest = bytes(file.read(position + len(data), file.size_bytes()))
        if rest and any(rest):
            # The rest may have been synced: a power cut now must not lose it.
            disk.replace_file(file.path, bytes(file.read(0, position)) + bytes(data) + rest)
            files[base] = disk.open(file.path)
        else:
            file.truncate(position)
            file.append([data])


def _durable_bytes(segment: Segment, durable: tuple[int, int, int]) -> int:
    if segment.base_offset < durable[0]:
        return segment.size_bytes
    return min(segment.size_bytes, durable[1]) if segment.base_offset == durable[0] else 0


def _scan(
    log: Log,
    segment: Segment,
    file: File,
    position: int,
    end: int,
    expected: int,
    end_offset: int,
    known: KnownLog,
) -> int:
    """Adds whole, undamaged batches below `end_offset` to the log's state; returns the offset after them.

    Compaction leaves gaps between offsets. Since no checksum covers a batch's offset, a gap is accepted only if the
    journal noted it, or if it lies in the durable part of a log that is known to be sparse. Raises CorruptSegment where
    the journal says that other batches were durable.
    """
    durable, gaps = known.durable, known.gaps
    places = [place for base, place in sorted(known.digests) if base == segment.base_offset and place > position]
    agreed = (position, expected)  # up to here the batches agree with the journal
    while position < end:
        data = file.read(position, min(SCAN_BYTES, end - position))
        batches, needed = _whole(data)
        if not batches:
            if needed <= len(data) or position + needed > end:
                return expected
            data = file.read(position, needed)
            batches, _ = _whole(data)
            if not batches:
                return expected
        for batch in batches:
            if batch.base_offset < expected or batch.last_offset_delta < 0 or not crc_holds(batch):
                return expected
            place = (segment.base_offset, position, batch.base_offset)
            may_be_sparse = place[:2] < durable[:2] and expected < log.sparse_offset
            if batch.base_offset > expected and place not in gaps and not may_be_sparse:
                return expected
            if batch.base_offset >= end_offset or batch.partition_leader_epoch < log.epochs.latest:
                return expected  # from before a truncation: a leader never writes an older epoch after a newer one
            if batch.base_offset < segment.base_offset or batch.next_offset <= expected:
                broken("28 recovery takes batches in the order of offsets", path=segment.path, offset=batch.base_offset)
            segment.size_bytes = position + batch.size_bytes
            log.note_batch(segment, position, batch)
            position += batch.size_bytes
            expected = batch.next_offset
            if places and places[0] <= position:
                if known.digests.get((segment.base_offset, position)) != segment.digest:
                    raise segment.damaged(*agreed, "other batches were written there")
                places = [place for place in places if place > position]
                agreed = (position, expected)
    return expected


def _whole(data: memoryview) -> tuple[list[BatchView], int]:
    """The batches at the beginning of `data`; if there is none, also the size that the first one claims."""
    try:
        batches = split(data, cut_tail=True)
    except WireError:
        batches = _before_the_fault(data)
    if batches or len(data) < HEADER_BYTES:
        return batches, 0
    return [], int.from_bytes(data[8:12], "big", signed=True) + LENGTH_COVERS_FROM


def _before_the_fault(data: memoryview) -> list[BatchView]:
    batches: list[BatchView] = []
    while True:
        size_bytes = int.from_bytes(data[8:12], "big", signed=True) + LENGTH_COVERS_FROM
        try:
            batches += split(data[:size_bytes]) if size_bytes >= HEADER_BYTES else split(data[:1])
        except WireError:
            return batches
        data = data[size_bytes:]
        if not data:
            return batches
