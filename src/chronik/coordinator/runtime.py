"""Loads, writes and unloads the shards of one internal topic. All coordinators share this code.

A shard follows its partition's leadership: `load` when this node becomes the leader, `unload` when it stops. In
between, `slot` writes and replays the shard's records.

Invariant: a shard serves only between `loaded` and `unloaded`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from chronik.coordinator.errors import Loading, NotCoordinator
from chronik.coordinator.open_transactions import Producer, transactional_batch
from chronik.coordinator.records import encode_records
from chronik.coordinator.shard import CoordinatorRecord, OnWritten, Shard, StatePartition, Writer
from chronik.coordinator.slot import Slot
from chronik.coordinator.timers import Timers
from chronik.metadata.delta import Changes
from chronik.metadata.image import Image
from chronik.runtime.buggify import STILL_LOADING
from chronik.runtime.interfaces import Clock
from chronik.runtime.invariants import check
from chronik.runtime.pieces import ITEMS_PER_PIECE, Work
from chronik.storage.transaction_guards import Guard
from chronik.wire import batches, records

S = TypeVar("S", bound=Shard)


class CoordinatorRuntime(Generic[S]):
    def __init__(
        self,
        topic: str,
        make_shard: Callable[[Writer, Timers, StatePartition], S],
        clock: Clock,
        write_timeout_ms: int,
    ) -> None:
        self.topic = topic
        self._make_shard = make_shard
        self._clock = clock
        self._write_timeout_ms = write_timeout_ms
        self._slots: dict[int, Slot[S]] = {}
        self._image: Image | None = None  # the newest known image

    def shard(self, index: int) -> S:
        """The shard of a partition that this node leads and has loaded; otherwise raises NotCoordinator or Loading."""
        return self._slot(index).shard

    def shards(self) -> list[S]:
        """All shards. Raises Loading if one is not ready, because a partial result would look complete."""
        return [self._slot(index).shard for index in self._slots]

    def active(self) -> list[tuple[int, S]]:
        """The loaded shards, with their partitions."""
        return [(index, slot.shard) for index, slot in self._slots.items() if slot.is_active]

    def image_changed(self, image: Image, changes: Changes) -> None:
        self._image = image
        for _, shard in self.active():
            shard.image_changed(image, changes)

    def serves(self, index: int, shard: S) -> bool:
        """Whether this object is still the partition's shard; after an await it may not be."""
        slot = self._slots.get(index)
        return slot is not None and slot.is_active and slot.shard is shard

    def write(
        self, index: int, appended: list[CoordinatorRecord], written: OnWritten, batch: bytes | None = None
    ) -> bool:
        """Like `Writer.write`. `batch` is the result of `encoding`, which is used for many records."""
        return self._served(index).write(appended, written, batch)

    def write_in_transaction(
        self,
        index: int,
        appended: list[CoordinatorRecord],
        written: OnWritten,
        producer: Producer,
        guard: Guard | None = None,
        batch: bytes | None = None,
    ) -> None:
        """The first write of a transaction needs a `guard` of the partition, and is refused if a marker was written
        after the guard was created."""
        self._served(index).write(appended, written, batch, producer=producer, guard=guard)

    def end_transaction(
        self,
        index: int,
        producer: Producer,
        outcome: records.ControlType,
        coordinator_epoch: int,
        written: OnWritten,
        transaction_version: int = 0,
    ) -> None:
        self._served(index).end_transaction(producer, outcome, coordinator_epoch, written, transaction_version)

    def encoding(self, appended: list[CoordinatorRecord], producer: Producer | None = None) -> Work[bytes]:
        """The batch of these records, encoded in slices. It is transactional if `producer` is given."""
        now_ms = self._clock.wall_ms()
        encoded: list[records.Record] = []
        for start in range(0, len(appended), ITEMS_PER_PIECE):
            encoded += encode_records(appended[start : start + ITEMS_PER_PIECE], now_ms, first_offset=start)
            yield 3
        return batches.build(encoded) if producer is None else transactional_batch(encoded, producer)

    def when_settled(self, index: int, settled: OnWritten) -> None:
        self._slot(index).when_settled(settled)

    def _slot(self, index: int) -> Slot[S]:
        slot = self._served(index)
        if STILL_LOADING.is_on and STILL_LOADING.fires():
            raise Loading(self.topic, index)
        return slot

    def _served(self, index: int) -> Slot[S]:
        """Used after a decision: once a shard has decided, an injected fault must not lose its records."""
        slot = self._slots.get(index)
        if slot is None:
            raise NotCoordinator(self.topic, index)
        if not slot.is_active:
            raise Loading(self.topic, index)
        return slot

    async def load(self, partition: StatePartition) -> None:
        """Replays the partition's log, then serves the shard. Cancels the load of an older leadership."""
        current = self._slots.get(partition.index)
        if current is not None:
            if current.leader_epoch >= partition.leader_epoch:
                return
            self.unload(partition.index)
        slot: Slot[S] = Slot(partition, self._clock, self._write_timeout_ms)
        slot.hold(self._make_shard(slot, slot.timers, partition))
        check(
            partition.index not in self._slots,
            "18 a partition has one shard",
            topic=self.topic,
            partition=partition.index,
        )
        self._slots[partition.index] = slot
        try:
            await slot.load()
        except BaseException:
            if not slot.is_over:
                self.unload(partition.index)
            raise
        if not slot.is_over:
            check(
                self._slots.get(partition.index) is slot,
                "18 a partition has one shard",
                topic=self.topic,
                partition=partition.index,
                epoch=slot.leader_epoch,
            )
            check(
                slot.is_settled,
                "17 nothing is written to a shard while it loads",
                topic=self.topic,
                partition=partition.index,
            )
            slot.is_active = True
            if self._image is not None:
                slot.shard.image_changed(self._image, Changes())
            slot.shard.loaded()

    def unload(self, index: int, leader_epoch: int | None = None) -> None:
        """Stops serving a partition. With `leader_epoch`, only if no newer leadership was loaded meanwhile."""
        slot = self._slots.get(index)
        if slot is None or (leader_epoch is not None and slot.leader_epoch > leader_epoch):
            return
        del self._slots[index]
        slot.end()
        check(not slot.is_active, "18 a shard that has ended serves nobody", topic=self.topic, partition=index)
