"""The state of one share partition as the log holds it, and its records in Kafka's format.

A snapshot holds everything, an update what a leader reported since. Pure: values and functions of values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from chronik.coordinator.shard import CoordinatorRecord, RecordType
from chronik.coordinator.share.batches import merged
from chronik.coordinator.share.persister import UNKNOWN_COUNT, UNKNOWN_OFFSET, SharePartitionKey, StateBatch
from chronik.wire.messages import share_state_records as wire
from chronik.wire.messages.share_state_records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)

UNKNOWN_EPOCH: Final = 0  # of the leader, in a state that no leader has read

# Replayed at append: the next decision must see what is on its way, or a snapshot would lack it.
RECORD_TYPES: Final[Mapping[int, RecordType]] = {
    ShareSnapshotKey.record_type: RecordType(ShareSnapshotKey, ShareSnapshotValue, at_append=True),
    ShareUpdateKey.record_type: RecordType(ShareUpdateKey, ShareUpdateValue, at_append=True),
}


class Kept(NamedTuple):
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: list[StateBatch]
    created_at_ms: int
    written_at_ms: int  # of the snapshot
    updates: int = 0  # since the snapshot

    def with_update(self, value: ShareUpdateValue) -> Kept:
        changed = self.with_report(value.start_offset, value.delivery_complete_count, _read(value.state_batches))
        leader_epoch = self.leader_epoch if value.leader_epoch == -1 else value.leader_epoch
        return changed._replace(leader_epoch=leader_epoch, updates=self.updates + 1)

    def with_report(self, start_offset: int, delivery_complete_count: int, batches: Iterable[StateBatch]) -> Kept:
        """A leader's start offset only rises. A report with a lower one was held up on its way: what it says of records
        still counts, but not its start, nor the number that was counted from there."""
        is_late = start_offset != UNKNOWN_OFFSET and start_offset < self.start_offset
        if is_late or start_offset == UNKNOWN_OFFSET:
            start_offset = self.start_offset
        return self._replace(
            start_offset=start_offset,
            delivery_complete_count=self.delivery_complete_count if is_late else delivery_complete_count,
            batches=merged(self.batches, batches, start_offset),
        )


def initialized(before: Kept | None, state_epoch: int, start_offset: int, now_ms: int) -> Kept:
    """A state that begins, or begins again."""
    return Kept(
        snapshot_epoch=0 if before is None else before.snapshot_epoch + 1,
        state_epoch=state_epoch,
        leader_epoch=UNKNOWN_EPOCH,
        start_offset=start_offset,
        delivery_complete_count=UNKNOWN_COUNT if start_offset == UNKNOWN_OFFSET else 0,
        batches=[],
        created_at_ms=now_ms,
        written_at_ms=now_ms,
    )


def from_snapshot(value: ShareSnapshotValue) -> Kept:
    return Kept(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=value.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=_read(value.state_batches),
        created_at_ms=value.create_timestamp,
        written_at_ms=value.write_timestamp,
    )


def snapshot_record(key: SharePartitionKey, kept: Kept) -> CoordinatorRecord:
    return CoordinatorRecord(
        ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition),
        ShareSnapshotValue(
            snapshot_epoch=kept.snapshot_epoch,
            state_epoch=kept.state_epoch,
            leader_epoch=kept.leader_epoch,
            start_offset=kept.start_offset,
            delivery_complete_count=kept.delivery_complete_count,
            create_timestamp=kept.created_at_ms,
            write_timestamp=kept.written_at_ms,
            state_batches=_written(kept.batches),
        ),
    )


def update_record(
    key: SharePartitionKey,
    kept: Kept,
    leader_epoch: int,
    start_offset: int,
    delivery_complete_count: int,
    batches: Sequence[StateBatch],
) -> CoordinatorRecord:
    return CoordinatorRecord(
        ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition),
        ShareUpdateValue(
            snapshot_epoch=kept.snapshot_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            state_batches=_written(merged([], batches, start_offset)),
        ),
    )


def removal(key: SharePartitionKey) -> CoordinatorRecord:
    return CoordinatorRecord(
        ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition), None
    )


def key_of(key: ShareSnapshotKey | ShareUpdateKey) -> SharePartitionKey:
    return SharePartitionKey(key.group_id, key.topic_id, key.partition)


def _read(batches: Iterable[wire.StateBatch]) -> list[StateBatch]:
    found = [
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in batches
    ]
    return merged([], found, UNKNOWN_OFFSET)  # what another release wrote need not be in our order


def _written(batches: Iterable[StateBatch]) -> list[wire.StateBatch]:
    return [
        wire.StateBatch(
            first_offset=each.first_offset,
            last_offset=each.last_offset,
            delivery_state=each.delivery_state,
            delivery_count=each.delivery_count,
        )
        for each in batches
    ]
