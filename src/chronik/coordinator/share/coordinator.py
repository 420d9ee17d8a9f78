"""The share coordinator's interface for the broker's handlers and for the persister of the same node.

A method never raises for what a caller did: every error is a code. A share partition lives in the partition of
`__share_group_state` that `partition_for` says. If this node does not lead it, the answer is NOT_COORDINATOR; while it
is being loaded, COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from chronik.coordinator.errors import CoordinatorError
from chronik.coordinator.partitions import partition_for
from chronik.coordinator.runtime import CoordinatorRuntime
from chronik.coordinator.shard import StatePartition
from chronik.coordinator.share.config import ShareCoordinatorConfig
from chronik.coordinator.share.persister import SharePartitionKey, ShareState, ShareSummary, StateBatch
from chronik.coordinator.share.shard import ShareShard
from chronik.metadata.delta import Changes
from chronik.metadata.image import Image
from chronik.runtime.interfaces import Clock
from chronik.wire.error_codes import ErrorCode

STATE_TOPIC: Final = "__share_group_state"

A = TypeVar("A")


class ShareCoordinator:
    def __init__(
        self,
        config: ShareCoordinatorConfig,
        clock: Clock,
        partition_count: int,
    ) -> None:
        self.partition_count = partition_count  # of __share_group_state; set it when the topic exists with another
        self._runtime: CoordinatorRuntime[ShareShard] = CoordinatorRuntime(
            STATE_TOPIC,
            lambda writer, timers, partition: ShareShard(config, clock, writer, timers, partition),
            clock,
            config.write_timeout_ms,
        )

    # --- partitions come and go

    def partition_for(self, key: str) -> int:
        """Of a share partition's key as text."""
        return partition_for(key, self.partition_count)

    async def load(self, partition: StatePartition) -> None:
        await self._runtime.load(partition)

    def unload(self, partition_index: int, leader_epoch: int | None = None) -> None:
        self._runtime.unload(partition_index, leader_epoch)

    def image_changed(self, image: Image, changes: Changes) -> None:
        self._runtime.image_changed(image, changes)

    # --- InitializeShareGroupState, ReadShareGroupState, WriteShareGroupState, DeleteShareGroupState, ...Summary

    async def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> ErrorCode:
        return await self._ask(key, lambda shard, reply: shard.initialize(key, state_epoch, start_offset, reply))

    async def read(self, key: SharePartitionKey, leader_epoch: int) -> ShareState | ErrorCode:
        return await self._ask(key, lambda shard, reply: shard.read(key, leader_epoch, reply))

    async def write(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        state_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> ErrorCode:
        def ask(shard: ShareShard, reply: Callable[[ErrorCode], None]) -> None:
            shard.write(key, leader_epoch, state_epoch, start_offset, delivery_complete_count, batches, reply)

        return await self._ask(key, ask)

    async def summary(self, key: SharePartitionKey) -> ShareSummary | ErrorCode:
        return await self._ask(key, lambda shard, reply: shard.summary(key, reply))

    async def delete(self, key: SharePartitionKey) -> ErrorCode:
        return await self._ask(key, lambda shard, reply: shard.delete(key, reply))

    async def _ask(
        self, key: SharePartitionKey, ask: Callable[[ShareShard, Callable[[A | ErrorCode], None]], None]
    ) -> A | ErrorCode:
        answer: asyncio.Future[A | ErrorCode] = asyncio.get_running_loop().create_future()

        def reply(told: A | ErrorCode) -> None:
            if not answer.done():  # done: the caller has gone
                answer.set_result(told)

        try:
            ask(self._runtime.shard(self.partition_for(key.text)), reply)
        except CoordinatorError as error:
            return error.kafka_error
        return await answer
