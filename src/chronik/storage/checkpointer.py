"""Writes checkpoints: every segment is synced, every log gets a line, and older journals are removed.

A checkpoint waits for the disk on the maintenance lane, while logs are appended to, truncated and deleted. So each
log's line describes one moment, and is written again until the log was not truncated since that moment. The journal is
rotated first: what happens from then on is in a journal that the checkpoint keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chronik.runtime.errors import DiskFull
from chronik.runtime.interfaces import Disk, Lane
from chronik.runtime.invariants import check
from chronik.runtime.pieces import in_slices
from chronik.storage import checkpoint, lost_logs
from chronik.storage.aborted_index import DamagedIndex
from chronik.storage.aborted_mending import mending
from chronik.storage.capture import Capture
from chronik.storage.checkpoint import LogPoint
from chronik.storage.deletions import Deletions
from chronik.storage.journal import Journal, in_order
from chronik.storage.journal_format import RecordKind
from chronik.storage.log import Log
from chronik.storage.manifest_writer import ManifestWriter
from chronik.storage.recovery import LogKey
from chronik.storage.reserve import Reserve

CHECKPOINT_BYTES_MIN = 64 << 10  # required free space, in addition to twice the last checkpoint


class Checkpointer:
    """`is_due` asks maintenance for a checkpoint. `logs` is shared with its owner, which adds and removes logs."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        logs: Mapping[LogKey, Log],
        journal: Journal,
        lane: Lane,
        manifest: ManifestWriter,
        reserve: Reserve,
    ) -> None:
        self.is_due = False
        self._disk = disk
        self._directory = directory
        self._logs = logs
        self._journal = journal
        self._lane = lane
        self._manifest = manifest
        self._reserve = reserve
        self._lines: dict[LogKey, str] = {}  # of the checkpoint
        self._states: dict[LogKey, tuple[int, int, int, bool]] = {}  # of each log when its line was written

    def soon(self) -> None:
        self.is_due = True

    def holds_state(self, key: LogKey) -> bool:
        """Whether the log's line is up to date, unless the log has changed since."""
        return key in self._states

    def recovered(self, key: LogKey, point: LogPoint) -> None:
        """The last checkpoint has this line, or should have it."""
        self._lines[key] = point.line()

    def forget(self, log: Log) -> None:
        """The log was deleted: the next checkpoint does not contain it."""
        key = (log.topic_id, log.partition)
        self._lines.pop(key, None)
        self._states.pop(key, None)

    def compacted(self, log: Log) -> None:
        """The log's line must be rewritten, though no offset has changed: compaction has removed some of the aborted
        transactions that it lists."""
        self._states.pop((log.topic_id, log.partition), None)
        self.is_due = True

    async def write(self, deletions: Deletions) -> None:
        """Syncs every segment, writes the checkpoint, and removes the journals that it covers."""
        # Check first: an unnecessary new journal has no preallocated space, in which retention could write its notes.
        needed_bytes = CHECKPOINT_BYTES_MIN + 2 * sum(map(len, self._lines.values()))
        if self._disk.free_bytes(self._directory) < needed_bytes:
            text = f"no space for a checkpoint of {self._directory}, {needed_bytes} bytes: free some disk space"
            raise self._disk.refused.note(DiskFull(text))
        self.is_due = False
        generations = {log: log.generation for log in self._logs.values()}
        await self._journal.rotate()
        number = self._journal.number
        captures = [await self._checkpoint_log(log, generations.get(log)) for log in list(self._logs.values())]
        await self._journal.flush_notes()
        for capture in captures:
            if capture is not None:
                capture.log.made_durable(capture)
        unnoted = deletions.unnoted()
        lines, owner, path = list(self._lines.values()), self._journal.owner, f"{self._directory}/checkpoint"
        await self.run_sync(lambda: self._disk.replace_file(path, checkpoint.encode(number, lines, owner)))
        last = self._manifest.checkpoint
        check(number >= last, "28 checkpoints go forward", number=number, last=last)
        self._manifest.checkpoint = number
        deletions.directory_synced()  # because replacing a file syncs the directory
        check(number <= self._journal.number, "28 a journal that is written to stays", number=number)
        # Some journals hold records of a log whose own directory is missing, and can be restored.
        kept = {each for log in self._logs.values() if log.damage is not None for each in log.needed_journals}
        await self._lane.run(lambda: self._remove_journals(number, kept))
        await deletions.checkpointed(unnoted)
        await self.run_sync(self._reserve.keep)

    async def run_sync(self, work: Callable[[], None]) -> None:
        """Runs work that makes something durable on the lane. If it fails, the journal has failed."""
        try:
            await self._lane.run(work)
        except OSError as error:
            raise self._journal.fail(error) from error

    async def _checkpoint_log(self, log: Log, generation: int | None) -> Capture | None:
        """Syncs a log's segments and writes its line. Returns what is durable once the journal is synced as well.

        `generation` is the log's when the journal was rotated, None if it was created since.
        """
        key = (log.topic_id, log.partition)
        lost_logs.look_for_unsynced(log)
        if log.damage is not None:
            await self._sync(Capture.of_unsynced(log))
        if log.damage is not None and not log.deleted:  # a note about a deleted log would recreate it
            # Its line stays unchanged, so the new journal must repeat everything the older ones say about it.
            bases = sorted({*log.rolled, *[segment.base_offset for segment in log.segments]})
            first_unlisted = log.checkpointed_segment + 1 if key in self._lines else 0
            rolls = [(RecordKind.ROLL, base, 0, 0) for base in bases if base >= first_unlisted]
            start = (RecordKind.START, 0, 0, log.start_offset)
            self._journal.note_all(log, [*rolls, start, (RecordKind.MARK, *log.durable_mark)])
            return None
        while not log.deleted and log.segments:
            state = checkpoint.state_of(log)
            if self._states.get(key) == state:
                return None
            lost_logs.look_for_unsynced(log)
            try:
                capture = Capture.of_unsynced(log)
            except DamagedIndex:
                await in_slices(mending(log))
                continue
            log.producers.settle(log.high_watermark)
            segment = log.segments[-1]
            point = LogPoint(
                log.topic,
                log.partition,
                log.topic_id,
                segment.base_offset,
                segment.size_bytes,
                log.end_offset,
                log.start_offset,
                log.compacted_offset,
                log.epochs.entries(),
                b"",
                log.expected_bases(),
                log.end_offset if log.config.compacts else log.sparse_offset,  # it may be compacted before the next one
                digest=segment.digest,
                aborted=log.aborted.counts(),
            )
            point.require_sound()
            producers = await in_slices(log.producers.encoding())  # as of now, however long that takes
            if producers is None:
                continue
            text = await self._as_text(producers)
            if _is_void(log, capture):
                continue
            await self._sync(capture)
            if log.made_synced(capture):
                log.snapshot = (point.offset, producers)
                if not log.deleted:
                    self._lines[key] = point._replace(is_named=log.is_named_durably).line(text)
                    if log.generation == generation:
                        self._states[key] = state
                        log.checkpointed_segment = point.segment
                return capture
        return None

    async def _as_text(self, data: bytes) -> str:
        if len(data) <= checkpoint.TEXT_BYTES:
            return checkpoint.as_text(data)
        return await self._lane.run(lambda: checkpoint.as_text(data))

    async def _sync(self, capture: Capture) -> None:
        calls = capture.syncs(self._disk)
        if calls:
            await self.run_sync(in_order(calls))

    def _remove_journals(self, number: int, kept: set[int]) -> None:
        for name in self._disk.list(self._journal.directory):
            if name.endswith(".journal") and int(name[:20]) < number and int(name[:20]) not in kept:
                self._disk.remove(f"{self._journal.directory}/{name}")


def _is_void(log: Log, capture: Capture) -> bool:
    """Whether the log was deleted or cut since: its files may not be what was to be synced."""
    return log.deleted or log.generation != capture.generation
