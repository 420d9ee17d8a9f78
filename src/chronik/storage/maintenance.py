"""One step of a node's maintenance of its logs: retention, compaction, checkpoint.

A step runs on the event loop, a few logs at a time, and waits for disks on a lane of its own. An error in one log is
reported, and the other logs are maintained as usual; only a failed sync is raised.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from chronik.runtime.buggify import FORCED_CHECKPOINT
from chronik.runtime.errors import DiskFull
from chronik.runtime.interfaces import Disk, Lane
from chronik.runtime.pieces import in_slices
from chronik.storage import compaction, retention
from chronik.storage.capture import Capture
from chronik.storage.checkpointer import Checkpointer
from chronik.storage.config import LogsConfig
from chronik.storage.deletions import Deletions
from chronik.storage.errors import LogFull, StorageError, StorageFailed
from chronik.storage.journal import Journal
from chronik.storage.log import Log
from chronik.storage.recovery import LogKey
from chronik.storage.reserve import Reserve
from chronik.wire.errors import WireError

logger = logging.getLogger("chronik.storage")

LOGS_PER_STEP = 50  # visited before the loop continues: about a millisecond


class Maintenance:
    """`logs` is shared with its owner, which may add and remove logs during a step."""

    def __init__(
        self,
        disk: Disk,
        config: LogsConfig,
        logs: Mapping[LogKey, Log],
        journal: Journal,
        lane: Lane,
        checkpointer: Checkpointer,
        deletions: Deletions,
        reserve: Reserve,
    ) -> None:
        self._disk = disk
        self._config = config
        self._logs = logs
        self._journal = journal
        self._lane = lane
        self._checkpointer = checkpointer
        self._deletions = deletions
        self._reserve = reserve

    async def step(self, now_ms: int, judged_at: Callable[[int], int], *, retains: bool) -> None:
        """Does everything that is due. Raises DiskFull or LogFull when there is no space for it."""
        if retains:
            await self._retain(judged_at)
        due: list[Log] = []
        for log in self._logs.values():
            with self._reported(log, "compacted"):
                if self._config.compacts and compaction.is_due(log, now_ms):
                    due.append(log)
        unsynced_bytes = sum([Capture.unsynced_bytes(log) for log in self._logs.values()])
        if (
            due
            or self._checkpointer.is_due
            or self._journal.size_bytes > self._config.journal_bytes_max
            or unsynced_bytes > self._config.unsynced_bytes_max
            or (FORCED_CHECKPOINT.is_on and FORCED_CHECKPOINT.fires())
        ):
            await self._checkpointer.write(self._deletions)
        for log in due:
            if not log.deleted:
                with self._reported(log, "compacted"):
                    keys_max = self._config.compaction_keys_max
                    tombstones_at_ms = judged_at(log.config.delete_retention_ms)
                    await compaction.compact(
                        log, tombstones_at_ms, self._disk, self._lane, keys_max, self._journal.fail
                    )
                self._checkpointer.compacted(log)

    async def _retain(self, judged_at: Callable[[int], int]) -> None:
        shortened = []
        for count, log in enumerate(list(self._logs.values())):
            if count % LOGS_PER_STEP == LOGS_PER_STEP - 1:
                await asyncio.sleep(0)
            if log.deleted or log.damage is not None:
                continue
            expiration_ms = self._config.producer_id_expiration_ms
            await in_slices(log.producers.expiring(judged_at(expiration_ms), expiration_ms))
            if self._logs.get((log.topic_id, log.partition)) is not log:
                continue  # deleted meanwhile
            now_ms = judged_at(log.config.retention_ms)
            with self._reported(log, "read to find out how old it is"):
                await retention.prove(log, now_ms, self._lane)
            if self._logs.get((log.topic_id, log.partition)) is not log:
                continue
            with self._reported(log, "rolled"):
                retention.roll_untimed(log, now_ms)
            with self._reported(log, "shortened"):
                try:
                    log.advance_start(retention.start_after_retention(log, now_ms))
                except (DiskFull, LogFull):
                    # Use the space immediately, before an await: otherwise producers would take it.
                    self._reserve.free()
                    log.advance_start(retention.start_after_retention(log, now_ms))
            if len(log.segments) > 1 and log.segments[1].base_offset <= log.start_offset:
                shortened.append((log, log.start_offset))
            for segment in log.segments[:-1]:
                segment.rest()
        kept_ms = self._config.stray_retention_ms
        await self._lane.run(partial(self._deletions.strays.remove_older, judged_at(kept_ms) - kept_ms))
        if shortened:
            # The journal comes first: a missing segment is only correct if the log is known to start after it.
            await self._journal.flush_notes()
            for log, start_offset in shortened:
                if not log.deleted:
                    with self._reported(log, "shortened"):
                        log.drop_below(start_offset)
        await self._checkpointer.run_sync(self._reserve.keep)  # now, while there is space

    @contextmanager
    def _reported(self, log: Log, done: str) -> Iterator[None]:
        """Wraps work on one log. If it fails, logs that this log is not `done`."""
        try:
            yield
        except StorageFailed:
            raise
        except (DiskFull, LogFull) as error:
            logger.debug("%r is not %s for now: %s", log, done, error)
        except (StorageError, WireError, OSError) as error:
            logger.error("%r is not %s: %s", log, done, error)
