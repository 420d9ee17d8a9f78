"""All logs of one node, in one directory, with one journal. Opens, creates, deletes, maintains and closes them.

    DIRECTORY/.lock  manifest  checkpoint  reserve  journal/NUMBER.journal
    DIRECTORY/TOPIC-PARTITION/partition.metadata  BASE.log  BASE.index  BASE.aborted
    DIRECTORY/TOPIC-PARTITION.TIME.stray              directories that belong to no known log (`strays`)
    DIRECTORY/..._PARTITION_JOURNAL_POSITION-delete   directories that wait for their removal (`deletions`)

The checkpoint and the journals together define which logs exist. The manifest lists which of these files must exist: a
directory that lacks one is not opened. A partition's directory appears with its first append. Maintenance runs in steps
on the loop and waits for disks on its own lane, so group commit never waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any

from chronik.runtime.errors import DiskFull
from chronik.runtime.interfaces import Disk, Runtime
from chronik.runtime.invariants import broken, check
from chronik.storage import checkpoint, deletions, lost_logs, manifest, partition_metadata, recovery
from chronik.storage.checkpoint import LogPoint
from chronik.storage.checkpointer import Checkpointer
from chronik.storage.config import LogConfig, LogsConfig
from chronik.storage.deletions import Deletions
from chronik.storage.errors import DataMissing, ForeignDirectory, ForeignFile, LogFull, StorageFailed
from chronik.storage.journal import Journal, journal_path
from chronik.storage.log import Log
from chronik.storage.maintenance import Maintenance
from chronik.storage.manifest import Manifest
from chronik.storage.manifest_writer import ManifestWriter
from chronik.storage.open_files import OpenFiles
from chronik.storage.recovery import LogKey
from chronik.storage.reserve import Reserve
from chronik.storage.strays import Strays, holds_records

logger = logging.getLogger("chronik.storage")


class Logs:
    """`failed` is set when a sync failed. After that nothing is acknowledged, and the node must stop."""

    def __init__(
        self,
        runtime: Runtime,
        directory: str,
        config: LogsConfig,
        journal: Journal,
        manifest_writer: ManifestWriter,
        reserve: Reserve,
    ) -> None:
        disk, lane = runtime.disk, runtime.disk.lane("storage")
        self.directory = directory
        self.config = config
        self.open_files = OpenFiles(disk.files_max, journal.fail)
        self.on_lost: Callable[[Log], None] | None = None  # called with logs that lack records that they acknowledged
        self.older_release_wrote = False  # a release without a manifest wrote here after one with a manifest
        self._logs: dict[LogKey, Log] = {}
        self._disk = disk
        self._journal = journal
        self._lane = lane
        self._reserve = reserve
        self._checkpointer = Checkpointer(disk, directory, self._logs, journal, lane, manifest_writer, reserve)
        self._deletions = Deletions(disk, directory, config, journal, lane, reserve, self._checkpointer.soon)
        self._maintenance = Maintenance(
            disk, config, self._logs, journal, lane, self._checkpointer, self._deletions, reserve
        )
        self._maintaining = asyncio.Lock()
        self._owners: set[bytes | None] = set()  # ids of directories that name the files that were found

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
        owner: bytes = b"",
    ) -> Logs:
        """`now_ms` is the wall time, from which strays are kept. `is_used` says that a release with manifests has kept
        logs here before, so there must be one. `owner` is the id of the directory; if it has none yet, `belong_to`
        follows.

        Raises CannotRecover, and changes nothing, if a file that records what was acknowledged is missing or damaged.
        """
        disk = runtime.disk
        disk.make_directory(directory)
        disk.lock(f"{directory}/.lock")
        try:
            return cls._open(runtime, directory, config, on_failure, is_used=is_used, now_ms=now_ms, owner=owner)
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
        owner: bytes,
    ) -> Logs:
        disk = runtime.disk
        journals = f"{directory}/journal"
        found, points, named = None, list[LogPoint](), None
        if disk.exists(f"{directory}/checkpoint"):
            path = f"{directory}/checkpoint"
            data = disk.read_file(path)
            found, points = checkpoint.decode(path, data)
            named = checkpoint.owner_in(data)
            if owner and named is not None and named != owner:
                raise ForeignFile(path, named, owner)
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
            # Recovery treats everything that it reads as durable, so sync it. The last round may be only in the page
            # cache, after kill -9 or a failed sync.
            file = disk.open(path)
            file.write_again(0, len(data))
            file.sync()
        gathered = recovery.gather(points, contents, first, owner)
        reserve = Reserve(disk, directory)
        manifest_writer = ManifestWriter(disk, directory, first, reserve)
        number = max([first, *[number + 1 for number in numbers]])
        journal = Journal(disk, journals, number, on_failure, manifest_writer.journal_begun, owner)
        logs = cls(runtime, directory, config, journal, manifest_writer, reserve)
        written = [number for number, end in gathered.ends.items() if end]
        logs.older_release_wrote = found_manifest is not None and manifest.is_outdated(
            found_manifest, checkpoint=found, written=written
        )
        logs._owners = gathered.owners | {named}
        logs._restore(gathered, now_ms)
        logs._checkpointer.is_due = bool(contents)
        return logs

    def _restore(self, gathered: recovery.Gathered, now_ms: int) -> None:
        expected: set[str] = set()
        names = self._disk.list(self.directory)
        self._deletions.finish(gathered, [name for name in names if name.endswith(deletions.SUFFIX)])
        deleted = {
            f"{known.topic}-{known.partition}": known.topic_id
            for known in gathered.known.values()
            if known.dropped and not known.is_set_aside
        }
        for key, known in gathered.known.items():
            if known.dropped:
                continue
            log = self._new(known.topic, known.topic_id, known.partition, LogConfig())
            log.is_noted = True
            recovery.restore(log, known, self._disk)
            expected.add(f"{known.topic}-{known.partition}")
            point = known.kept_line(gathered.first) if log.needed_journals else known.point._replace(kept_from=None)
            self._checkpointer.recovered(key, point)
        for name in names:
            _, dash, partition = name.rpartition("-")
            if not dash or not partition.isdigit() or name in expected:
                continue
            found = partition_metadata.read(self._disk, f"{self.directory}/{name}")
            if name in deleted and (found is None or found.topic_id == deleted[name]):
                # The rename did not reach the disk, and no later log in its place had durable data.
                self._disk.remove_tree(f"{self.directory}/{name}")
            elif not holds_records(self._disk, f"{self.directory}/{name}"):
                self._disk.remove_tree(f"{self.directory}/{name}")
            else:
                why = "is in no journal, so this node has acknowledged nothing of it, or somebody put it there"
                self._deletions.set_directory_aside(name, why, now_ms)
        # Renames and removals by this process and the last one must be durable before a new log gets such a name.
        self._disk.sync_directory(self.directory)

    @property
    def strays(self) -> Strays:
        return self._deletions.strays

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
        """Creates a log without files, which appear with the first append. An existing log gets this config."""
        log = self._logs.get((topic_id, partition))
        if log is None:
            return self._new(topic, topic_id, partition, config)
        check(log.topic == topic, "8 a topic id keeps its name", topic=topic, log=log)
        log.config = config
        return log

    def _new(self, topic: str, topic_id: bytes, partition: int, config: LogConfig) -> Log:
        log = Log(self._disk, self.directory, topic, topic_id, partition, config, self._journal)
        self._deletions.prepare(log)
        log.on_lost, log.on_open = self._lost, self.open_files.opens
        if (topic_id, partition) in self._logs:
            broken("30 a partition has one log", topic=topic, index=partition)
        self._logs[topic_id, partition] = log
        return log

    def _lost(self, log: Log) -> None:
        if self.on_lost is not None:
            self.on_lost(log)

    def cut_lost(self, log: Log, now_ms: int) -> None:
        """Drops the damaged part, so that it can be copied from another replica. A foreign directory is set aside."""
        if isinstance(log.damage, ForeignDirectory):
            self._deletions.set_foreign_aside(log, now_ms)
        lost_logs.cut(log, self._disk)

    def look_for_vanished(self) -> Iterator[None]:
        """Finds files that were removed, replaced or truncated while this process writes to them, losing the writes.

        A generator, so that the loop runs between logs. Without the journal nothing can be acknowledged, so the node
        fails. A log whose segment is missing counts as lost.
        """
        if self._journal.failed is None and not self._journal.is_in_place:
            self._journal.fail(
                OSError(f"{self._journal.path} was removed, replaced or cut while this node writes to it")
            )
        for log in list(self._logs.values()):
            yield
            if log.segments and not log.deleted and log.damage is None and not log.segments[-1].is_in_place:
                lost_logs.files_vanished(log)

    def delete(self, log: Log) -> Coroutine[Any, Any, None]:
        """Deletes the log for every caller. When this returns, its name and directory are free for another log. The
        returned coroutine removes its files; the caller must run it."""
        key = (log.topic_id, log.partition)
        check(self._logs.get(key) is log, "30 a log is deleted once", log=log)
        del self._logs[key]
        self._checkpointer.forget(log)
        return self._deletions.delete(log)

    async def set_aside(self, logs: list[Log], why: str, now_ms: int) -> None:
        """Like `delete`, but keeps the files as strays for a while: the deletion may not have been intended."""
        for log in logs:
            del self._logs[log.topic_id, log.partition]
            self._checkpointer.forget(log)
        await self._deletions.set_aside(logs, why, now_ms)

    async def maintain(
        self, now_ms: int, judged_at: Callable[[int], int] | None = None, *, retains: bool = True
    ) -> None:
        """Runs one step of everything that is due: retention (if `retains`), compaction, checkpoint. Steps never
        overlap.

        `judged_at` returns the time to compare with for a retention time in ms; default: `now_ms`. On a full disk, work
        that needs space waits for the next step. Retention frees space and may use the reserve.
        """
        async with self._maintaining:
            try:
                await self._maintenance.step(now_ms, judged_at or (lambda _: now_ms), retains=retains)
            except (DiskFull, LogFull) as error:
                logger.debug("maintenance of %s waits for space: %s", self.directory, error)
                self._checkpointer.soon()
            except OSError as error:
                logger.error("maintenance of %s failed and will be retried: %s", self.directory, error)
                self._checkpointer.soon()

    async def belong_to(self, directory_id: bytes) -> None:
        """From now on, journals and checkpoint name the directory by this id.

        A directory gets a new id if its identity was removed. The files that name the old one are then replaced at
        once: the next start would refuse them.
        """
        self._journal.owner = directory_id
        if self._owners - {None, directory_id}:
            await self.checkpoint()

    async def checkpoint(self) -> None:
        """Syncs every segment, writes a checkpoint, and removes older journals."""
        async with self._maintaining:
            await self._checkpointer.write(self._deletions)

    async def close(self) -> None:
        """Syncs everything, so that the next start has nothing to recover."""
        async with self._maintaining:
            try:
                if self._journal.failed is None:
                    await self._checkpointer.write(self._deletions)
            except (DiskFull, LogFull) as error:
                logger.warning("closed without a checkpoint, so the next start takes longer: %s", error)
            await self._journal.close()
            self._lane.close()
            for log in self._logs.values():
                log.close()
            self._disk.unlock(f"{self.directory}/.lock")

    def free_reserve(self) -> None:
        """Frees some space on a full disk. Maintenance reserves it again when there is enough."""
        self._reserve.free()


def _read_manifest(disk: Disk, directory: str, *, is_used: bool) -> Manifest | None:
    path = f"{directory}/{manifest.FILE}"
    if disk.exists(path):
        return Manifest.decode(path, disk.read_file(path))
    if is_used:
        raise DataMissing(directory, manifest.FILE, "the file is gone")
    return None
