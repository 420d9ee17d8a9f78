"""Detects a hung disk. While the disk neither completes operations nor fails, the node gives up its leaderships and
waits.

A write or a sync can hang for minutes or without end: a dead disk controller, a lost network volume. Nothing fails, and
heartbeats need no disk. Without this module the node would stay controller and leader of its partitions, and no record
would be acknowledged. When an operation has taken longer than `chronik.disk.hang.timeout.ms`, the node
- raises the alarm `disk-hung`, which is a log line, an entry of /status and a metric,
- transfers the quorum's leadership to another voter and does not campaign,
- asks the controller to fence it, so that other replicas lead its partitions and no ISR waits for it,
- closes its clients' connections and accepts no new ones, so that clients ask other nodes for the new leaders: a node
  that cannot write the metadata only knows old leaders.

All of this is reversed when the disk responds again. In a cluster of one broker, the node only raises the alarm,
because no other broker can take over.

It does not end the process. A thread that waits for a hung disk cannot be killed, so the process would not exit, its
supervisor could not start another one on the locked directory, and /status would be gone. Many hangs end; then the
process continues without a recovery. Until the node learns of its successor, it believes that it still leads. This is
the same as after a suspended process, and leader epochs fence it.

A disk that blocks the event loop itself, by a read or by a write into a full page cache, needs no watch: the node sends
nothing any more, and other nodes treat it as dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from chronik.runtime.alarms import DISK_HUNG, Alarms
from chronik.runtime.hung_disk import HungDisk

if TYPE_CHECKING:
    from chronik.broker.node import Node
    from chronik.broker.settings import Settings
    from chronik.runtime.interfaces import Disk


class DiskWatch:
    """Watches the disk from the beginning of a start, before the node has anything to give up."""

    def __init__(self, disk: Disk, settings: Settings, alarms: Alarms) -> None:
        self._settings, self._alarms = settings, alarms
        self._hung_disk = HungDisk(disk, settings.disk_hang_timeout_ms)
        self._told: list[tuple[Callable[[], None], Callable[[], None]]] = []

    def tell(self, hangs: Callable[[], None], answers: Callable[[], None]) -> None:
        """Calls `hangs` when the disk hangs, even if it hangs already, and `answers` when it responds again."""
        self._told.append((hangs, answers))
        if self._hung_disk.is_hung:
            hangs()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._hung_disk.look_ms / 1000)
            self.look()

    def look(self) -> None:
        if not self._hung_disk.look():
            return
        is_hung = self._hung_disk.is_hung
        directory = self._settings.metadata_dir if self._hung_disk.lane_name == "raft" else self._settings.log_dir
        if is_hung:
            text = (
                f"a write or sync in {directory} has not ended for {self._hung_disk.oldest_ms} ms: this node gives up "
                "its leaderships until the disk answers; look at the disk and the kernel's log, and replace what is "
                "broken"
            )
            self._alarms.raised(DISK_HUNG, text)
        else:
            self._alarms.cleared(DISK_HUNG, "the disk answers again, and this node may lead again")
        for hangs, answers in self._told:
            (hangs if is_hung else answers)()


def give_way(node: Node) -> None:
    """Called on an open node when its disk hangs."""
    node.store.raft.disk_hangs = True
    if node.lifecycle.resign():
        node.connections.refuse_all("the disk of this node does not answer: ask another node")


def come_back(node: Node) -> None:
    """Called when the disk responds again."""
    node.store.raft.disk_hangs = False
    node.connections.accept()
    node.lifecycle.resume()
