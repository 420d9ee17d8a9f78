"""Looks every few seconds for what an operator must hear of: a clock that jumped, a disk that refuses writes, too few
file descriptors, damaged logs, logs that the metadata does not know.

It only looks and tells (`runtime/alarms.py`); what the node does about it is decided where it happens. One exception:
at a start on a full disk it gives up the reserve, which storage keeps for that.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from chronik.broker.metadata_mark import write_mark
from chronik.broker.wall_clock import WallClock, write_stamp
from chronik.runtime.alarms import DAMAGED_LOG, DESCRIPTORS, DISK_FULL, STRAY_LOG
from chronik.runtime.errors import NameTooLong, NoDescriptor
from chronik.storage.logs import RESERVE_BYTES

if TYPE_CHECKING:
    from chronik.broker.node import Node

PAUSE_S = 2  # between looks: whatever happens is told within five seconds
CALM_MS = 30_000  # without a refusal, after which a disk that has room again counts as mended
START_BYTES_MIN = 256 << 10  # free when the quorum's log is opened: a snapshot's file, a vote, some entries
MARK_MS = 10_000  # at least so long between two marks of the metadata
NEAR_LIMIT, FAR_FROM_LIMIT = 0.9, 0.8  # of the connections that there can be
MORE = "raise the limit of open files (ulimit -n, LimitNOFILE)"
NS_PER_MS = 1_000_000


class Conditions:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._alarms = node.alarms
        self._disk = node.runtime.disk
        self.wall_clock = WallClock(node.runtime.clock, node.alarms)
        self._damaged: set[str] = set()
        self._refused_count = 0
        self._refused_at_ms = 0  # on the monotonic clock
        self._marked_index = self._marked_at_ms = 0

    def opened(self) -> None:
        """The logs are open, and with them the directory is ours; nothing else of the node has been opened yet."""
        directory = self._node.settings.log_dir
        self.wall_clock.compare_with_stamp(self._disk, directory)
        if self._disk.free_bytes(directory) >= START_BYTES_MIN:
            return
        self._alarms.raised(DISK_FULL, f"{directory} has no space left at the start: free some disk space", directory)
        self._refused_at_ms = self._now_ms()
        self._node.logs.free_reserve()

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(PAUSE_S)
            self.look()
            stamp = self.wall_clock.stamp_due()
            if stamp is not None:
                write = partial(write_stamp, self._disk, self._node.settings.log_dir, stamp)
                await self._node.record_lane.run(write)
            await self._keep_metadata_mark()

    async def _keep_metadata_mark(self) -> None:
        index, now_ms = self._node.store.raft.durable_index, self._now_ms()
        if index > self._marked_index and now_ms - self._marked_at_ms >= MARK_MS:
            self._marked_index, self._marked_at_ms = index, now_ms
            await self._node.record_lane.run(partial(write_mark, self._disk, self._node.settings.log_dir, index))

    def look(self) -> None:
        self.wall_clock.check()
        self._look_at_refusals()
        self._look_at_descriptors()
        self._look_at_damage()
        self._look_at_strays()

    def _look_at_refusals(self) -> None:
        directory, refused = self._node.settings.log_dir, self._disk.refused
        if refused.count != self._refused_count and not isinstance(refused.latest, NameTooLong):
            cause = DESCRIPTORS if isinstance(refused.latest, NoDescriptor) else DISK_FULL
            text = f"{refused.latest}; until then writes are refused and reads go on ({refused.count} refusals so far)"
            self._alarms.raised(cause, text, directory)
            self._refused_at_ms = self._now_ms()
        elif self._now_ms() - self._refused_at_ms >= CALM_MS:
            self._alarms.cleared(DESCRIPTORS, "files can be opened again", directory)
            if self._alarms.is_active(DISK_FULL, directory) and self._disk.free_bytes(directory) >= RESERVE_BYTES:
                self._alarms.cleared(DISK_FULL, f"there is space in {directory} again", directory)
        self._refused_count = refused.count

    def _look_at_descriptors(self) -> None:
        count, allowed = len(self._node.connections), self._node.runtime.network.connections_max
        if count >= allowed * NEAR_LIMIT:
            text = f"{count} of the {allowed} connections are open for which there are file descriptors: {MORE}"
            self._alarms.raised(DESCRIPTORS, text, "connections")
        elif count < allowed * FAR_FROM_LIMIT:
            self._alarms.cleared(DESCRIPTORS, "there are fewer connections again", "connections")
        if self._node.logs.open_files.is_at_limit:
            text = f"only {len(self._node.logs.open_files)} segments stay open, others are opened when used: {MORE}"
            self._alarms.raised(DESCRIPTORS, text, "files", level=logging.WARNING)

    def _look_at_damage(self) -> None:
        """Whoever met it has written the line."""
        damaged = {f"{log.topic}-{log.partition}": log.lost for log in self._node.logs.all() if log.lost is not None}
        for name in self._damaged - damaged.keys():
            self._alarms.cleared(DAMAGED_LOG, f"{name} is mended or gone", name)
        for name in sorted(damaged.keys() - self._damaged):
            self._alarms.raised(DAMAGED_LOG, str(damaged[name]), name, level=logging.DEBUG)
        self._damaged = set(damaged)

    def _look_at_strays(self) -> None:
        """Whoever set them aside has written a line for each."""
        directory, count = self._node.settings.log_dir, self._node.logs.strays.count
        if not count:
            self._alarms.cleared(STRAY_LOG, f"no log in {directory} is set aside any more", directory)
        elif not self._alarms.is_active(STRAY_LOG, directory):
            text = (
                f"{count} logs in {directory} were set aside because the metadata or the journal does not know them: "
                "their names end in .stray, and a log line says why; unless the power failed or their topics were "
                "deleted on purpose, copy them before they are removed"
            )
            self._alarms.raised(STRAY_LOG, text, directory, level=logging.WARNING)

    def _now_ms(self) -> int:
        return self._node.runtime.clock.monotonic_ns() // NS_PER_MS
