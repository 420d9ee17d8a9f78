"""A led replica of an internal topic, as its coordinator reads and writes it.

It holds for one leader epoch: in a later one it appends nothing and raises NotLeader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from chronik.replication.errors import NotYetAvailable
from chronik.runtime.invariants import check
from chronik.storage.origins import Origin
from chronik.wire.batches import split

if TYPE_CHECKING:
    from chronik.replication.replica import Replica
    from chronik.storage.transaction_guards import Guard

DELETION_TIMEOUT_MS = 30_000


class CoordinatorPartition:
    """Implements coordinator.shard.StatePartition."""

    def __init__(self, replica: Replica, now_ms: Callable[[], int]) -> None:
        self._replica = replica
        self._now_ms = now_ms
        self.index = replica.log.partition
        # As of its loading: a later one is another partition to the coordinator.
        self.leader_epoch = replica.leader_epoch

    @property
    def start_offset(self) -> int:
        return self._replica.log.start_offset

    @property
    def end_offset(self) -> int:
        return self._replica.log.end_offset

    def guard_for(self, producer_id: int, epoch: int, *, is_tv2: bool) -> Guard | None:
        """As `ProducerState.guard_for`; a coordinator's batches have no sequence."""
        return self._replica.log.producers.guard_for(producer_id, epoch, 0, is_tv2=is_tv2)

    def append(self, batch: bytes, transaction_version: int = 0, guard: Guard | None = None) -> int:
        """A transactional batch needs its guard, unless the transaction is open in this partition."""
        self._replica.require_leader(self.leader_epoch)
        self._replica.require_in_sync()
        batches = split(memoryview(batch))
        appended = self._replica.append(
            batches,
            now_ms=self._now_ms(),
            origin=Origin.COORDINATOR,
            guard=guard,
            transaction_version=transaction_version,
        )
        next_offset = appended.last_offset + 1
        check(
            next_offset == self._replica.log.end_offset,
            "17 a coordinator's records stand at the end of the log",
            partition=self._replica.name,
            next=next_offset,
            end=self._replica.log.end_offset,
        )
        return next_offset

    def when_committed(self, offset: int) -> asyncio.Future[None] | None:
        if self._replica.awaits_proof:
            raise NotYetAvailable(self._replica.name, self._replica.high_watermark)
        return self._replica.when_committed(offset)

    def read(self, offset: int, bytes_max: int) -> list[memoryview]:
        log = self._replica.log
        return log.read(offset, bytes_max=bytes_max, offset_limit=log.end_offset, at_least_one=True).buffers

    def delete_before(self, offset: int) -> None:
        self._replica.require_leader(self.leader_epoch)
        deleted = self._replica.delete_before(offset, DELETION_TIMEOUT_MS)
        if deleted is not None:
            deleted.add_done_callback(_seen)


def _seen(deleted: asyncio.Future[None]) -> None:
    """Nobody waits for the followers. What they have not deleted yet is deleted with the next deletion."""
    if not deleted.cancelled():
        deleted.exception()
