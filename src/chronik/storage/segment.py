"""One file of a log: consecutive record batches as received from the network, and their positions.

The log decides when to roll, what is durable and what a reader may see. The file is opened on first use.

Positions: `durable_bytes` survive a power cut, by the journal or a sync of this file; `synced_bytes` by its sync alone.
Data from an earlier process is verified at its first read (see `verification`). After a read that missed the page
cache, the whole segment is verified again, because a disk can change data and memory does not. So a damaged batch is
never served.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence

from chronik.runtime.buggify import CHECKED_AGAIN, ONE_BATCH_READ
from chronik.runtime.errors import DiskFull
from chronik.runtime.interfaces import Buffer, Disk, File
from chronik.runtime.invariants import broken
from chronik.storage import digests, verification
from chronik.storage.digests import KnownDigest, extended_by
from chronik.storage.errors import CorruptSegment, LogFull
from chronik.storage.indexes import CHUNK_ENTRIES, Index, IndexEntry
from chronik.wire.batches import HEADER, HEADER_BYTES, LENGTH_COVERS_FROM, MAGIC, BatchView, split
from chronik.wire.checksums import crc32c

logger = logging.getLogger("chronik.storage")

WALK_BYTES = 8192  # bytes per read when walking from batch to batch: an index interval and the next header
KEPT_BYTES = 8 << 20  # stay in the page cache even without readers: a new leader has readers close to the end
FORGOTTEN_BYTES_MIN = 1 << 20  # the page cache is released in steps of at least this size
UNINDEXED_BYTES_MAX = 1 << 20  # every lookup scans them; a longer unindexed part is indexed again, which is rare
RECENT_MAX = 512  # boundaries remembered, so that a tailing reader needs neither index nor walk
# Small appends kept for the journal, which saves a system call per log. Small, because every log has such a tail.
TAIL_BYTES_MAX = 2048
OFFSET_SPAN_MAX = 2**31 - 1  # index entries have 32-bit relative offsets
NO_DATA = memoryview(b"")
_unpack = HEADER.unpack_from


def segment_path(directory: str, base_offset: int, suffix: str = "log") -> str:
    return f"{directory}/{base_offset:020}.{suffix}"


class Segment:
    __slots__ = (
        "__weakref__",
        "_checked",
        "_checked_from",
        "_digest",
        "_disk",
        "_file",
        "_first_timestamp_ms",
        "_forgotten_bytes",
        "_index",
        "_is_reported",
        "_max_timestamp_ms",
        "_recent",
        "_tail",
        "_tail_bytes",
        "_tail_from",
        "base_offset",
        "durable_bytes",
        "entry_synced",
        "mark",
        "on_damage",
        "on_open",
        "path",
        "proven_bytes",
        "proven_ms",
        "size_bytes",
        "synced_bytes",
        "untimed_since_ms",
        "used",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: int, size_bytes: int = 0) -> None:
        self.base_offset = base_offset
        self.path = segment_path(directory, base_offset)
        self.size_bytes = size_bytes
        self.durable_bytes = size_bytes
        self.synced_bytes = size_bytes
        self.entry_synced = size_bytes > 0  # whether its name in the directory survives a power cut
        self.used = True  # used since the last `rest`
        self.on_damage: Callable[[CorruptSegment], None] | None = None  # called with all detected damage
        # The largest timestamp below `proven_bytes`. Headers do not prove it, because clients write them.
        self.proven_bytes = 0
        self.proven_ms = -1
        self.untimed_since_ms: int | None = None  # when retention first saw a record without a timestamp
        self.on_open: Callable[[Segment], None] | None = None  # called before a file is opened
        self._disk = disk
        self._is_reported = False
        self._forgotten_bytes = 0
        self._file: File | None = None
        self._first_timestamp_ms: int | None = None
        self._index: Index | None = None
        # `_digest` covers all batches; None: not known yet. `mark` is the digest at a position from a checkpoint.
        self._digest: int | None = None if size_bytes else digests.beginning(self.path)
        self.mark: KnownDigest | None = None
        if not size_bytes:
            self._index = self._new_index()
        self._max_timestamp_ms: int | None = None if size_bytes else -1  # None: not known yet
        self._recent: dict[int, int] = {base_offset: 0}  # offset -> start of the first batch at or after it
        self._tail: list[bytes] = []  # the last appends, if they were small, from `_tail_from` on
        self._tail_bytes = 0
        self._tail_from = size_bytes
        self._checked = (0, 0)  # verified: between these positions, and everything from `_checked_from` on
        self._checked_from = size_bytes

    def _new_index(self) -> Index:
        path = segment_path(self.path.rpartition("/")[0], self.base_offset, "index")
        return Index(self._disk, path, digests.beginning(self.path))

    @property
    def file(self) -> File:
        if self._file is None:
            if self.on_open is not None:
                self.on_open(self)
            try:
                # If a nonempty file is gone, it must not be recreated empty.
                self._file = self._disk.open(self.path, create=not self.size_bytes)
            except DiskFull as error:
                raise LogFull(str(error)) from error
        self.used = True
        return self._file

    @property
    def index(self) -> Index:
        if self._index is None:
            index = self._new_index()
            if self.on_open is not None:
                self.on_open(self)
            try:
                index.load(self.size_bytes)
            except DiskFull as error:
                raise LogFull(str(error)) from error
            self._index = index
            if not len(index) and self.size_bytes > UNINDEXED_BYTES_MAX:
                self.extend_index(WALK_BYTES)  # the index file was lost, or is from another release
        self.used = True
        return self._index

    # Writing.

    def write(self, buffers: Sequence[Buffer], size_bytes: int) -> int:
        if self._max_timestamp_ms is None:  # `note` needs it; read it before the write, which may make that impossible
            self._max_timestamp_ms = self.max_timestamp_ms
        file = self.file if self._file is None else self._file
        self.used = True
        position = file.append(buffers)
        if position != self.size_bytes:
            raise CorruptSegment(self.path, self.size_bytes, -1, f"the file has {position} bytes: somebody else wrote")
        if self.durable_bytes > position:
            broken(
                "10 nothing is durable that was not written", path=self.path, durable=self.durable_bytes, end=position
            )
        self.size_bytes = position + size_bytes
        data = buffers[0]
        if type(data) is bytes and len(buffers) == 1 and self._tail_bytes + size_bytes <= TAIL_BYTES_MAX:
            self._tail.append(data)
            self._tail_bytes += size_bytes
        else:
            self._forget_tail()
        return position

    def take_new(self, start: int, end: int) -> list[bytes] | list[memoryview]:
        """Returns the bytes from `start` to the segment's end, `end`, for the journal."""
        if start == self._tail_from and end == start + self._tail_bytes:
            if end > self.size_bytes:
                broken("28 the journal takes what is written", path=self.path, end=end, size=self.size_bytes)
            tail = self._tail
            if sum(map(len, tail)) != end - start:
                broken("26 the end of a segment is kept as it was written", path=self.path, start=start, end=end)
            self._forget_tail()
            return tail
        self._forget_tail()
        return [self.read(start, end - start)]

    def _forget_tail(self) -> None:
        self._tail = []
        self._tail_bytes = 0
        self._tail_from = self.size_bytes

    def note(
        self,
        base_offset: int,
        next_offset: int,
        position: int,
        end: int,
        max_timestamp_ms: int,
        interval_bytes: int,
        stamp: Buffer,
        crc: int,
    ) -> None:
        """Adds a batch that was just written or recovered to index and digest. Never raises after a `write`."""
        largest = self._max_timestamp_ms
        if largest is None:
            largest = self.max_timestamp_ms
        index = self._index
        if index is None:
            index = self.index
        last = index.positions[-1] if index.positions else -1
        if position < last or end > self.size_bytes or base_offset < self.base_offset:
            broken(
                "28 a batch stands between its neighbours",
                path=self.path,
                position=position,
                indexed=last,
                end=end,
                size=self.size_bytes,
                offset=base_offset,
            )
        digest = self._digest
        if digest is None:
            digest = self._digest_at(position)
        if last < 0 or position - last >= interval_bytes:
            index.add(base_offset - self.base_offset, position, largest, digest)
            if index.unwritten >= CHUNK_ENTRIES:
                self._write_index()
        self._digest = crc32c(stamp, digest ^ crc)  # see `digests`
        if max_timestamp_ms > largest:
            self._max_timestamp_ms = max_timestamp_ms
        recent = self._recent
        if len(recent) >= RECENT_MAX:
            recent.clear()
        recent[next_offset] = end

    def index_to_open(self) -> Index:
        """The index, for callers that may open its file."""
        index = self.index
        if index.file is None and self.on_open is not None:
            self.on_open(self)
        return index

    def _write_index(self) -> None:
        try:
            self.index_to_open().write()
        except (DiskFull, OSError):
            return  # missing entries are rebuilt by reading the log

    def make_ready_to_cut(self) -> None:
        """Opens the files that `truncate` needs, so that it fails before anything has changed."""
        self._file, self._index = self.file, self.index

    def truncate(self, position: int) -> None:
        if position > self.size_bytes:
            broken("28 a truncation makes a segment shorter", path=self.path, to=position, size=self.size_bytes)
        self.file.truncate(position)
        self.index.truncate(position)
        self.size_bytes = position
        self.durable_bytes = min(self.durable_bytes, position)
        self.synced_bytes = min(self.synced_bytes, position)
        self._forgotten_bytes = min(self._forgotten_bytes, position)
        self._checked = (min(self._checked[0], position), min(self._checked[1], position))
        self._checked_from = min(self._checked_from, position)
        self._digest = None if position else digests.beginning(self.path)
        if self.mark is not None and self.mark.position > position:
            self.mark = None
        self._forget_tail()
        self._recent = {self.base_offset: 0}
        self._max_timestamp_ms = None if position else -1
        self._first_timestamp_ms = None
        self.proven_bytes, self.proven_ms, self.untimed_since_ms = 0, -1, None

    def seal(self) -> None:
        """No batch is added after this."""
        if self.index.unwritten:
            self._write_index()
        if self._digest is not None:
            with contextlib.suppress(DiskFull, OSError):  # without this entry the end of the segment is not verified
                self.index_to_open().write_end(self.size_bytes, self._digest)
        self._recent.clear()

    def files(self) -> list[File]:
        """Files to sync. Includes the written part of the index: optional, but the first lookup is slow without it."""
        if self._index is not None and self._index.file is not None:
            return [self.file, self._index.file]
        return [self.file]

    @property
    def is_synced(self) -> bool:
        return self.synced_bytes == self.size_bytes and self.entry_synced

    @property
    def has_open_files(self) -> bool:
        return self._file is not None or (self._index is not None and self._index.file is not None)

    def sync_open_files(self) -> None:
        """Blocks. Does not make anything durable for the log: it only detects errors before the files are closed."""
        for file in (self._file, None if self._index is None else self._index.file):
            if file is not None:
                file.sync()

    def let_go_of_files(self) -> None:
        """Closes the files; they are reopened on demand."""
        self._file = None
        if self._index is not None:
            self._index.file = None

    def leave_memory(self) -> None:
        """Releases synced data from the page cache, except the end. Memory is better used for data that is read."""
        end = self.synced_bytes - KEPT_BYTES
        if self._file is not None and end - self._forgotten_bytes >= FORGOTTEN_BYTES_MIN:
            self._file.forget(self._forgotten_bytes, end)
            self._forgotten_bytes = end

    @property
    def is_in_place(self) -> bool:
        """False if the open file was removed or replaced: data written to it is lost when it is closed."""
        return self._file is None or self._file.is_in_place()

    def is_there(self) -> bool:
        """Whether the path still leads to this segment's file. Opens the file."""
        try:
            return self.file.is_in_place()
        except FileNotFoundError:
            return False

    def remove(self) -> None:
        """Removes the files. A lane that still works on them keeps them open."""
        for suffix in ("log", "index", "aborted"):
            path = segment_path(self.path.rpartition("/")[0], self.base_offset, suffix)
            if self._disk.exists(path):
                self._disk.remove(path)
        self._file = self._index = None

    def rest(self) -> None:
        """Closes the file and frees the index of a sealed segment that was not used since the last call."""
        if not self.used:
            self._file = self._index = None
        self.used = False

    def close(self) -> None:
        if self._index is not None:
            if self._index.unwritten:
                self._write_index()
            self._index.close()
        if self._file is not None:
            self._file.close()
        self._file = self._index = None

    # Reading.

    def read(self, position: int, size_bytes: int, file: File | None = None) -> memoryview:
        """`file` is this segment's file, opened by a reader that may continue after its removal."""
        try:
            file = self.file if file is None else file
            data, was_in_memory = file.read_noting_origin(position, size_bytes)
            if not was_in_memory:
                self.doubt()  # data read with it is cached next time, but unverified
        except OSError as error:
            raise self.damaged(position, self._offset_near(position), f"it cannot be read: {error}") from error
        if len(data) < size_bytes and position + len(data) < self.size_bytes:
            raise self.damaged(position + len(data), self._offset_near(position), "the file is cut short")
        return data

    def damaged(self, position: int, offset: int, reason: str) -> CorruptSegment:
        """Returns the error to raise. The first one of a segment is also reported to the operator."""
        damage = CorruptSegment(self.path, position, offset, reason, self.base_offset)
        if not self._is_reported:
            self._is_reported = True
            logger.error("%s", damage)
        if self.on_damage is not None:
            self.on_damage(damage)
        return damage

    def lacks(self, offset: int) -> CorruptSegment:
        """Returns the error to raise if no batch holds an offset that was never compacted."""
        return self.damaged(self.size_bytes, offset, "no batch holds it")

    def check(self, data: memoryview, position: int, offset_end: int) -> None:
        """Raises CorruptSegment if `data`, whole batches read at `position`, differs from the written batches.

        `offset_end` is the end of the segment.
        """
        end = position + len(data)
        if self.is_checked(position, end):
            return
        verification.verify(self, data, position, verification.offset_before(self, position), offset_end)
        if end > self.size_bytes:
            broken("22 what was checked is in the segment", path=self.path, end=end)
        low, high = self._checked
        joins = position <= high and end >= low
        self._checked = (min(low, position), max(high, end)) if joins else (position, end)

    @property
    def end_known(self) -> KnownDigest | None:
        """The digest of the whole content, if this process wrote the end or a checkpoint recorded it."""
        return None if self._digest is None else KnownDigest(self.size_bytes, self._digest)

    @property
    def digest(self) -> int:
        """The digest of its whole content."""
        if self._digest is None:
            self._digest = self._digest_at(self.size_bytes)
        return self._digest

    def _digest_at(self, position: int) -> int:
        """Computes the digest from the content after the last position with a known digest."""
        at, digest = verification.known_before(self, position)
        for _, header in self._walk_from(at, position):
            digest = extended_by(digest, header)
        return digest

    def trust(self, digest: int) -> None:
        """Takes the digest of the whole content from a checkpoint."""
        self._digest, self.mark = digest, KnownDigest(self.size_bytes, digest)

    def checked(self, from_position: int) -> None:
        """Marks everything from this position on as verified by recovery."""
        if not 0 <= from_position <= self.size_bytes:
            broken("22 what was checked is in the segment", path=self.path, position=from_position)
        self._checked_from = min(self._checked_from, from_position)

    def position_of(self, offset: int) -> int:
        """The start of the first batch that reaches `offset`; the segment's size if there is none."""
        position = self._recent.get(offset)
        if position is None:
            for at, header in self._walk(self.index.before_offset(offset - self.base_offset)):
                if header[0] + header[6] >= offset:
                    return at
            return self.size_bytes
        return position

    def read_batches(
        self, start: int, stop: int, bytes_max: int, *, offset_end: int, at_least_one: bool
    ) -> tuple[memoryview, int]:
        """Returns whole, verified batches between two boundaries, and the offset after them; -1 if they reach `stop`.

        `offset_end` is the end of the segment.
        """
        if ONE_BATCH_READ.is_on and ONE_BATCH_READ.fires():
            bytes_max = 1
        if stop - start <= bytes_max:
            data, next_offset = self.read(start, stop - start), -1
        else:
            data = self.read(start, bytes_max)
            size_bytes, next_offset = self.whole_batches(data, start)
            data = data[:size_bytes]
            if not size_bytes and at_least_one:
                _, first = next(self.headers(start))
                data, next_offset = self.read(start, first.size_bytes), first.next_offset
        self.check(data, start, offset_end)
        return data, next_offset

    def whole_batches(self, data: memoryview, position: int) -> tuple[int, int]:
        """(size in bytes, next offset) of the whole batches at the beginning of `data`, read at `position`."""
        entry = self.index.before_position(position + len(data) - HEADER_BYTES)
        at = max(0, entry.position - position)
        if at and _unpack(data, at)[0] != self.base_offset + entry.offset:
            at = 0  # the index is wrong: walk from the start of the data, which is a boundary
        next_offset = -1
        while at + HEADER_BYTES <= len(data):
            header = _unpack(data, at)
            size_bytes = header[1] + LENGTH_COVERS_FROM
            if size_bytes < HEADER_BYTES or header[3] != MAGIC:
                raise self.damaged(position + at, self._offset_near(position + at), "no batch is there")
            if at + size_bytes > len(data):
                break
            at += size_bytes
            next_offset = header[0] + header[6] + 1
        if next_offset < 0 and at:
            next_offset = int(_unpack(data, at)[0])
        return at, next_offset

    def find_batches(self, start: int, stop: int, bytes_max: int, *, at_least_one: bool) -> tuple[int, int]:
        """(size in bytes, next offset) like `read_batches`, from index and headers; 0 if none fits."""
        if stop - start <= bytes_max:
            return stop - start, -1
        limit = start + bytes_max
        entry = self.index.before_position(limit - HEADER_BYTES)
        near = max(start, entry.position)
        if near > start and _unpack(self.read(near, HEADER_BYTES))[0] != self.base_offset + entry.offset:
            return 0, -1  # the index is wrong
        for position, header in self._walk_from(near, stop):
            size_bytes = header[1] + LENGTH_COVERS_FROM
            if position + size_bytes > limit:
                if position == start and at_least_one:
                    return size_bytes, header[0] + header[6] + 1
                if header[0] < self.base_offset or position < start:
                    broken("28 a boundary lies in its segment", path=self.path, offset=header[0], position=position)
                return position - start, header[0]
        return 0, -1

    def is_checked(self, start: int, end: int) -> bool:
        if CHECKED_AGAIN.is_on and CHECKED_AGAIN.fires():
            return False
        low, high = self._checked
        return (low <= start and end <= high) or start >= self._checked_from

    def doubt(self) -> None:
        """Verified data may have changed: the next reads verify every byte."""
        self._checked, self._checked_from = (0, 0), self.size_bytes

    def remember(self, offset: int, position: int) -> None:
        if len(self._recent) >= RECENT_MAX:
            self._recent.clear()
        if position > self.size_bytes:
            broken("28 a boundary lies in its segment", path=self.path, offset=offset, position=position)
        self._recent[offset] = position

    def headers(self, position: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchView]]:
        """Yields (position, header) of the batches from a boundary on; `data` of these views is empty."""
        for at, header in self._walk_from(position, self.size_bytes if end is None else end):
            yield at, BatchView._make((*header, NO_DATA))

    def headers_from(self, entry: IndexEntry) -> Iterator[tuple[int, BatchView]]:
        """Like `headers`, from an index entry on."""
        for at, header in self._walk(entry):
            yield at, BatchView._make((*header, NO_DATA))

    def batch_at(self, position: int, header: BatchView) -> BatchView:
        """Reads and checks the batch with this header at `position`."""
        data = self.read(position, header.size_bytes)
        self.check(data, position, header.next_offset)
        return split(data)[0]

    @property
    def max_timestamp_ms(self) -> int:
        """The largest timestamp in the batch headers, which clients write; -1 if no batch has one."""
        if self._max_timestamp_ms is None:
            index = self.index
            entry = index.entry(len(index) - 1) if len(index) else IndexEntry(0, 0, -1)
            largest = entry.timestamp_before_ms
            for _, header in self._walk(entry):
                largest = max(largest, header[8])
            self._max_timestamp_ms = largest
        return self._max_timestamp_ms

    def modified_ms(self) -> int:
        """Wall time of the last append, independent of clients' timestamps."""
        return self._disk.modified_ms(self.path)

    @property
    def first_timestamp_ms(self) -> int:
        """Timestamp of the first batch, where segment.ms starts; -1 if the segment is empty."""
        if self._first_timestamp_ms is None and self.size_bytes:
            self._first_timestamp_ms = HEADER.unpack(self.read(0, HEADER_BYTES))[8]
        return -1 if self._first_timestamp_ms is None else self._first_timestamp_ms

    def rebuild_index(self, interval_bytes: int) -> None:
        """Rebuilds the index from the batches."""
        self.index.clear()
        self.extend_index(interval_bytes)

    def extend_index(self, interval_bytes: int) -> None:
        """Indexes the batches after the last entry."""
        index = self.index
        entry = index.entry(len(index) - 1) if len(index) else IndexEntry(0, 0, -1)
        largest, digest = entry.timestamp_before_ms, self._digest_at(entry.position)
        for position, header in self._walk_from(entry.position, self.size_bytes):
            last = index.last_position()
            if last < 0 or position - last >= interval_bytes:
                index.add(header[0] - self.base_offset, position, largest, digest)
            largest = max(largest, header[8])
            digest = extended_by(digest, header)
        self._max_timestamp_ms = largest
        self._write_index()

    def _walk(self, entry: IndexEntry) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Walks from the index entry if the batch there matches; else from the beginning, with a new index."""
        if entry.position:
            data = self.read(entry.position, HEADER_BYTES)
            agrees = len(data) == HEADER_BYTES and HEADER.unpack(data)[0] == self.base_offset + entry.offset
            if not agrees:
                self.rebuild_index(WALK_BYTES)
                entry = IndexEntry(0, 0, -1)
        return self._walk_from(entry.position, self.size_bytes)

    def _walk_from(self, position: int, end: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        window = memoryview(b"")
        window_start = position
        next_offset = self.base_offset
        while position < end:
            at = position - window_start
            if at + HEADER_BYTES > len(window):
                window = self.read(position, WALK_BYTES)
                window_start = position
                at = 0
                if len(window) < HEADER_BYTES:
                    raise self.damaged(position, self._offset_near(position), "a header is cut short")
            header = _unpack(window, at)
            size_bytes = header[1] + LENGTH_COVERS_FROM
            if size_bytes < HEADER_BYTES or header[3] != MAGIC or position + size_bytes > self.size_bytes:
                raise self.damaged(position, self._offset_near(position), "no batch is there")
            if header[0] < next_offset:
                raise self.damaged(position, next_offset, f"it says {header[0]}")
            next_offset = header[0] + header[6] + 1
            yield position, header
            position += size_bytes

    def _offset_near(self, position: int) -> int:
        index = self._index
        return self.base_offset + (index.before_position(position).offset if index is not None else 0)
