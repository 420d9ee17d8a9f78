"""A partition's segments as files: created, removed, and found by offset. Knows which of them are damaged.

`Log` assigns offsets and decides what is deleted. A partition has no directory and no file before its first append. A
full disk raises LogFull and changes nothing that matters. Any other disk error fails the journal and with it the node.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from chronik.runtime.errors import DiskFull
from chronik.runtime.interfaces import Disk, File
from chronik.storage import partition_metadata
from chronik.storage.aborted_transactions import AbortedTransactions
from chronik.storage.config import LogConfig
from chronik.storage.errors import CorruptSegment, LogFull
from chronik.storage.journal import Journal
from chronik.storage.leader_epochs import LeaderEpochs
from chronik.storage.partition_metadata import PartitionName
from chronik.storage.segment import Segment
from chronik.storage.verification import Expected

_base_offset = attrgetter("base_offset")


class LogSegments:
    __slots__ = (
        "_disk",
        "_journal",
        "aborted",
        "compacted_offset",
        "config",
        "damage",
        "deleted",
        "directory",
        "directory_durably",
        "end_offset",
        "epochs",
        "generation",
        "has_directory",
        "is_named_durably",
        "on_lost",
        "on_open",
        "partition",
        "rot",
        "segments",
        "sparse_offset",
        "start_offset",
        "topic",
        "topic_id",
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
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.directory = f"{directory}/{topic}-{partition}"
        self.config = config
        self.start_offset = 0
        self.end_offset = 0
        self.compacted_offset = 0  # compaction has processed every record below it
        # Below it, offsets may be missing: compacted here, or by the leader that the log was fetched from.
        self.sparse_offset = 0
        self.generation = 0  # counts truncations: captures from before a truncation are void
        self.epochs = LeaderEpochs()
        self.aborted = AbortedTransactions(disk, self.directory)
        self.segments: list[Segment] = []  # by base offset; the last one is written to
        self.damage: CorruptSegment | None = None  # found by recovery below the durable mark: nothing is appended
        # The lowest damage found since then: only reads of the damaged part fail.
        self.rot: CorruptSegment | None = None
        self.deleted = False
        # Called with the log when `lost` has changed; may be called at any time.
        self.on_lost: Callable[[Any], None] | None = None
        self.on_open: Callable[[Segment], None] | None = None  # called before one of its files is opened
        self.has_directory = False  # also true without files in it
        self.is_named_durably = False  # its directory durably names its partition
        self.directory_durably = False  # a deleted log had this directory: its removal must stay durable
        self._disk = disk
        self._journal = journal

    def __repr__(self) -> str:
        return f"<Log {self.topic}-{self.partition} {self.start_offset}..{self.end_offset}>"

    @property
    def lost(self) -> CorruptSegment | None:
        """The lowest known damage, or None. Everything from its `lost_from` on must be copied from another replica."""
        if self.damage is None or self.rot is None:
            return self.damage or self.rot
        return min(self.damage, self.rot, key=attrgetter("lost_from"))

    @property
    def partition_name(self) -> PartitionName:
        return PartitionName(self.topic, self.topic_id, self.partition)

    @property
    def size_bytes(self) -> int:
        return sum([segment.size_bytes for segment in self.segments])

    def index_at(self, offset: int) -> int:
        """The index of the segment that holds `offset`, or of the first one."""
        return max(0, bisect_right(self.segments, offset, key=_base_offset) - 1)

    def _is_dense(self, segment: Segment) -> bool:
        return self.sparse_offset <= segment.base_offset and not self.config.compacts

    def expected_bases(self) -> list[int] | None:
        """The base offsets of segments that recovery must find; None if compaction may merge some of them."""
        if self.config.compacts or self.compacted_offset:
            return None
        return [segment.base_offset for segment in self.segments]

    def expected_in(self, segment: Segment) -> Expected:
        """What the verification of a segment of this log expects to find in it."""
        index = self.segments.index(segment) + 1
        offset_end = self.end_offset if index == len(self.segments) else self.segments[index].base_offset
        return Expected(segment.base_offset, offset_end, self._is_dense(segment), self.epochs.epoch_of)

    def met_damage(self, damage: CorruptSegment) -> None:
        """Records that a read found wrong bytes or a missing file. Nothing else is changed."""
        if self.deleted or (self.rot is not None and self.rot.lost_from <= damage.lost_from):
            return
        self.rot = damage
        if self.on_lost is not None:
            self.on_lost(self)

    def _make_segment(self, base_offset: int) -> Segment:
        """Creates an empty segment. If it is never noted in the journal, the next start removes its file."""
        segment = Segment(self._disk, self.directory, base_offset)
        segment.on_damage, segment.on_open = self.met_damage, self.on_open
        try:
            if not self.segments:
                self._disk.make_directory(self.directory, durable=self.directory_durably)
                self.has_directory = True
            segment.truncate(0)  # an older segment of this name may have left bytes
            self.aborted.begin(base_offset)
            if not self.segments:
                self.naming_file()
        except DiskFull as error:
            raise LogFull(str(error)) from error
        except OSError as error:
            raise self._journal.fail(error) from error
        return segment

    def naming_file(self) -> File | None:
        """The file that names the directory's partition. None without a directory; None without space, and then
        retried.
        """
        if (
            not self.has_directory or self.damage is not None
        ):  # the damage may be that the directory is another partition's
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

    def _drop_segments(self, first: int, end: int) -> None:
        for segment in self.segments[first:end]:
            self._remove(segment)
            self.aborted.drop(segment.base_offset)
        del self.segments[first:end]

    def sync_cut(self, segment: Segment) -> None:
        """Blocks until a truncation is durable. Otherwise a power cut could mix bytes from before and after the
        truncation, which epochs would not reveal."""
        try:
            for file in segment.files():
                file.sync()
            self._disk.sync_directory(self.directory)
        except OSError as error:
            raise self._journal.fail(error) from error

    def _watch(self, segments: list[Segment]) -> None:
        for segment in segments:
            segment.on_damage, segment.on_open = self.met_damage, self.on_open
            if segment.has_open_files and self.on_open is not None:
                self.on_open(segment)

    def let_go(self) -> None:
        """The log was deleted. A lane that still works on its files keeps them open."""
        self.deleted = True
        self.segments = []

    def close(self) -> None:
        for segment in self.segments:
            segment.close()
