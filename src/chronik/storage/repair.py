"""Rebuilds a data directory from its segments after its journal, checkpoint or manifest was lost. The node must be
stopped.

Every partition ends with the last complete batch of its last segment. Bytes after that are moved to BASE.log.cut.
Before that, bytes from readable journals are appended if they continue the segment. Damage inside a segment stays: the
batches after it are good, and reads fail only for the damaged part. Then checkpoint and manifest are written again, so
the next start finds a directory that was closed cleanly. Directories that do not name their partition are left to the
next start, which renames them to .stray.

The result may lack acknowledged records. The caller must therefore give the directory a new id, so that the controller
does not rely on its replicas until they have caught up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from chronik.runtime.interfaces import Disk, File
from chronik.storage import checkpoint, manifest, partition_metadata, recovery
from chronik.storage.aborted_transactions import AbortedTransactions
from chronik.storage.checkpoint import LogPoint
from chronik.storage.compaction import finish_swaps
from chronik.storage.errors import CannotRecover
from chronik.storage.journal import journal_path
from chronik.storage.journal_format import RecordKind, identity, read_frames
from chronik.storage.leader_epochs import LeaderEpochs
from chronik.storage.manifest import Manifest
from chronik.storage.partition_metadata import PartitionName
from chronik.storage.producer_state import ProducerState
from chronik.storage.segment import segment_path
from chronik.wire.batches import HEADER_BYTES, LENGTH_COVERS_FROM, NO_PRODUCER_ID, BatchView, crc_holds, split
from chronik.wire.errors import WireError

WINDOW_BYTES = 4 << 20  # bytes per read
NO_BYTES = memoryview(b"")
Piece = tuple[int, int, memoryview]  # segment, position, bytes


class Rebuilt(NamedTuple):
    """One partition after the repair, and what was removed."""

    name: PartitionName
    start_offset: int
    end_offset: int
    from_journal_bytes: int
    cut_bytes: int  # bytes after the last whole batch, moved to BASE.log.cut
    damaged_count: int  # batches with an invalid checksum


def is_whole(disk: Disk, directory: str, owner: bytes = b"") -> bool:
    """Whether recovery has all that it needs there. Changes nothing. `owner` is the directory's id, if it has one."""
    journals = f"{directory}/journal"
    numbers = [int(name[:20]) for name in disk.list(journals) if name.endswith(".journal")]
    try:
        path = f"{directory}/{manifest.FILE}"
        promised = Manifest.decode(path, disk.read_file(path))
        path = f"{directory}/checkpoint"
        data = disk.read_file(path) if disk.exists(path) else b""
        found, points = checkpoint.decode(path, data) if data else (None, [])
        if owner and checkpoint.owner_in(data) not in (None, owner):
            return False
        manifest.require_all(directory, promised, checkpoint=found, journals=numbers)
        first = found or 0
        paths = {number: journal_path(journals, number) for number in numbers if number >= first}
        contents = {number: (path, disk.read_file(path)) for number, path in paths.items()}
        recovery.gather(points, contents, first, owner)
    except (CannotRecover, FileNotFoundError):
        return False
    return True


def repair(
    disk: Disk,
    directory: str,
    on_rebuilt: Callable[[Rebuilt], None] = lambda rebuilt: None,
    owner: bytes = b"",
) -> list[Rebuilt]:
    """Takes the directory's lock, so that no node runs on it meanwhile. May be run again if it was interrupted.

    `owner` is the directory's id, if it has one: journals and a checkpoint of another directory are not used.
    """
    disk.make_directory(directory)
    disk.lock(f"{directory}/.lock")
    try:
        first, known = _checkpointed(disk, directory, owner)
        pieces, number = _journaled(disk, f"{directory}/journal", owner)
        number = max(number, first, _promised(disk, directory))  # names of doomed directories count journals, too
        rebuilt: list[Rebuilt] = []
        lines: list[str] = []
        for name in _partitions(disk, directory):
            point = known.get((name.topic_id, name.partition))
            result, line = _rebuild(disk, directory, name, point, pieces.get((name.topic_id, name.partition), []))
            rebuilt.append(result)
            lines.append(line)
            on_rebuilt(result)
        _write_anew(disk, directory, number + 1, lines)
    finally:
        disk.unlock(f"{directory}/.lock")
    return rebuilt


def _checkpointed(disk: Disk, directory: str, owner: bytes) -> tuple[int, dict[tuple[bytes, int], LogPoint]]:
    """The number of a journal, and what is known of each log; -1 and nothing if the file cannot be read."""
    path = f"{directory}/checkpoint"
    if not disk.exists(path):
        return -1, {}
    try:
        data = disk.read_file(path)
        first, points = checkpoint.decode(path, data)
    except CannotRecover:
        return -1, {}
    if owner and checkpoint.owner_in(data) not in (None, owner):
        return first, {}
    return first, {(point.topic_id, point.partition): point for point in points}


def _promised(disk: Disk, directory: str) -> int:
    """The number of the newest journal that the manifest names; -1 if it cannot be read."""
    path = f"{directory}/{manifest.FILE}"
    if not disk.exists(path):
        return -1
    try:
        return Manifest.decode(path, disk.read_file(path)).journal
    except CannotRecover:
        return -1


