"""The state of one log at one moment, taken by a commit round or a checkpoint, which then makes it durable.

The log continues while the disk works. A capture describes what was in the segments at that moment. It is void if the
log was truncated since.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from chronik.runtime.interfaces import Disk, File
from chronik.runtime.invariants import broken
from chronik.storage import aborted_transactions

if TYPE_CHECKING:
    from chronik.storage.aborted_index import AbortedIndex
    from chronik.storage.log import Log
    from chronik.storage.segment import Segment


class Capture:
    """`pieces` are (segment, from, to), by position; `by_sync` says that the segments themselves are synced."""

    __slots__ = ("aborted", "by_sync", "digest", "end_offset", "generation", "log", "names", "pieces", "size_bytes")

    def __init__(self, log: Log, pieces: list[tuple[Segment, int, int]]) -> None:
        self.log = log
        self.pieces = pieces
        self.end_offset = log.end_offset
        self.digest = 0  # if `by_sync`: the digest of the last segment, up to the end of its piece
        self.generation = log.generation
        self.by_sync = False
        self.aborted: list[tuple[AbortedIndex, int, File]] = []  # index files to sync, with the number of entries
        self.names = False  # whether the file that names the directory's partition is synced too
        size_bytes = 0
        for _, start, end in pieces:
            if start > end:
                broken("21 a capture goes forward", log=log, start=start, end=end)
            size_bytes += end - start
        self.size_bytes = size_bytes

    @classmethod
    def of_undurable(cls, log: Log) -> Capture:
        """For a round. The segments before a durable one are durable too."""
        segments = log.segments
        if len(segments) == 1:
            segment = segments[0]
            if segment.durable_bytes == segment.size_bytes:
                return cls(log, [])
            return cls(log, [(segment, segment.durable_bytes, segment.size_bytes)])
        pieces: list[tuple[Segment, int, int]] = []
        for segment in reversed(segments):
            if segment.durable_bytes < segment.size_bytes:
                pieces.append((segment, segment.durable_bytes, segment.size_bytes))
            elif segment.size_bytes:
                break
        pieces.reverse()
        return cls(log, pieces)

    @classmethod
    def of_unsynced(cls, log: Log) -> Capture:
        """For a checkpoint. A segment may be durable by the journal alone while a later one is synced.

        Raises DiskFull if there is no space for index entries that are only in memory.
        """
        pieces = [
            (segment, segment.synced_bytes, segment.size_bytes)
            for segment in log.segments
            if segment.synced_bytes < segment.size_bytes or not segment.entry_synced
        ]
        capture = cls(log, pieces)
        capture.sync_segments()
        if log.damage is None and (log.aborted.indexes or not log.aborted.is_whole):
            capture.aborted = aborted_transactions.written(log)
        return capture

    def sync_segments(self) -> None:
        """Decides to sync the segments. Call it before anything else is appended, because a mark will need the
        digest."""
        self.by_sync = True
        if self.pieces:
            self.digest = self.pieces[-1][0].digest

    @staticmethod
    def unsynced_bytes(log: Log) -> int:
        """The number of bytes that a checkpoint would sync, and that recovery would have to read at least."""
        size_bytes = 0
        for segment in reversed(log.segments):
            if segment.size_bytes and segment.synced_bytes == segment.size_bytes:
                break
            size_bytes += segment.size_bytes - segment.synced_bytes
        return size_bytes

    def files(self) -> list[File]:
        """The files to sync to make the segments durable. `directories` are synced after them."""
        files = [file for segment, _, _ in self.pieces for file in segment.files()]
        files += [file for _, _, file in self.aborted]
        if not self.log.is_named_durably and (name := self.log.naming_file()) is not None:
            self.names = True
            files.append(name)
        return files

    def directories(self) -> list[str]:
        """The directories to sync after the files, if a segment's name may not be on the disk yet."""
        has_names = all(segment.entry_synced for segment, _, _ in self.pieces)
        if not self.names and has_names and all(index.entry_synced for index, _, _ in self.aborted):
            return []
        return [self.log.directory, self.log.directory.rpartition("/")[0]]

    def syncs(self, disk: Disk) -> list[Callable[[], None]]:
        """All of this as calls, to run in order on a lane."""
        return syncs_of(self.files(), self.directories(), disk)


def syncs_of(files: list[File], directories: list[str], disk: Disk) -> list[Callable[[], None]]:
    return [*[file.sync for file in files], *[partial(_sync_directory, disk, each) for each in directories]]


def _sync_directory(disk: Disk, directory: str) -> None:
    try:
        disk.sync_directory(directory)
    except FileNotFoundError:
        return  # the log was deleted meanwhile, so no caller waits for its content
