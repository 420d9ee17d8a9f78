"""All logs of one node, in one directory, with their one journal. Opens, makes, deletes, maintains and closes them.

    DIRECTORY/.lock  manifest  checkpoint  reserve  journal/NUMBER.journal
    DIRECTORY/TOPIC-PARTITION/partition.metadata  BASE.log  BASE.index
    DIRECTORY/TOPIC-PARTITION.TIME.stray              directories that belong to no known log (`strays`)

The checkpoint and the journals together are the truth about which logs exist, and the manifest says which of these
files there must be: a directory that lacks one is not opened. A partition's directory appears with its first append.
Maintenance runs in steps on the loop and waits for disks on a lane of its own, so group commit never waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from chronik.runtime.buggify import FORCED_CHECKPOINT
from chronik.runtime.errors import DiskFull
from chronik.runtime.interfaces import Disk, Runtime
from chronik.runtime.invariants import broken, check
from chronik.storage import checkpoint, compaction, lost_logs, manifest, partition_metadata, recovery, retention
from chronik.storage.capture import Capture
from chronik.storage.checkpoint import LogPoint
from chronik.storage.config import LogConfig, LogsConfig
from chronik.storage.errors import DataMissing, ForeignDirectory, LogFull, StorageError, StorageFailed
from chronik.storage.journal import Journal, in_order, journal_path
from chronik.storage.journal_format import Kind
from chronik.storage.log import Log
from chronik.storage.manifest import Manifest
from chronik.storage.open_files import OpenFiles
from chronik.storage.recovery import LogKey
from chronik.storage.strays import Strays, holds_records
from chronik.wire.errors import WireError

logger = logging.getLogger("chronik.storage")

# Given up when the disk is full: deleting old segments takes a few notes in the journal, and those take space.
RESERVE_BYTES = 1 << 20
CHECKPOINT_BYTES_MIN = 64 << 10  # free on the disk, besides twice the last checkpoint, before another is begun
DOOMED = "-delete"  # how directories end that wait for their removal
NEVER_NOTED = 1 << 62  # added to where the journal ended when it had no room to say so
LOGS_PER_STEP = 50  # looked at before the loop gets its turn: about a millisecond


class Logs:
    """`failed` is set when a sync failed: from then on nothing is acknowledged, and the node must stop."""

    def __init__(
        self, runtime: Runtime, directory: str, config: LogsConfig, journal: Journal, promises: Promises
    ) -> None:
        self.directory = directory
        self.config = config
        self._runtime = runtime
        self._disk = runtime.disk
        self._journal = journal
        self._lane = runtime.disk.lane("storage")
        self.open_files = OpenFiles(runtime.disk.files_max, journal.fail)
        self.on_lost: Callable[[Log], None] | None = None  # hears of logs that lack what they acknowledged
        self._logs: dict[LogKey, Log] = {}
        self._lines: dict[LogKey, str] = {}  # of the checkpoint
        self._checkpointed: dict[LogKey, tuple[int, int, int, bool]] = {}
        self.older_release_wrote = False  # since a release with a manifest did
        self._checkpoint_due = False
        self._maintaining = asyncio.Lock()
        self.strays = Strays(runtime.disk, directory)
        self._promises = promises
        self._reserve = f"{directory}/reserve"
        self._unnoted: list[str] = []  # directories of deleted logs that only the next checkpoint knows of
        self._undropped: set[LogKey] = set()  # of them
        self._renamed: set[str] = set()  # directories given free by a deletion that may not have reached the disk

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        directory: str,
        config: LogsConfig,
        on_failure: Callable[[StorageFailed], None] = lambda failure: None,
        *,
        is_used: bool = False,
        now_ms: int = 0,
    ) -> Logs:
        """`now_ms` is the wall time, from which strays are kept. `is_used` says that logs were kept here before, by a
        release that writes a manifest: so there must be one.

        Raises CannotRecover, and changes nothing, when a file is missing or damaged without which nobody can tell what
        was acknowledged.
        """
        disk = runtime.disk
        disk.make_directory(directory)
        disk.lock(f"{directory}/.lock")
        try:
            return cls._open(runtime, directory, config, on_failure, is_used=is_used, now_ms=now_ms)
        except Exception:
            disk.unlock(f"{directory}/.lock")
            raise

    @classmethod
    def _open(
        cls,
        runtime: Runtime,
        directory: str,
        config: LogsConfig,
        on_failure: Callable[[StorageFailed], None],
        *,
        is_used: bool,
        now_ms: int,
    ) -> Logs:
        disk = runtime.disk
        journals = f"{directory}/journal"
        found, points = None, list[LogPoint]()
        if disk.exists(f"{directory}/checkpoint"):
            path = f"{directory}/checkpoint"
            found, points = checkpoint.decode(path, disk.read_file(path))
        first = found or 0
        numbers = [int(name[:20]) for name in disk.list(journals) if name.endswith(".journal")]
        promised = found_manifest = _read_manifest(disk, directory, is_used=is_used)
        if promised is None:
            promised = Manifest(max([first, *numbers]) if numbers or found is not None else -1, 0)
        manifest.require_all(directory, promised, checkpoint=found, journals=numbers)
        disk.make_directory(journals)
        oldest = min([first, *[point.kept_from for point in points if point.kept_from is not None]])
        contents = {
            n: (journal_path(journals, n), disk.read_file(journal_path(journals, n))) for n in numbers if n >= oldest
        }
        for path, data in contents.values():
            # The last round may be in the page cache only, be it after kill -9 or because its sync failed; and what is
            # read here counts as durable.
            file = disk.open(path)
            file.write_again(0, len(data))
            file.sync()
        gathered = recovery.gather(points, contents, first)
        promises = Promises(disk, directory, first)
        number = max([first, *[number + 1 for number in numbers]])
        journal = Journal(disk, journals, number, on_failure, promises.journal_begun)
        logs = cls(runtime, directory, config, journal, promises)
        written = [number for number, end in gathered.ends.items() if end]
        logs.older_release_wrote = found_manifest is not None and manifest.is_outdated(
            found_manifest, checkpoint=found, written=written
        )
        logs._restore(gathered, now_ms)
        logs._checkpoint_due = bool(contents)
        return logs

    def _restore(self, gathered: recovery.Gathered, now_ms: int) -> None:
        expected: set[str] = set()
        names = self._disk.list(self.directory)
        self._finish_deletions(gathered, [name for name in names if name.endswith(DOOMED)])
        deleted = {
            f"{facts.topic}-{facts.partition}": facts.topic_id
            for facts in gathered.known.values()
            if facts.dropped and not facts.is_set_aside
        }
        for key, facts in gathered.known.items():
            if facts.dropped:
                continue
            log = self._new(facts.topic, facts.topic_id, facts.partition, LogConfig())
            log.is_noted = True
            recovery.restore(log, facts, self._disk)
            expected.add(f"{facts.topic}-{facts.partition}")
            point = facts.kept_line(gathered.first) if log.needed_journals else facts.point._replace(kept_from=None)
            self._lines[key] = point.line()
        for name in names:
            _, dash, partition = name.rpartition("-")
            if not dash or not partition.isdigit() or name in expected:
                continue
            found = partition_metadata.read(self._disk, f"{self.directory}/{name}")
            if name in deleted and (found is None or found.topic_id == deleted[name]):
                # Its renaming did not reach the disk, and of a later log in its place nothing was ever durable.
                self._disk.remove_tree(f"{self.directory}/{name}")
            elif not holds_records(self._disk, f"{self.directory}/{name}"):
                self._disk.remove_tree(f"{self.directory}/{name}")
            else:
                why = "is in no journal, so this node has acknowledged nothing of it, or somebody put it there"
                self._set_aside(name, why, now_ms)
        # What the last process, or this one, renamed and removed must not come undone under the next log of that name.
        self._disk.sync_directory(self.directory)

    def _set_aside(self, name: str, why: str, now_ms: int) -> None:
        self.strays.set_aside(name, why, now_ms, self.config.stray_retention_ms)

    def _finish_deletions(self, gathered: recovery.Gathered, doomed: list[str]) -> None:
        """Removes directories of deleted logs. Where the journal's word of that is lost, the directory is all that says
        so: the word is written again first, or the next start would find the log, and its bytes among another's."""
        for name in doomed:
            topic_id, partition, *noted_at = name.removesuffix(DOOMED).rpartition(".")[2].split("_")
            number, position = map(int, noted_at)
            facts = gathered.known.get((bytes.fromhex(topic_id), int(partition)))
            is_noted = number < gathered.first or position < gathered.ends.get(number, 0)
            if facts is None or facts.dropped or is_noted:
                continue
            if position >= NEVER_NOTED and facts.begun_at >= (number, position - NEVER_NOTED):
                continue  # it was made again since
            facts.dropped = True
            log = Log(
                self._disk, self.directory, facts.topic, facts.topic_id, facts.partition, LogConfig(), self._journal
            )
            if self._note_dropped(log) is None:
                raise self.failed or LogFull(f"no space to end a deletion in {self.directory}: free some disk space")
            self._journal.forget(log)
        if doomed:
            self._journal.sync_notes()
        for name in doomed:
            self._disk.remove_tree(f"{self.directory}/{name}")

    @property
    def failed(self) -> StorageFailed | None:
        return self._journal.failed

    @property
    def journal(self) -> Journal:
        return self._journal

    def get(self, topic_id: bytes, partition: int) -> Log | None:
        return self._logs.get((topic_id, partition))

    def all(self) -> Iterable[Log]:
        return self._logs.values()

    def create(self, topic: str, topic_id: bytes, partition: int, config: LogConfig) -> Log:
        """A log without files: they appear with the first append. One that exists is returned, with this config."""
        log = self._logs.get((topic_id, partition))
        if log is None:
            return self._new(topic, topic_id, partition, config)
        check(log.topic == topic, "8 a topic id keeps its name", topic=topic, log=log)
        log.config = config
        return log

    def _new(self, topic: str, topic_id: bytes, partition: int, config: LogConfig) -> Log:
        log = Log(self._disk, self.directory, topic, topic_id, partition, config, self._journal)
        log.directory_durably = log.directory in self._renamed
        log.drops_first = (topic_id, partition) in self._undropped
        log.on_lost, log.on_open = self._lost, self.open_files.opens
        if (topic_id, partition) in self._logs:
            broken("30 a partition has one log", topic=topic, index=partition)
        self._logs[topic_id, partition] = log
        return log

    def _lost(self, log: Log) -> None:
        if self.on_lost is not None:
            self.on_lost(log)

    def cut_lost(self, log: Log, now_ms: int) -> None:
        """Makes room for what another replica has: what is damaged goes. A foreign directory is set aside as it is."""
        if isinstance(log.damage, ForeignDirectory):
            if self._disk.exists(log.directory):  # else it was set aside by a try that found no room
                self._set_aside(log.directory.rpartition("/")[2], "is another partition's", now_ms)
            self._renamed.add(log.directory)
            log.has_directory, log.directory_durably = False, True
        lost_logs.cut(log, self._disk)

    def look_for_vanished(self) -> Iterator[None]:
        """Finds files that somebody removed or replaced under this process: what it writes to them would be lost.

        A generator, so that the loop gets its turn between logs. Without the journal nothing can be acknowledged: the
        node fails. A log whose segment is gone is lost.
        """
        if self._journal.failed is None and not self._journal.is_in_place:
            self._journal.fail(OSError(f"{self._journal.path} was removed or replaced while this node writes to it"))
        for log in list(self._logs.values()):
            yield
            if log.segments and not log.deleted and log.damage is None and not log.segments[-1].is_in_place:
                lost_logs.files_vanished(log)

    def delete(self, log: Log) -> Coroutine[Any, Any, None]:
        """Gone for every caller when this returns, and its name and place are free for another log. Its files go with
        what is returned, for the caller to run, when the journal knows of it."""
        key = (log.topic_id, log.partition)
        check(self._logs.get(key) is log, "30 a log is deleted once", log=log)
        del self._logs[key]
        self._lines.pop(key, None)
        self._checkpointed.pop(key, None)
        log.let_go()
        noted_at = self._note_dropped(log) if log.is_noted or log.has_directory else None
        self._journal.forget(log)
        if not log.has_directory:
            return self._remove(None)
        place = noted_at or f"{self._journal.number}_{NEVER_NOTED + self._journal.size_bytes}"
        # Without the topic's name, which may be as long as a file's name can be.
        doomed = f"{self.directory}/{log.topic_id.hex()}_{log.partition}_{place}{DOOMED}"
        try:
            self._disk.rename(log.directory, doomed)
        except OSError as error:
            self._journal.fail(error)  # what comes next under this name would mix with what is there
            return self._remove(None)
        self._renamed.add(log.directory)
        if noted_at is None:
            self._unnoted.append(doomed)
            self._undropped.add(key)
            return self._remove(None)
        return self._remove(doomed)

    def _note_dropped(self, log: Log, kind: Kind = Kind.DROP) -> str | None:
        """Where the journal says so: if that is lost, recovery finds a directory that waits for its removal, and knows
        from its name that the log went and was not made again since. None: there is no room to say it."""
        for _ in range(2):
            place = f"{self._journal.number}_{self._journal.size_bytes}"
            try:
                self._journal.note(log, kind)
            except LogFull:
                self._checkpoint_due = True  # which tells it as well
                self.free_reserve()
            except StorageFailed:
                break
            else:
                return place
        return None

    async def set_aside(self, logs: list[Log], why: str, now_ms: int) -> None:
        """As `delete` of logs that nobody may have meant to delete: their files are kept for a while as strays."""
        for log in logs:
            key = (log.topic_id, log.partition)
            del self._logs[key]
            self._lines.pop(key, None)
            self._checkpointed.pop(key, None)
            log.let_go()
            if (log.is_noted or log.has_directory) and self._note_dropped(log, Kind.SET_ASIDE) is None:
                self._undropped.add(key)
            self._journal.forget(log)
        # The note first: a directory that is gone, and of which the journal does not say so, would count as damaged.
        # Without an await: the next log of that name may be made at once.
        self._journal.sync_notes()
        for log in logs:
            if log.has_directory:
                self._set_aside(log.directory.rpartition("/")[2], why, now_ms)
                self._renamed.add(log.directory)
        await self._lane.run(partial(self._disk.sync_directory, self.directory))

    async def _remove(self, doomed: str | None) -> None:
        if doomed is not None:
            await self._journal.flush_notes()
            await self._lane.run(lambda: self._disk.remove_tree(doomed))

    async def maintain(
        self, now_ms: int, judged_at: Callable[[int], int] | None = None, *, retains: bool = True
    ) -> None:
        """One step of everything that is due: retention (if `retains`), compaction, checkpoint. Never two at a time.

        `judged_at` tells the time by which to judge what is to be kept for so many ms, `now_ms` unless given.
        A full disk puts off what needs space until the next step; retention, which makes some, has a reserve. What is
        wrong with one log is said, and keeps nothing from the others; only a failed sync is raised.
        """
        async with self._maintaining:
            try:
                await self._maintain(now_ms, judged_at or (lambda _: now_ms), retains=retains)
            except (DiskFull, LogFull) as error:
                logger.debug("maintenance of %s waits for space: %s", self.directory, error)
                self._checkpoint_due = True
            except OSError as error:
                logger.error("maintenance of %s failed and will be retried: %s", self.directory, error)
                self._checkpoint_due = True

    async def _maintain(self, now_ms: int, judged_at: Callable[[int], int], *, retains: bool) -> None:
        if retains:
            await self._retain(judged_at)
        due: list[Log] = []
        for log in self._logs.values():
            with self._told_of(log, "compacted"):
                if self.config.compacts and compaction.is_due(log, now_ms):
                    due.append(log)
        unsynced_bytes = sum([Capture.unsynced_bytes(log) for log in self._logs.values()])
        if (
            due
            or self._checkpoint_due
            or self._journal.size_bytes > self.config.journal_bytes_max
            or unsynced_bytes > self.config.unsynced_bytes_max
            or (FORCED_CHECKPOINT.is_on and FORCED_CHECKPOINT.fires())
        ):
            await self._checkpoint()
        for log in due:
            if not log.deleted:
                with self._told_of(log, "compacted"):
                    keys_max = self.config.compaction_keys_max
                    tombstones_at_ms = judged_at(log.config.delete_retention_ms)
                    await compaction.compact(
                        log, tombstones_at_ms, self._disk, self._lane, keys_max, self._journal.fail
                    )
                # Its line is written anew though no offset has changed: it tells of aborted transactions that are gone.
                self._checkpointed.pop((log.topic_id, log.partition), None)
                self._checkpoint_due = True

    @contextmanager
    def _told_of(self, log: Log, done: str) -> Iterator[None]:
        """Around work on one log, which is not `done` then: whatever is wrong with it is told to the operator."""
        try:
            yield
        except StorageFailed:
            raise
        except (DiskFull, LogFull) as error:
            logger.debug("%r is not %s for now: %s", log, done, error)
        except (StorageError, WireError, OSError) as error:
            logger.error("%r is not %s: %s", log, done, error)

    async def checkpoint(self) -> None:
        """Syncs every segment and cuts the journal behind that."""
        async with self._maintaining:
            await self._checkpoint()

    async def close(self) -> None:
        """A clean end: everything synced, so that the next start has nothing to recover."""
        async with self._maintaining:
            try:
                if self._journal.failed is None:
                    await self._checkpoint()
            except (DiskFull, LogFull) as error:
                logger.warning("closed without a checkpoint, so the next start takes longer: %s", error)
            await self._journal.close()
            self._lane.close()
            for log in self._logs.values():
                log.close()
            self._disk.unlock(f"{self.directory}/.lock")

    async def _retain(self, judged_at: Callable[[int], int]) -> None:
        shortened = []
        for count, log in enumerate(list(self._logs.values())):
            if count % LOGS_PER_STEP == LOGS_PER_STEP - 1:
                await asyncio.sleep(0)
            if log.deleted or log.damage is not None:
                continue
            expiration_ms = self.config.producer_id_expiration_ms
            log.producers.expire(judged_at(expiration_ms), expiration_ms)
            now_ms = judged_at(log.config.retention_ms)
            with self._told_of(log, "read to find out how old it is"):
                await retention.prove(log, now_ms, self._lane)
            if self.get(log.topic_id, log.partition) is not log:
                continue  # deleted meanwhile
            with self._told_of(log, "rolled"):
                retention.roll_untimed(log, now_ms)
            with self._told_of(log, "shortened"):
                try:
                    log.advance_start(retention.start_after_retention(log, now_ms))
                except (DiskFull, LogFull):
                    # Used up before anybody else comes to write: what is given free for long, producers take.
                    self.free_reserve()
                    log.advance_start(retention.start_after_retention(log, now_ms))
            if len(log.segments) > 1 and log.segments[1].base_offset <= log.start_offset:
                shortened.append(log)
            for segment in log.segments[:-1]:
                segment.rest()
        kept_ms = self.config.stray_retention_ms
        await self._lane.run(partial(self.strays.remove_older, judged_at(kept_ms) - kept_ms))
        if shortened:
            # The journal first: a missing segment is only right if the log is known to start behind it.
            await self._journal.flush_notes()
            for log in shortened:
                if not log.deleted:
                    with self._told_of(log, "shortened"):
                        log.drop_below_start()
        await self._synced(self._keep_reserve)  # now, while there is room

    async def _checkpoint(self) -> None:
        # Before anything is done: a journal begun in vain has no room written ahead, in which retention could note.
        needed_bytes = CHECKPOINT_BYTES_MIN + 2 * sum(map(len, self._lines.values()))
        if self._disk.free_bytes(self.directory) < needed_bytes:
            text = f"no space for a checkpoint of {self.directory}, {needed_bytes} bytes: free some disk space"
            raise self._disk.refused.note(DiskFull(text))
        self._checkpoint_due = False
        generations = {log: log.generation for log in self._logs.values()}
        await self._journal.rotate()
        number = self._journal.number
        captures = [await self._checkpoint_log(log, generations.get(log)) for log in list(self._logs.values())]
        await self._journal.flush_notes()
        for capture in captures:
            if capture is not None:
                capture.log.made_durable(capture)
        unnoted = list(self._unnoted)
        data = checkpoint.encode(number, list(self._lines.values()))
        await self._synced(lambda: self._disk.replace_file(f"{self.directory}/checkpoint", data))
        check(
            number >= self._promises.checkpoint,
            "28 checkpoints go forward",
            number=number,
            last=self._promises.checkpoint,
        )
        self._promises.checkpoint = number
        self._renamed.clear()  # replacing a file syncs the directory
        check(number <= self._journal.number, "28 a journal that is written to stays", number=number)
        # Some hold records of a log whose own directory is elsewhere, and can be put back.
        kept = {each for log in self._logs.values() if log.damage is not None for each in log.needed_journals}
        await self._lane.run(lambda: self._remove_journals(number, kept))
        for doomed in unnoted:
            self._unnoted.remove(doomed)
            await self._remove(doomed)
        if not self._unnoted:
            self._undropped.clear()
        await self._synced(self._keep_reserve)

    async def _checkpoint_log(self, log: Log, generation: int | None) -> Capture | None:
        """Syncs a log's segments and writes its line; what that makes durable, once the journal is synced too.

        `generation` is the log's before the journal began, None if it was not there.
        """
        key = (log.topic_id, log.partition)
        lost_logs.look_for_unsynced(log)
        if log.damage is not None:
            await self._sync(Capture.of_unsynced(log))
        if log.damage is not None and not log.deleted:  # still: what is noted of a deleted log would bring it back
            # Its line stays as it is, so the new journal must tell all that the older ones told of it.
            bases = sorted({*log.rolled, *[segment.base_offset for segment in log.segments]})
            first_unlisted = log.checkpointed_segment + 1 if key in self._lines else 0
            rolls = [(Kind.ROLL, base, 0, 0) for base in bases if base >= first_unlisted]
            start = (Kind.START, 0, 0, log.start_offset)
            self._journal.note_all(log, [*rolls, start, (Kind.MARK, *log.durable_mark)])
            return None
        while not log.deleted and log.segments:
            state = log.state
            if self._checkpointed.get(key) == state:
                return None
            lost_logs.look_for_unsynced(log)
            capture = Capture.of_unsynced(log)
            snapshot = (log.end_offset, log.producers.encode())
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
                snapshot[1],
                log.expected_bases(),
                log.end_offset if log.config.compacts else log.sparse_offset,  # it may be compacted before the next one
                digest=segment.digest,
            )
            point.require_sound()
            await self._sync(capture)
            if log.made_synced(capture):
                log.snapshot = snapshot
                if not log.deleted:
                    self._lines[key] = point._replace(is_named=log.is_named_durably).line()
                    if log.generation == generation:
                        self._checkpointed[key] = state
                        log.checkpointed_segment = point.segment
                return capture
        return None

    async def _sync(self, capture: Capture) -> None:
        calls = capture.syncs(self._disk)
        if calls:
            await self._synced(in_order(calls))

    async def _synced(self, work: Callable[[], None]) -> None:
        try:
            await self._lane.run(work)
        except OSError as error:
            raise self._journal.fail(error) from error

    def _keep_reserve(self) -> None:
        if self._disk.exists(self._reserve):
            return
        try:
            self._disk.replace_file(self._reserve, bytes(RESERVE_BYTES))
        except DiskFull:
            return

    def free_reserve(self) -> None:
        """For what must be written on a full disk; it is taken again when there is room."""
        if self._disk.exists(self._reserve):
            self._disk.remove(self._reserve)

    def _remove_journals(self, number: int, kept: set[int]) -> None:
        for name in self._disk.list(self._journal.directory):
            if name.endswith(".journal") and int(name[:20]) < number and int(name[:20]) not in kept:
                self._disk.remove(f"{self._journal.directory}/{name}")


class Promises:
    """Writes the manifest, on whichever thread begins a journal."""

    def __init__(self, disk: Disk, directory: str, checkpoint: int) -> None:
        self._disk = disk
        self._directory = directory
        self.checkpoint = checkpoint  # the number in the newest checkpoint that is durable

    def journal_begun(self, number: int) -> None:
        data = Manifest(number, self.checkpoint).encode()
        try:
            self._disk.replace_file(f"{self._directory}/{manifest.FILE}", data)
        except DiskFull:
            reserve = f"{self._directory}/reserve"
            if not self._disk.exists(reserve):
                raise
            self._disk.remove(reserve)  # which is kept for what must be written on a full disk
            self._disk.replace_file(f"{self._directory}/{manifest.FILE}", data)


def _read_manifest(disk: Disk, directory: str, *, is_used: bool) -> Manifest | None:
    path = f"{directory}/{manifest.FILE}"
    if disk.exists(path):
        return Manifest.decode(path, disk.read_file(path))
    if is_used:
        raise DataMissing(directory, manifest.FILE, "the file is gone")
    return None
