"""A member of a share group: sends heartbeats and learns which partitions it may read. It never fetches.

The client draws its member id. The first heartbeat joins, with epoch 0; the last one leaves. Partitions come and go
between heartbeats without a rebalance, because members may share them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from chronik.client.errors import ClientError, Refused, Unreachable
from chronik.client.topology import TopicPartition
from chronik.peer.backoff import Backoff
from chronik.runtime.tasks import Tasks
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from chronik.wire.uuids import uuid_text

if TYPE_CHECKING:
    from chronik.client.routing import ClusterClient

EPOCH_JOIN, EPOCH_LEAVE = 0, -1
ANSWER_TIMEOUT_MS: Final = 10_000
HEARTBEAT_MS: Final = 5_000  # until the coordinator says how often
FORGOTTEN: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
ID_BYTES: Final = 16


class ShareMembership:
    """`fault` is the permanent error that ended it. `changed` is called when the assignment or the fault has."""

    def __init__(
        self, cluster: ClusterClient, group_id: str, topics: Sequence[str], changed: Callable[[], None]
    ) -> None:
        self._cluster = cluster
        self.group_id, self.topics = group_id, tuple(sorted(topics))
        self.member_id = uuid_text(cluster.randomness.bytes(ID_BYTES))
        self.assignment: tuple[TopicPartition, ...] = ()
        self.fault: ClientError | None = None
        self._changed = changed
        self._epoch = EPOCH_JOIN
        self._heartbeat_ms = HEARTBEAT_MS
        self._tasks = Tasks("share membership")

    def start(self) -> None:
        self._tasks.start("heartbeats", self._heartbeats())

    async def leave(self) -> None:
        await self._tasks.stop()
        if self._epoch != EPOCH_JOIN:
            self._epoch = EPOCH_LEAVE
            with suppress(ClientError):  # the session timeout has the same effect, later
                await self._heartbeat()
        self._epoch = EPOCH_JOIN

    async def _heartbeats(self) -> None:
        backoff = Backoff(self._cluster.randomness)
        while self.fault is None:
            wait_ms = self._heartbeat_ms
            try:
                await self._heartbeat()
                backoff.reset()
                wait_ms = self._heartbeat_ms
            except (Refused, Unreachable) as fault:
                wait_ms = backoff.next_ms()
                if isinstance(fault, Refused) and fault.kafka_error in FORGOTTEN:
                    self._epoch = EPOCH_JOIN
                elif not fault.retriable:
                    self.fault = fault
                    self._changed()
            await asyncio.sleep(wait_ms / 1000)

    async def _heartbeat(self) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self._epoch,
            subscribed_topic_names=list(self.topics) if self._epoch == EPOCH_JOIN else None,
        )
        response = await self._cluster.ask_coordinator(
            self.group_id, request, ShareGroupHeartbeatResponse, version_min=1, timeout_ms=ANSWER_TIMEOUT_MS
        )
        self._cluster.refuse_from_coordinator(
            self.group_id,
            response.error_code,
            f"cannot be a member of share group {self.group_id!r}",
            response.error_message,
        )
        if self._epoch == EPOCH_LEAVE:
            return
        self._epoch, self._heartbeat_ms = response.member_epoch, response.heartbeat_interval_ms
        if response.assignment is not None:
            told = {each.topic_id: each.partitions for each in response.assignment.topic_partitions}
            await self._assigned(told)

    async def _assigned(self, told: dict[bytes, list[int]]) -> None:
        names = self._names()
        if not told.keys() <= names.keys():
            await self._cluster.retrying(lambda: self._cluster.refresh(self.topics))
            names = self._names()
        self.assignment = tuple(
            TopicPartition(names[topic_id], index)
            for topic_id, indexes in told.items()
            if topic_id in names
            for index in indexes
        )
        self._changed()

    def _names(self) -> dict[bytes, str]:
        return {topic.topic_id: name for name, topic in self._cluster.topology.topics.items()}
