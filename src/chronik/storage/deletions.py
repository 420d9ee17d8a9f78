"""Deletes logs, or sets them aside, so that neither a power cut nor a full disk restores one.

A deletion writes a note to the journal and renames the directory, which is removed once the note is durable:

    DIRECTORY/TOPICID_PARTITION_JOURNAL_POSITION-delete

The name holds the journal and position of the note. If the note is lost, the directory tells recovery that the log was
deleted and not created again since. If the journal has no room for the note, the directory stays until the next
checkpoint, which does not contain the log.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from chronik.runtime.interfaces import Disk, Lane
from chronik.storage.config import LogConfig, LogsConfig
from chronik.storage.errors import LogFull, StorageFailed
from chronik.storage.journal import Journal
from chronik.storage.journal_format import RecordKind
from chronik.storage.log import Log
from chronik.storage.recovery import Gathered, LogKey
from chronik.storage.reserve import Reserve
from chronik.storage.strays import Strays

SUFFIX = "-delete"  # of directories that wait for their removal
# Added to the position if the journal had no space for the note. The position is the end of the journal then.
NEVER_NOTED = 1 << 62


class Deletions:
    """`checkpoint_soon` is called when a deletion can only be recorded by a checkpoint."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogsConfig,
        journal: Journal,
        lane: Lane,
        reserve: Reserve,
        checkpoint_soon: Callable[[], None],
    ) -> None:
        self.strays = Strays(disk, directory)
        self._disk = disk
        self._directory = directory
        self._config = config
        self._journal = journal
        self._lane = lane
        self._reserve = reserve
        self._checkpoint_soon = checkpoint_soon
        self._unnoted: list[str] = []  # directories of deleted logs whose deletion only the next checkpoint records
        self._undropped: set[LogKey] = set()  # the keys of these logs
        self._freed: set[str] = set()  # directories whose rename may not be durable

    def prepare(self, log: Log) -> None:
        """Tells a new log what to do because another log of its name or id was deleted before."""
        log.directory_durably = log.directory in self._freed
        log.drops_first = (log.topic_id, log.partition) in self._undropped

    def delete(self, log: Log) -> Coroutine[Any, Any, None]:
        """When this returns, the log's name and directory are free for another log. The returned coroutine removes its
        files once the journal's note is durable; the caller must run it."""
        log.let_go()
        noted_at = self._note(log) if log.is_noted or log.has_directory else None
        self._journal.forget(log)
        if not log.has_directory:
            return self._remove(None)
        place = noted_at or f"{self._journal.number}_{NEVER_NOTED + self._journal.size_bytes}"
        # Without the topic's name, which can be as long as a file name can be.
        doomed = f"{self._directory}/{log.topic_id.hex()}_{log.partition}_{place}{SUFFIX}"
        try:
            self._disk.rename(log.directory, doomed)
        except OSError as error:
            self._journal.fail(error)  # the next log of this name would mix with the remaining files
            return self._remove(None)
        self._freed.add(log.directory)
        if noted_at is None:
            self._unnoted.append(doomed)
            self._undropped.add((log.topic_id, log.partition))
            return self._remove(None)
        return self._remove(doomed)

    async def set_aside(self, logs: list[Log], why: str, now_ms: int) -> None:
        """Like `delete`, but keeps the files as strays for a while: the deletion may not have been intended."""
        for log in logs:
            log.let_go()
            if (log.is_noted or log.has_directory) and self._note(log, RecordKind.SET_ASIDE) is None:
                self._undropped.add((log.topic_id, log.partition))
            self._journal.forget(log)
        # The note comes first: a directory that is missing without a note in the journal would count as damaged. There
        # is no await before the rename, because a log of the same name may be created at any time.
        self._journal.sync_notes()
        for log in logs:
            if log.has_directory:
                self.set_directory_aside(log.directory.rpartition("/")[2], why, now_ms)
                self._freed.add(log.directory)
        await self._lane.run(partial(self._disk.sync_directory, self._directory))

    def set_directory_aside(self, name: str, why: str, now_ms: int) -> None:
        self.strays.set_aside(name, why, now_ms, self._config.stray_retention_ms)

    def set_foreign_aside(self, log: Log, now_ms: int) -> None:
        """The log's directory holds another partition. It is kept as a stray, and the log gets a new one."""
        if self._disk.exists(log.directory):  # otherwise an earlier attempt, which ran out of space, has set it aside
            self.set_directory_aside(log.directory.rpartition("/")[2], "is another partition's", now_ms)
        self._freed.add(log.directory)
        log.has_directory, log.directory_durably = False, True

    def finish(self, gathered: Gathered, doomed: list[str]) -> None:
        """Removes directories of deleted logs during recovery. If the journal's note is lost, the directory is the only
        evidence of the deletion, so the note is written again first. Otherwise the next start would restore the log,
        and mix its bytes with another log's."""
        for name in doomed:
            topic_id, partition, *noted_at = name.removesuffix(SUFFIX).rpartition(".")[2].split("_")
            number, position = map(int, noted_at)
            known = gathered.known.get((bytes.fromhex(topic_id), int(partition)))
            is_noted = number < gathered.first or position < gathered.ends.get(number, 0)
            if known is None or known.dropped or is_noted:
                continue
            if position >= NEVER_NOTED and known.begun_at >= (number, position - NEVER_NOTED):
                continue  # the log was created again since
            known.dropped = True
            log = Log(
                self._disk, self._directory, known.topic, known.topic_id, known.partition, LogConfig(), self._journal
            )
            if self._note(log) is None:
                text = f"no space to finish a deletion in {self._directory}: free some disk space"
                raise self._journal.failed or LogFull(text)
            self._journal.forget(log)
        if doomed:
            self._journal.sync_notes()
        for name in doomed:
            self._disk.remove_tree(f"{self._directory}/{name}")

    def unnoted(self) -> list[str]:
        """The directories whose deletion is recorded by the checkpoint that is being written."""
        return list(self._unnoted)

    def directory_synced(self) -> None:
        """All renames so far are durable."""
        self._freed.clear()

    async def checkpointed(self, unnoted: list[str]) -> None:
        """The checkpoint is durable, so these directories can be removed."""
        for doomed in unnoted:
            self._unnoted.remove(doomed)
            await self._remove(doomed)
        if not self._unnoted:
            self._undropped.clear()

    def _note(self, log: Log, kind: RecordKind = RecordKind.DROP) -> str | None:
        """Notes the deletion in the journal and returns the note's position; None if there is no space for it."""
        for _ in range(2):
            place = f"{self._journal.number}_{self._journal.size_bytes}"
            try:
                self._journal.note(log, kind)
            except LogFull:
                self._checkpoint_soon()  # the checkpoint records the deletion as well
                self._reserve.free()
            except StorageFailed:
                break
            else:
                return place
        return None

    async def _remove(self, doomed: str | None) -> None:
        if doomed is not None:
            await self._journal.flush_notes()
            await self._lane.run(lambda: self._disk.remove_tree(doomed))
