"""Replicas of this node that found no space for a record leave the ISR at once and stop fetching for a while.

Without this module, a follower with a full disk would stay in sync until `replica.lag.time.max.ms`, and a leader for as
long as its disk is full. Nothing would be acknowledged meanwhile. If the ISR has another live replica, the controller
removes the full one (`WithdrawReplicas`); a leader hands over in the same step. The last replica stays, and refuses
records until it has space. It still serves readers.

A removed replica does not fetch: with no records to fetch it would count as caught up and rejoin the ISR. All removed
replicas fetch again together when the disk has room, PAUSE_MS_MIN after the first failure or later. If one fails again
within CALM_MS, the required room doubles, so replicas of an almost full disk leave and rejoin only a few times. If a
record was refused although there was room (a quota, or no free descriptors), the pause doubles, up to PAUSE_MS_MAX.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from chronik.metadata.commands.report_lost_replicas import PartitionId
from chronik.metadata.commands.withdraw_replicas import WithdrawReplicas, WithdrawReplicasReply
from chronik.metadata.errors import MetadataError
from chronik.replication.progress import Key
from chronik.runtime.units import NS_PER_MS

if TYPE_CHECKING:
    from chronik.runtime.interfaces import Clock

logger = logging.getLogger("chronik.replication")

ROOM_BYTES_MIN, ROOM_BYTES_MAX = 4 << 20, 1 << 30
ROOM_SHARE = 10  # the required room is at most this fraction of the disk (1/10)
PAUSE_MS_MIN, PAUSE_MS_MAX = 2_000, 60_000
CALM_MS = 60_000  # this long after replicas follow again, the next failure no longer counts as a repeated one
LOOK_MS = 500
RETRY_MS_MIN, RETRY_MS_MAX = 50, 1_000
PARTITIONS_PER_COMMAND = 1_000


class FullReplicas:
    def __init__(
        self,
        clock: Clock,
        *,
        node_id: int,
        submit: Callable[[WithdrawReplicas], Awaitable[WithdrawReplicasReply]],
        broker_epoch: Callable[[], int],
        free_bytes: Callable[[], int],
        total_bytes: Callable[[], int],
    ) -> None:
        self._clock = clock
        self._node_id = node_id
        self._submit = submit
        self._broker_epoch = broker_epoch
        self._free_bytes = free_bytes
        self._total_bytes = total_bytes
        self.keys: dict[Key, None] = {}  # the removed replicas
        self._wanted: dict[Key, None] = {}
        self._has_work = asyncio.Event()
        self._pause_ms, self._room_bytes = PAUSE_MS_MIN, ROOM_BYTES_MIN
        self._resume_ns = 0  # earliest time to fetch again
        self._calm_ns = 0
        self.changed: Callable[[Key], None] = lambda key: None  # called when `keys` has changed

    def met(self, key: Key) -> None:
        """Called when a record could not be written to this replica."""
        if not self.keys:
            now_ns = self._clock.monotonic_ns()
            if now_ns >= self._calm_ns:
                self._pause_ms, self._room_bytes = PAUSE_MS_MIN, ROOM_BYTES_MIN
            elif self._free_bytes() < self._room_bytes:
                self._room_bytes = min(2 * self._room_bytes, ROOM_BYTES_MAX)
            else:
                self._pause_ms = min(2 * self._pause_ms, PAUSE_MS_MAX)
            self._resume_ns = now_ns + self._pause_ms * NS_PER_MS
        if key not in self.keys:
            self.keys[key] = None
            self.changed(key)

    def withdraw(self, key: Key) -> None:
        """Called when the image shows the replica in an ISR with others."""
        self._wanted[key] = None
        self._has_work.set()

    def forget(self, key: Key) -> None:
        self.keys.pop(key, None)
        self._wanted.pop(key, None)

    async def run(self) -> None:
        """Sends requests to the controller until cancelled."""
        pause_ms = RETRY_MS_MIN
        while True:
            await self._has_work.wait()
            asked = list(self._wanted)[:PARTITIONS_PER_COMMAND]
            for key in asked:
                del self._wanted[key]
            if not self._wanted:
                self._has_work.clear()
            if not asked:
                continue
            partitions = [PartitionId(topic_id=topic_id, index=index) for topic_id, index in asked]
            try:
                await self._submit(
                    WithdrawReplicas(broker_id=self._node_id, broker_epoch=self._broker_epoch(), partitions=partitions)
                )
            # Also from an older release without this command: then they stay until they lag.
            except MetadataError as fault:
                logger.info("the controller does not know yet that %d replicas lack space: %s", len(asked), fault)
                await asyncio.sleep(pause_ms / 1000)
                pause_ms = min(2 * pause_ms, RETRY_MS_MAX)
                for key in asked:
                    if key in self.keys:
                        self.withdraw(key)
            else:
                pause_ms = RETRY_MS_MIN

    async def watch(self) -> None:
        """Lets replicas fetch again when there is room; runs until cancelled."""
        while True:
            await asyncio.sleep(LOOK_MS / 1000)
            self.look()

    def look(self) -> None:
        now_ns = self._clock.monotonic_ns()
        if not self.keys or now_ns < self._resume_ns:
            return
        if self._free_bytes() < max(ROOM_BYTES_MIN, min(self._room_bytes, self._total_bytes() // ROOM_SHARE)):
            return
        logger.info("%d replicas that lacked space follow their leaders again", len(self.keys))
        self._calm_ns = now_ns + CALM_MS * NS_PER_MS
        full, self.keys, self._wanted = self.keys, {}, {}
        for key in full:
            self.changed(key)
