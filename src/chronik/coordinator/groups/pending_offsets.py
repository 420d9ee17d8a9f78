"""Offsets committed in open transactions: they take effect when their transaction commits.

The newest record of a key wins, by its position in the log. So a pending offset takes effect only if it is not followed
by another commit of the same partition that has taken effect. To avoid storing each offset's position in the log, a
record that takes effect marks earlier pending ones as superseded; a removal drops them.

A superseded offset stays pending until its transaction ends, and requests for stable offsets are refused until then, as
in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from chronik.coordinator.groups.records import offset_removed
from chronik.coordinator.open_transactions import OpenTransactions
from chronik.coordinator.shard import CoordinatorRecord
from chronik.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from chronik.wire.notation import ZERO_UUID

Place = tuple[str, str, int]  # group, topic, partition
Producers = dict[int, None]  # ids, as a set that keeps its order
NONE_PENDING: Final[Mapping[str, Mapping[int, Producers]]] = {}


class _Pending(NamedTuple):
    record: CoordinatorRecord
    offset: int  # of the record in the log
    is_superseded: bool = False  # by a newer commit that has taken effect


class PendingOffsets(OpenTransactions):
    """`on_group` is called with each group that has a pending offset, so that the group exists."""

    def __init__(self, on_group: Callable[[str], None]) -> None:
        super().__init__()
        self._on_group = on_group
        self._offsets: dict[int, dict[Place, _Pending]] = {}  # by producer id; the newest for each partition
        self._groups: dict[str, dict[str, dict[int, Producers]]] = {}  # the same, by group and partition

    def __bool__(self) -> bool:
        return bool(self._offsets)

    # --- called by the runtime

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._offsets or super().__contains__(producer_id)

    def records(self) -> Iterator[CoordinatorRecord]:
        yield from super().records()
        for of_one in self._offsets.values():
            yield from [pending.record for pending in of_one.values()]

    def add(self, producer_id: int, record: CoordinatorRecord, offset: int) -> None:
        key = record.key
        if type(key) is not OffsetCommitKey:
            super().add(producer_id, record, offset)
            return
        self._on_group(key.group)
        self._offsets.setdefault(producer_id, {})[key.group, key.topic, key.partition] = _Pending(record, offset)
        partitions = self._groups.setdefault(key.group, {}).setdefault(key.topic, {})
        partitions.setdefault(key.partition, {})[producer_id] = None

    def end(self, producer_id: int) -> list[tuple[CoordinatorRecord, int]]:
        ended = super().end(producer_id)
        for place, pending in self._offsets.pop(producer_id, {}).items():
            self._forget(place, producer_id)
            if not pending.is_superseded:
                ended.append((pending.record, pending.offset))
        return ended

    # --- superseding

    def supersede(self, key: OffsetCommitKey, value: OffsetCommitValue | None, offset: int) -> None:
        """A record of this key at `offset` takes effect. None removes the committed offset."""
        place = key.group, key.topic, key.partition
        for producer_id in list(self.of(key.group).get(key.topic, {}).get(key.partition, ())):
            pending = self._offsets[producer_id][place]
            if pending.offset > offset:
                continue
            if value is not None:
                self._offsets[producer_id][place] = pending._replace(is_superseded=True)
                continue
            del self._offsets[producer_id][place]
            if not self._offsets[producer_id]:
                del self._offsets[producer_id]
            self._forget(place, producer_id)

    # --- queries

    def of(self, group_id: str) -> Mapping[str, Mapping[int, Producers]]:
        """The topics and partitions with offsets of open transactions in the group."""
        return self._groups.get(group_id, NONE_PENDING)

    def groups(self) -> list[str]:
        return list(self._groups)

    # --- decisions

    def remove_group(self, group_id: str) -> list[CoordinatorRecord]:
        return [
            offset_removed(group_id, topic, partition)
            for topic, partitions in self.of(group_id).items()
            for partition in partitions
        ]

    def remove_topic(self, topic: str, topic_id: bytes) -> list[CoordinatorRecord]:
        """Removes pending offsets of a deleted topic. Offsets of another topic with the same name stay."""
        return [
            offset_removed(*place)
            for of_one in self._offsets.values()
            for place, pending in of_one.items()
            if place[1] == topic and getattr(pending.record.value, "topic_id", ZERO_UUID) in (ZERO_UUID, topic_id)
        ]

    def _forget(self, place: Place, producer_id: int) -> None:
        group_id, topic, partition = place
        topics = self._groups[group_id]
        del topics[topic][partition][producer_id]
        if not topics[topic][partition]:
            del topics[topic][partition]
            if not topics[topic]:
                del topics[topic]
                if not topics:
                    del self._groups[group_id]
