"""Reports to the controller the replicas of this node that lack records which they acknowledged, all in one command.

A replica is lost if its data is damaged, its files are missing, or it leads after a start and an in-sync follower has
more records. The controller removes it from ISR and ELR. When the image shows this, the cluster no longer relies on the
replica, and `Replicas` fetches the missing records again. The last known copy of a partition stays in the ISR, and is
reported again periodically, because another replica may have come in sync.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from chronik.metadata.commands.report_lost_replicas import PartitionId, ReportLostReplicas, ReportLostReplicasReply
from chronik.metadata.errors import MetadataError, MetadataRefused
from chronik.replication.progress import Key

logger = logging.getLogger("chronik.replication")

RETRY_MS_MIN, RETRY_MS_MAX = 50, 1_000
AGAIN_MS = 10_000  # interval between reports of a last copy
PARTITIONS_PER_COMMAND = 1_000


class LostReplicas:
    def __init__(
        self,
        node_id: int,
        *,
        submit: Callable[[ReportLostReplicas], Awaitable[ReportLostReplicasReply]],
        broker_epoch: Callable[[], int],
    ) -> None:
        self._node_id = node_id
        self._submit = submit
        self._broker_epoch = broker_epoch
        self._loop = asyncio.get_running_loop()
        self._wanted: dict[Key, None] = {}
        self._asked: dict[Key, None] = {}  # reported in the current command, unless repaired since
        self._has_work = asyncio.Event()
        self.last_copies: set[Key] = set()  # replicas that the controller kept, according to its last response

    def report(self, key: Key) -> None:
        """Reports a replica, even if it was reported before: the controller ignores replicas that it has removed
        already."""
        self._wanted[key] = None
        self._has_work.set()

    def forget(self, key: Key) -> None:
        """The replica was repaired, or is no longer on this node."""
        self._wanted.pop(key, None)
        self._asked.pop(key, None)
        self.last_copies.discard(key)

    async def run(self) -> None:
        """Reports lost replicas until cancelled."""
        pause_ms = RETRY_MS_MIN
        while True:
            await self._has_work.wait()
            asked = list(self._wanted)[:PARTITIONS_PER_COMMAND]
            for key in asked:
                del self._wanted[key]
            self._asked = dict.fromkeys(asked)
            if not self._wanted:
                self._has_work.clear()
            try:
                reply = await self._submit(self._command(asked))
            except MetadataError as fault:
                level = logging.WARNING if isinstance(fault, MetadataRefused) else logging.INFO
                logger.log(level, "the controller does not know yet that %d replicas are lost: %s", len(asked), fault)
                await asyncio.sleep(pause_ms / 1000)
                pause_ms = min(2 * pause_ms, RETRY_MS_MAX)
                for key in self._asked:
                    self.report(key)
            else:
                pause_ms = RETRY_MS_MIN
                self._take(reply, asked)

    def _command(self, asked: list[Key]) -> ReportLostReplicas:
        partitions = [PartitionId(topic_id=topic_id, index=index) for topic_id, index in asked]
        return ReportLostReplicas(broker_id=self._node_id, broker_epoch=self._broker_epoch(), partitions=partitions)

    def _take(self, reply: ReportLostReplicasReply, asked: list[Key]) -> None:
        self.last_copies.difference_update(asked)
        for each in reply.last_copies:
            key = (each.topic_id, each.index)
            self.last_copies.add(key)
            self._loop.call_later(AGAIN_MS / 1000, self._again, key)

    def _again(self, key: Key) -> None:
        if key in self.last_copies:
            self.report(key)
