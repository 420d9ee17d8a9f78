"""A node's journal: group commit for all its logs. Only recovery reads it.

An append is written to its segment, in the page cache, before a caller waits here. A round makes all logs with waiters
durable together. One round runs at a time, and covers everything that arrived during the previous one (see
`commit_delay`):
- For logs with much new data, the segments are synced, so that no byte is written twice.
- For logs with little new data, the new bytes are written to the journal together. This costs one sync for any number
  of logs. Even for a single log this sync is cheaper, because the journal is preallocated while a segment grows.

Invariants. A round covers exactly the content of the segments at its start. Notes (truncation, start, deletion) are
written immediately and synced with the next round, so nothing is acknowledged on top of a note that a power cut could
undo. After a failed sync, nothing more is acknowledged and nothing is retried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from chronik.runtime.buggify import SYNCED_BY_FILE
from chronik.runtime.errors import DiskFull
from chronik.runtime.interfaces import Disk, File
from chronik.runtime.invariants import broken, check
from chronik.runtime.units import OCTAVES, US_PER_S
from chronik.storage.capture import Capture, syncs_of
from chronik.storage.commit_delay import CommitDelay
from chronik.storage.errors import CorruptSegment, LogFull, StorageFailed
from chronik.storage.journal_format import RecordKind, declaration, frame, mark, ownership, record_header

if TYPE_CHECKING:
    from chronik.storage.log import Log

AHEAD_BYTES = 512 << 10  # zeros that are preallocated after the end


def journal_path(directory: str, number: int) -> str:
    return f"{directory}/{number:020}.journal"


class Journal:
    """`failed` is None until a sync fails; `on_failure` is called once then.

    `owner` is the id of the data directory, empty until it has one. It is written into each file before anything else.
    `promise` is called with the number of each new file, before anything is written to it, and returns when it is
    durable that this file must exist.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        number: int,
        on_failure: Callable[[StorageFailed], None],
        promise: Callable[[int], None] = lambda number: None,
        owner: bytes = b"",
    ) -> None:
        self.owner = owner
        self.directory = directory
        self.number = number
        self.failed: StorageFailed | None = None
        self.running: asyncio.Future[None] | None = None  # resolves when the current round has ended
        self.round_count = 0
        self.sync_count = 0
        self.sync_octaves = [0] * (OCTAVES + 1)  # syncs by duration: slot n counts those below 2**n microseconds
        self.sync_s = 0.0  # total duration of all syncs
        self._sync_started_s = 0.0  # on the event loop's clock
        self._on_failure = on_failure
        self._promise = promise
        self._disk = disk
        self._loop = asyncio.get_running_loop()
        self._lane = disk.lane("journal", is_prompt=True)
        self._file = self._create(number)
        self._handles: dict[Log, int] = {}  # handles of the logs declared in this file
        self._handle_next = 0
        self._names_owner = False  # the active file does
        self._gathering: dict[Log, None] = {}
        self._gathered: asyncio.Future[None] | None = None  # for the next round
        self._commit_delay = CommitDelay(self._loop, self._start)
        self._captures: list[Capture] = []
        self._written_bytes = self._file.size_bytes()
        self._synced_bytes = 0
        self._syncing_bytes = 0
        self._notes_unsynced = False
        self._next_file: tuple[File, asyncio.Future[None]] | None = None

    @property
    def size_bytes(self) -> int:
        return self._file.size_bytes()

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def is_in_place(self) -> bool:
        """False if the active file was removed or replaced."""
        return self._file.is_in_place()

    def when_durable(self, log: Log) -> asyncio.Future[None]:
        """Resolves when the current content of `log` is durable. All waiters of a round share the future."""
        future = self._gathered
        if future is None:
            future = self._gathered = self._loop.create_future()
            if self.failed is not None:
                future.set_exception(self.failed)
                self._gathered = None
                return future
            if self.running is None:
                self._commit_delay.start_soon()
        if self.failed is not None:
            broken("21 after a failed sync nothing is waited for", journal=self.path)
        self._gathering[log] = None
        self._commit_delay.waiter_count += 1
        return future

    def note(self, log: Log, kind: RecordKind, segment: int = 0, position: int = 0, offset: int = 0) -> None:
        """Records what recovery cannot derive from the segments. The note is durable after the next round or
        `sync_notes`."""
        self.note_all(log, [(kind, segment, position, offset)])

    def note_all(self, log: Log, notes: list[tuple[RecordKind, int, int, int]]) -> None:
        """Like `note` for each (kind, segment, position, offset): writes all of them or none."""
        if self.failed is not None:
            raise self.failed
        parts: list[bytes | memoryview] = []
        handle = self._handle(log, parts)
        parts += [
            record_header(kind, handle, segment, position, offset, 0) for kind, segment, position, offset in notes
        ]
        try:
            self._write(parts)
        except DiskFull as error:
            self.forget(log)  # its declaration, if there was one, was not written
            raise LogFull(f"no space in {self.directory}: free some disk space") from error
        log.drops_first = False
        self._notes_unsynced = True

    def sync_notes(self) -> None:
        """Blocks until the notes are durable: for rare changes to files that must not happen before their note is
        durable."""
        try:
            self._file.sync()
        except OSError as error:
            raise self.fail(error) from error
        self._synced_bytes = max(self._synced_bytes, self._file.size_bytes())
        check(
            self._syncing_bytes <= self._synced_bytes,
            "21 what a sync covers was written before it",
            journal=self.path,
            syncing=self._syncing_bytes,
            synced=self._synced_bytes,
        )
        self._notes_unsynced = False

    def forget(self, log: Log) -> None:
        """Removes a deleted log: it has no more waiters, and a running round may end without it."""
        self._gathering.pop(log, None)
        self._handles.pop(log, None)

    async def rotate(self) -> None:
        """Continues in a new file; earlier records stay in the files below `number`."""
        if self.failed is not None:
            raise self.failed
        if self._next_file is None:  # otherwise a cancelled caller has created one
            number = self.number + 1
            try:
                file = await self._lane.run(lambda: self._create(number))
            except OSError as error:
                raise self.fail(error) from error
            self._next_file = (file, self._loop.create_future())
        _, switched = self._next_file
        while not switched.done():
            await self.flush_notes()

    async def flush_notes(self) -> None:
        """Runs a round even if no log has new data."""
        if self.failed is not None:
            raise self.failed
        if self._gathered is None:
            self._gathered = self._loop.create_future()
            if self.running is None:
                self._commit_delay.start_soon()
        await asyncio.shield(self._gathered)

    async def close(self) -> None:
        while (waited_for := self.running or self._gathered) is not None:
            await asyncio.wait([waited_for])
        self._lane.close()
        self._file.close()

    def fail(self, cause: BaseException) -> StorageFailed:
        """Stops acknowledging appends and returns the error to raise."""
        if self.failed is not None:
            return self.failed
        self.failed = StorageFailed(cause)
        switched = self._next_file[1] if self._next_file is not None else None
        for future in (self.running, self._gathered, switched):
            if future is not None and not future.done():
                future.set_exception(self.failed)
                future.exception()  # mark it as retrieved: a round without waiters must not log an error
        self.running = self._gathered = None
        self._gathering.clear()
        self._on_failure(self.failed)
        return self.failed

    def _start(self) -> None:
        future = self._gathered
        if future is None or self.running is not None:
            return
        self.running, self._gathered = future, None
        self._commit_delay.started()
        logs, self._gathering = self._gathering, {}
        if self._next_file is not None:
            self._switch_file()
        captures: list[Capture] = []
        by_sync: list[Capture] = []  # those whose segments are synced
        parts: list[bytes | memoryview] = []
        first_new_handle = self._handle_next
        journal_bytes_max = self._disk.journal_bytes_max
        self._captures = captures
        try:
            for log in logs:
                capture = log.capture()
                captures.append(capture)
                if capture.size_bytes > journal_bytes_max or (SYNCED_BY_FILE.is_on and SYNCED_BY_FILE.fires()):
                    capture.sync_segments()
                    by_sync.append(capture)
                    self._handle(log, parts)
                else:
                    self._collect(capture, parts)
        except (CorruptSegment, LogFull) as error:  # data just written cannot be read again: the disk is unusable
            self.fail(error)
            return
        if parts:
            self._notes_unsynced = True
            try:
                self._write(parts)
            except DiskFull:
                # The segments already have their space, so syncing them still works. Declarations are lost: a log
                # declared
                # in an earlier file survives that, and a new one had its note refused.
                by_sync = captures
                for capture in captures:
                    capture.sync_segments()
                # Later records of those logs are preceded by new declarations.
                self._handles = {log: handle for log, handle in self._handles.items() if handle < first_new_handle}
        files: list[File] = []
        directories: list[str] = []
        if self._notes_unsynced:
            files.append(self._file)
            self._syncing_bytes = self._written_bytes
        self._notes_unsynced = False
        try:
            for capture in by_sync:
                files += capture.files()
                directories += capture.directories()
        except (LogFull, OSError) as error:  # no caller would get an error raised here
            self.fail(error)
            return
        self.round_count += 1
        self.sync_count += len(files) + len(directories)
        self._sync_started_s = self._loop.time()
        if directories:
            syncing = self._lane.run(in_order(syncs_of(files, directories, self._disk)))
            syncing.add_done_callback(lambda synced: self._finished(synced.exception()))
        else:
            self._lane.sync_then(files, self._finished)

    def _collect(self, capture: Capture, parts: list[bytes | memoryview]) -> None:
        handle = self._handle(capture.log, parts)
        last = len(capture.pieces) - 1
        for index, (segment, start, end) in enumerate(capture.pieces):
            # The offset is durable once all pieces of the log are written, and a frame is whole or void.
            offset = capture.end_offset if index == last else segment.base_offset
            parts.append(record_header(RecordKind.BYTES, handle, segment.base_offset, start, offset, end - start))
            parts += segment.take_new(start, end)

    def _handle(self, log: Log, parts: list[bytes | memoryview]) -> int:
        handle = self._handles.get(log)
        if handle is None:
            log.is_noted = True
            handle = self._handles[log] = self._handle_next
            self._handle_next += 1
            parts.append(declaration(handle, log.topic_id, log.partition, log.topic))
            if log.drops_first:
                parts.append(record_header(RecordKind.DROP, handle, 0, 0, 0, 0))
                handle = self._handles[log] = self._handle_next
                self._handle_next += 1
                parts.append(declaration(handle, log.topic_id, log.partition, log.topic))
        return handle

    def _finished(self, error: BaseException | None) -> None:
        if error is not None:
            self.fail(error)
        took_s = self._loop.time() - self._sync_started_s
        self.sync_s += took_s
        self.sync_octaves[min(int(took_s * US_PER_S).bit_length(), OCTAVES)] += 1
        future = self.running
        if future is None:  # the journal failed meanwhile
            return
        if self.failed is not None:
            broken("21 after a failed sync nothing is acknowledged", journal=self.path)
        if self._syncing_bytes > self._written_bytes:
            broken("21 what a sync covers was written before it", journal=self.path, syncing=self._syncing_bytes)
        if self._synced_bytes < self._syncing_bytes:
            self._synced_bytes = self._syncing_bytes
        marks: list[bytes | memoryview] = []
        for capture in self._captures:
            still_holds = capture.log.made_durable(capture)
            if not capture.by_sync:
                continue
            handle = self._handles.get(capture.log)
            if still_holds and capture.pieces and handle is not None:
                for (sealed, _, end), (after, _, _) in pairwise(capture.pieces):
                    marks.append(mark(handle, sealed.base_offset, end, after.base_offset, sealed.digest))
                segment, _, end = capture.pieces[-1]
                if end > segment.durable_bytes:
                    broken("10 a mark names durable bytes", log=capture.log, end=end, durable=segment.durable_bytes)
                marks.append(mark(handle, segment.base_offset, end, capture.end_offset, capture.digest))
                if capture.names:
                    marks.append(record_header(RecordKind.NAMED, handle, 0, 0, 0, 0))
        if future.done():
            broken("21 a round of the journal ends once", journal=self.path, rounds=self.round_count)
        self._captures = []
        self.running = None
        if marks:
            self._mark(marks)
        future.set_result(None)  # before the next round starts, so that responses are sent first
        if self._gathered is not None:
            self._commit_delay.start_next()

    def _mark(self, marks: list[bytes | memoryview]) -> None:
        """Records up to where synced segments are valid. Not synced: a record may be lost, but is never wrong."""
        try:
            self._write(marks)
        except DiskFull:
            return

    def _write(self, parts: list[bytes | memoryview]) -> None:
        position = self._written_bytes
        if self._synced_bytes > position:
            broken("21 what was synced was written before", synced=self._synced_bytes, position=position)
        names_owner = not self._names_owner and self.owner != b""
        if names_owner:
            parts = [ownership(self._handle_next, self.owner), *parts]
            self._handle_next += 1
        try:
            self._file.append(frame(parts, position, self._synced_bytes))
        except OSError as error:
            raise self.fail(error) from error
        finally:
            self._written_bytes = self._file.size_bytes()  # includes a partial write on a full disk
        self._names_owner = self._names_owner or names_owner

    def _create(self, number: int) -> File:
        file = self._disk.create_ahead(journal_path(self.directory, number), AHEAD_BYTES)
        self._disk.sync_directory(self.directory)
        self._promise(number)
        return file

    def _switch_file(self) -> None:
        """Runs only between rounds. Syncs notes in the old file with it before anything new is acknowledged."""
        if self._next_file is None:
            return
        if self._notes_unsynced:
            return
        check(self._captures == [], "21 the journal changes its file between rounds", journal=self.path)
        self._file, switched = self._next_file
        self._next_file = None
        self.number += 1
        check(self._file.size_bytes() == 0, "28 a new journal is empty", journal=self._file.path)
        check(
            self._file.path == journal_path(self.directory, self.number),
            "28 journals are numbered without a hole",
            journal=self._file.path,
            number=self.number,
        )
        self._handles.clear()
        self._handle_next = 0
        self._names_owner = False
        self._written_bytes = self._synced_bytes = self._syncing_bytes = 0
        switched.set_result(None)


def in_order(syncs: list[Callable[[], None]]) -> Callable[[], None]:
    """Combines the syncs into one piece of work for a lane."""

    def run() -> None:
        for sync in syncs:
            sync()

    return run