def _journaled(disk: Disk, directory: str, owner: bytes) -> tuple[dict[tuple[bytes, int], list[Piece]], int]:
    """What readable frames of all journals hold, in order, and the highest number of a journal."""
    pieces: dict[tuple[bytes, int], list[Piece]] = {}
    numbers = sorted(int(name[:20]) for name in disk.list(directory) if name.endswith(".journal"))
    for number in numbers:
        frames, _ = read_frames(memoryview(disk.read_file(journal_path(directory, number))))
        if owner and recovery.owner_in(frames) not in (None, owner):
            continue
        by_handle: dict[int, tuple[bytes, int]] = {}
        for record in [record for frame in frames for record in frame.records]:
            if record.kind == RecordKind.DECLARE:
                _, topic_id, partition = identity(record.data)
                by_handle[record.handle] = (topic_id, partition)
            elif record.kind == RecordKind.BYTES and record.handle in by_handle:
                piece = (record.segment, record.position, memoryview(record.data))
                pieces.setdefault(by_handle[record.handle], []).append(piece)
    return pieces, numbers[-1] if numbers else -1


def _partitions(disk: Disk, directory: str) -> Iterator[PartitionName]:
    """Partitions whose directory has the name in its metadata file. Directories that were exchanged are not changed."""
    for entry in disk.list(directory):
        found = partition_metadata.read(disk, f"{directory}/{entry}")
        if found is not None and entry == f"{found.topic}-{found.partition}":
            yield found


def _rebuild(
    disk: Disk, directory: str, name: PartitionName, point: LogPoint | None, pieces: list[Piece]
) -> tuple[Rebuilt, str]:
    place = f"{directory}/{name.topic}-{name.partition}"
    finish_swaps(place, disk)
    bases = sorted(int(entry[:20]) for entry in disk.list(place) if entry.endswith(".log") and entry[:20].isdigit())
    from_journal_bytes = _put_pieces(disk, place, pieces, set(bases))
    first = bases[0] if bases else 0
    start_offset = point.start_offset if point is not None and point.start_offset >= first else first
    epochs, producers = LeaderEpochs(), ProducerState()
    aborted = AbortedTransactions(disk, place)
    segment, position, offset, cut_bytes, damaged_count = first, 0, first, 0, 0
    for base in bases:
        file = disk.open(segment_path(place, base))
        aborted.begin(base)
        segment, position, offset = base, 0, max(offset, base)
        damaged_since = 0
        for at, batch in _batches(file):
            if not crc_holds(batch) or batch.base_offset < offset or batch.last_offset_delta < 0:
                damaged_since += 1  # damage, if a whole batch follows
                continue
            damaged_count, damaged_since = damaged_count + damaged_since, 0
            epochs.assign(batch.partition_leader_epoch, batch.base_offset)
            if batch.producer_id != NO_PRODUCER_ID:
                ended = producers.note_batch(batch, batch.base_offset, batch.max_timestamp)
                if ended is not None:
                    aborted.add(base, ended)
            position, offset = at + batch.size_bytes, batch.next_offset
        if base == bases[-1] and position < file.size_bytes():
            cut_bytes = file.size_bytes() - position
            disk.replace_file(f"{file.path}.cut", bytes(file.read(position, cut_bytes)))
            file.truncate(position)
        file.sync()
    for _, _, index_file in aborted.write():
        index_file.sync()
    disk.sync_directory(place)
    start_offset = min(start_offset, offset)
    end = LogPoint(
        name.topic, name.partition, name.topic_id, segment, position, offset, start_offset, 0, epochs.entries(),
        producers.encode(), None, offset, aborted=aborted.counts(),
    )  # fmt: skip
    return Rebuilt(name, start_offset, offset, from_journal_bytes, cut_bytes, damaged_count), end.line()


def _put_pieces(disk: Disk, place: str, pieces: list[Piece], bases: set[int]) -> int:
    """Appends pieces that continue a segment. All others are in the segment already, or cannot be proven to belong
    there."""
    added_bytes = 0
    for base, position, data in pieces:
        if base not in bases:
            continue
        file = disk.open(segment_path(place, base))
        size_bytes = file.size_bytes()
        if position <= size_bytes < position + len(data):
            file.append([data[size_bytes - position :]])
            added_bytes += position + len(data) - size_bytes
    return added_bytes


def _batches(file: File) -> Iterator[tuple[int, BatchView]]:
    """(position, batch) of consecutive batches by their stated lengths, valid or not, until one does not fit."""
    position, window, window_start = 0, NO_BYTES, 0
    while position + HEADER_BYTES <= file.size_bytes():
        at = position - window_start
        if at + HEADER_BYTES > len(window):
            window, window_start, at = file.read(position, WINDOW_BYTES), position, 0
        size_bytes = int.from_bytes(window[at + 8 : at + 12], "big", signed=True) + LENGTH_COVERS_FROM
        if size_bytes < HEADER_BYTES or position + size_bytes > file.size_bytes():
            return
        if at + size_bytes > len(window):
            window, window_start, at = file.read(position, max(WINDOW_BYTES, size_bytes)), position, 0
        try:
            (batch,) = split(window[at : at + size_bytes])
        except (WireError, ValueError):
            return
        yield position, batch
        position += size_bytes


def _write_anew(disk: Disk, directory: str, number: int, lines: list[str]) -> None:
    """Writes the journal first, then the manifest that promises it, and last the checkpoint that makes older journals
    void."""
    journals = f"{directory}/journal"
    disk.make_directory(journals)
    disk.open(journal_path(journals, number), create=True).sync()
    disk.sync_directory(journals)
    disk.replace_file(f"{directory}/checkpoint", checkpoint.encode(number, lines))
    disk.replace_file(f"{directory}/{manifest.FILE}", Manifest(number, number).encode())
    for name in disk.list(journals):
        if name.endswith(".journal") and int(name[:20]) < number:
            disk.remove(f"{journals}/{name}")
    disk.sync_directory(journals)
