"""The share partitions that this node leads, by group, topic and partition, and what happens when a member leaves.

A share partition is made when a member first fetches from it, and ends with the leadership. Those of a group that has
no session left here end as soon as nothing of them waits to be written: a session opened later loads them again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from chronik.broker.share.sessions import Place, ShareSession, ShareSessions
from chronik.broker.share.share_partition import Parts, SharePartition, States
from chronik.coordinator.groups.share.settings import ShareGroupsConfig, ShareGroupSettings, settings_of
from chronik.coordinator.share.persister import SharePartitionKey, ShareState, StateBatch
from chronik.replication.replica import Replica
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chronik.metadata.image import Image
    from chronik.runtime.interfaces import Clock, Lane

READS_AT_ONCE: Final = 32  # a member may name thousands of partitions in its first request


class GatedPersister:
    """Reads of state wait for each other beyond READS_AT_ONCE; writes do not."""

    def __init__(self, persister: States) -> None:
        self._persister = persister
        self._gate = asyncio.Semaphore(READS_AT_ONCE)

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState | ErrorCode:
        async with self._gate:
            return await self._persister.read(key, leader_epoch)

    async def write(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        state_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> ErrorCode:
        return await self._persister.write(
            key, leader_epoch, state_epoch, start_offset, delivery_complete_count, batches
        )


class SharePartitions:
    """One per node."""

    def __init__(
        self,
        persister: States,
        *,
        image: Callable[[], Image],
        config: ShareGroupsConfig,
        clock: Clock,
        lane: Lane,
        start: Callable[[str, Coroutine[Any, Any, None]], object],
        held_bytes_max: int = 2**63,
        hold: Callable[[int], None] = lambda more_bytes: None,
    ) -> None:
        self._image, self._config = image, config
        self._settings: dict[str, ShareGroupSettings] = {}
        self._settings_image: Image | None = None
        self._parts = Parts(GatedPersister(persister), self.settings, clock, lane, start)
        self._by_key: dict[SharePartitionKey, SharePartition] = {}
        self._of_group: dict[str, dict[SharePartitionKey, SharePartition]] = {}
        self.sessions = ShareSessions(lambda: config.sessions_max, self.left, held_bytes_max, hold)

    def settings(self, group_id: str) -> ShareGroupSettings:
        """As the metadata says now."""
        image = self._image()
        if image is not self._settings_image:
            self._settings, self._settings_image = {}, image
        found = self._settings.get(group_id)
        if found is None:
            found = self._settings[group_id] = settings_of(group_id, image, self._config)
        return found

    def get(self, group_id: str, place: Place) -> SharePartition | None:
        return self._by_key.get(SharePartitionKey(group_id, place.topic_id, place.partition))

    def opened(self, group_id: str, place: Place, replica: Replica) -> SharePartition:
        """Of a replica that leads. It may still be loading."""
        key = SharePartitionKey(group_id, place.topic_id, place.partition)
        partition = self._by_key.get(key)
        if partition is None:
            partition = SharePartition(
                key, replica, self._parts, ended=self._forget, went_idle=self._end_without_members
            )
            if partition.error is None:
                self._by_key[key] = partition
                self._of_group.setdefault(group_id, {})[key] = partition
        return partition

    def left(self, session: ShareSession) -> list[asyncio.Future[ErrorCode]]:
        """The session has ended: what its member holds here is for others, also of partitions that it had forgotten.
        Returns what has to be waited for until it is written."""
        releases = []
        for partition in list(self._of_group.get(session.group_id, {}).values()):
            released = partition.release(session.member_id)
            if isinstance(released, asyncio.Future):
                releases.append(released)
            self._end_without_members(partition)
        return releases

    def _end_without_members(self, partition: SharePartition) -> None:
        if partition.is_idle and not self.sessions.has_members(partition.key.group_id):
            partition.end(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _forget(self, partition: SharePartition) -> None:
        group_id = partition.key.group_id
        if self._by_key.get(partition.key) is partition:
            del self._by_key[partition.key]
            del self._of_group[group_id][partition.key]
            if not self._of_group[group_id]:
                del self._of_group[group_id]
