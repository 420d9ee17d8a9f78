"""Checks every few seconds for conditions that operators must know about, and raises alarms (`runtime/alarms.py`).

The conditions are a clock that jumped, a disk that refuses writes, too few file descriptors, damaged logs, and logs
without a topic in the metadata. Other modules handle these conditions, with two exceptions: at a start on a full disk
this module releases storage's reserve, and it writes the metadata mark.
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
from chronik.runtime.units import NS_PER_MS
from chronik.runtime.wording import counted, was_or_were
from chronik.storage.logs import Logs
from chronik.storage.reserve import RESERVE_BYTES

if TYPE_CHECKING:
    from chronik.broker.node_base import NodeBase
    from chronik.raft.driver import RaftNode
    from chronik.runtime.interfaces import Lane

PAUSE_S = 2  # between checks: a condition is reported within five seconds
CALM_MS = 30_000  # a disk with free space counts as healthy after this time without a refused write
START_BYTES_MIN = 256 << 10  # required when the quorum's log is opened: a snapshot's file, a vote, some entries
MARK_MS = 10_000  # minimum time between two metadata marks if other nodes have copies of the log
NEAR_LIMIT, FAR_FROM_LIMIT = 0.9, 0.8  # fractions of the maximum number of connections
MORE = "raise the limit of open files (ulimit -n, LimitNOFILE)"


class Conditions:
    def __init__(self, base: NodeBase, logs: Logs, record_lane: Lane) -> None:
        self._base, self._logs, self._record_lane = base, logs, record_lane
        self._alarms = base.alarms
        self._disk = base.runtime.disk
        self.wall_clock = WallClock(base.runtime.clock, base.alarms)
        self._damaged: set[str] = set()
        self._refused_count = 0
        self._refused_at_ms = 0  # on the monotonic clock
        self._marked_index = self._marked_at_ms = 0

    def opened(self) -> None:
        """The logs are open, so this node has locked the directory. Nothing else of the node is open yet."""
        directory = self._base.settings.log_dir
        self.wall_clock.compare_with_stamp(self._disk, directory)
        if self._disk.free_bytes(directory) >= START_BYTES_MIN:
            return
        self._alarms.raised(DISK_FULL, f"{directory} has no space left at the start: free some disk space", directory)
        self._refused_at_ms = self._now_ms()
        self._logs.free_reserve()

    async def watch(self, raft: RaftNode) -> None:
        while True:
            await asyncio.sleep(PAUSE_S)
            self.look()
            stamp = self.wall_clock.stamp_due()
            if stamp is not None:
                write = partial(write_stamp, self._disk, self._base.settings.log_dir, stamp)
                await self._record_lane.run(write)
            await self._keep_metadata_mark(raft)

    async def _keep_metadata_mark(self, raft: RaftNode) -> None:
        """A single voter marks every change at once: no other node would notice that its log is an old copy."""
        now_ms = self._now_ms()
        index = raft.durable_index
        pause_ms = 0 if raft.members.voters == (self._base.node_id,) else MARK_MS
        if index > self._marked_index and now_ms - self._marked_at_ms >= pause_ms:
            self._marked_index, self._marked_at_ms = index, now_ms
            await self._record_lane.run(partial(write_mark, self._disk, self._base.settings.log_dir, index))

    def look(self) -> None:
        self.wall_clock.check()
        self._look_at_refusals()
        self._look_at_descriptors()
        self._look_at_damage()
        self._look_at_strays()

    def _look_at_refusals(self) -> None:
        directory, refused = self._base.settings.log_dir, self._disk.refused
        if refused.count != self._refused_count and not isinstance(refused.latest, NameTooLong):
            cause = DESCRIPTORS if isinstance(refused.latest, NoDescriptor) else DISK_FULL
            count = counted(refused.count, "refusal")
            text = f"{refused.latest}; until then writes are refused and reads continue ({count} so far)"
            self._alarms.raised(cause, text, directory)
            self._refused_at_ms = self._now_ms()
        elif self._now_ms() - self._refused_at_ms >= CALM_MS:
            self._alarms.cleared(DESCRIPTORS, "files can be opened again", directory)
            if self._alarms.is_active(DISK_FULL, directory) and self._disk.free_bytes(directory) >= RESERVE_BYTES:
                self._alarms.cleared(DISK_FULL, f"there is space in {directory} again", directory)
        self._refused_count = refused.count

    def _look_at_descriptors(self) -> None:
        count, allowed = len(self._base.connections), self._base.runtime.network.connections_max
        if count >= allowed * NEAR_LIMIT:
            text = f"{count} of the {allowed} connections are open for which there are file descriptors: {MORE}"
            self._alarms.raised(DESCRIPTORS, text, "connections")
        elif count < allowed * FAR_FROM_LIMIT:
            self._alarms.cleared(DESCRIPTORS, "there are fewer connections again", "connections")
        if self._logs.open_files.is_at_limit:
            files = counted(len(self._logs.open_files), "segment")
            text = f"no more than {files} can stay open at a time, others are opened when used: {MORE}"
            self._alarms.raised(DESCRIPTORS, text, "files", level=logging.WARNING)

    def _look_at_damage(self) -> None:
        """The code that detected the damage has already logged it."""
        damaged = {f"{log.topic}-{log.partition}": log.lost for log in self._logs.all() if log.lost is not None}
        for name in self._damaged - damaged.keys():
            self._alarms.cleared(DAMAGED_LOG, f"{name} is mended or gone", name)
        for name in sorted(damaged.keys() - self._damaged):
            self._alarms.raised(DAMAGED_LOG, str(damaged[name]), name, level=logging.DEBUG)
        self._damaged = set(damaged)

    def _look_at_strays(self) -> None:
        """The code that set them aside has already logged each."""
        directory, count = self._base.settings.log_dir, self._logs.strays.count
        if not count:
            self._alarms.cleared(STRAY_LOG, f"no log in {directory} is set aside any more", directory)
        elif not self._alarms.is_active(STRAY_LOG, directory):
            text = (
                f"{counted(count, 'log')} in {directory} {was_or_were(count)} renamed to .stray because the metadata "
                "or the journal does not know them; unless the power failed or you deleted or moved those topics, "
                "copy them before they are removed"
            )
            self._alarms.raised(STRAY_LOG, text, directory, level=logging.WARNING)

    def _now_ms(self) -> int:
        return self._base.runtime.clock.monotonic_ns() // NS_PER_MS
