"""Assigns producer ids from blocks that the controller allocates. An id is never assigned twice."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from chronik.coordinator.transactions.coordinator import NoProducerId
from chronik.metadata.commands.allocate_producer_ids import AllocateProducerIds
from chronik.metadata.errors import MetadataError, NotController
from chronik.runtime.buggify import IDS_DROPPED
from chronik.runtime.invariants import check
from chronik.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from chronik.broker.node import Node


class ProducerIds:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._next = self._end = 0  # of the current block; a restart loses the rest of it
        self._fetching = asyncio.Lock()

    async def next(self) -> int:
        """Raises NoProducerId if the controller does not give a block."""
        if IDS_DROPPED.is_on and IDS_DROPPED.fires():
            self._next = self._end
        while self._next == self._end:
            async with self._fetching:
                if self._next == self._end:
                    await self._fetch()
        check(self._next < self._end, "13 a producer id is of the block in hand", next=self._next, end=self._end)
        self._next += 1
        return self._next - 1

    async def _fetch(self) -> None:
        node = self._node
        command = AllocateProducerIds(broker_id=node.node_id, broker_epoch=node.broker_epoch)
        try:
            reply = await node.store.submit(command)
        except NotController as fault:
            # Clients do not expect the controller's errors here. After this error they retry.
            raise NoProducerId(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS) from fault
        except MetadataError as fault:
            raise NoProducerId(fault.kafka_error) from fault
        check(
            reply.first_producer_id >= self._end and reply.count > 0,
            "13 a producer id is given once",
            first=reply.first_producer_id,
            count=reply.count,
            last=self._end,
        )
        self._next, self._end = reply.first_producer_id, reply.first_producer_id + reply.count
