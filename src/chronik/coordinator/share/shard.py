"""The state of one partition of `__share_group_state`: its share partitions.

A leader of a data partition reads the state when it begins and reports changes from then on. Two epochs keep others
out: a read with a newer leader epoch is written down before it is answered, so an older leader can store nothing from
then on; and a state that is initialized again has a higher state epoch, which its leader learns only by reading.

Decisions are made on what the log holds, committed or not, and answered when all of it is committed.

What the log need not keep any more is deleted by a timer: everything before the oldest snapshot that is still needed.
States that get no updates are written again from time to time, so that they do not hold the rest back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, cast

from chronik.coordinator.open_transactions import OpenTransactions
from chronik.coordinator.shard import CoordinatorRecord, StatePartition, Writer, ignore
from chronik.coordinator.share.config import ShareCoordinatorConfig
from chronik.coordinator.share.persister import (
    NO_LEADER_EPOCH,
    UNKNOWN_COUNT,
    UNKNOWN_OFFSET,
    SharePartitionKey,
    ShareState,
    ShareSummary,
    StateBatch,
)
from chronik.coordinator.share.state import (
    RECORD_TYPES,
    Kept,
    from_snapshot,
    initialized,
    key_of,
    removal,
    snapshot_record,
    update_record,
)
from chronik.coordinator.timers import Timers
from chronik.metadata.delta import Changes
from chronik.metadata.image import Image
from chronik.runtime.interfaces import Clock
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.share_state_records import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)

RECORDS_PER_BATCH: Final = 500  # of snapshots and removals that need not be one atomic batch
RETRY_MS: Final = 1_000  # before a removal that the log refused is tried again
ANY_EPOCH: Final = -1  # of a caller that does not know it: not compared
NOT_INITIALIZED: Final = ShareSummary(0, 0, UNKNOWN_OFFSET, UNKNOWN_COUNT)

Reply = Callable[[ErrorCode], None]


class ShareShard:
    record_types = RECORD_TYPES

    def __init__(
        self,
        config: ShareCoordinatorConfig,
        clock: Clock,
        writer: Writer,
        timers: Timers,
        partition: StatePartition,
    ) -> None:
        self.open_transactions = OpenTransactions()
        self.states: dict[SharePartitionKey, Kept] = {}
        self._config = config
        self._clock = clock
        self._writer = writer
        self._timers = timers
        self._partition = partition
        self._snapshot_offsets: dict[SharePartitionKey, int] = {}  # of the snapshot that each state begins with
        # The highest epochs that were seen, which outlive an initialization: by them callers are refused.
        self._leader_epochs: dict[SharePartitionKey, int] = {}
        self._state_epochs: dict[SharePartitionKey, int] = {}
        self._image: Image | None = None

    # --- what the runtime asks for

    def replay(self, record: CoordinatorRecord, offset: int) -> None:
        key = key_of(cast("ShareSnapshotKey | ShareUpdateKey", record.key))
        value = record.value
        if isinstance(value, ShareSnapshotValue):
            self._keep(key, from_snapshot(value))
            self._snapshot_offsets[key] = offset
        elif isinstance(value, ShareUpdateValue):
            before = self.states.get(key)
            if before is not None:  # else what it changed has been removed
                self._keep(key, before.with_update(value))
        elif isinstance(record.key, ShareSnapshotKey):
            for table in (self.states, self._snapshot_offsets, self._leader_epochs, self._state_epochs):
                cast("dict[SharePartitionKey, object]", table).pop(key, None)

    def _keep(self, key: SharePartitionKey, kept: Kept) -> None:
        self.states[key] = kept
        self._leader_epochs[key] = max(self._leader_epochs.get(key, kept.leader_epoch), kept.leader_epoch)
        self._state_epochs[key] = max(self._state_epochs.get(key, kept.state_epoch), kept.state_epoch)

    def loaded(self) -> None:
        self._timers.set("snapshots", self._config.cold_snapshot_interval_ms, self._snapshot_cold)
        self._timers.set("prune", self._config.prune_interval_ms, self._prune)
        self._remove_deleted()  # topics may have been deleted while nobody led the partition

    def image_changed(self, image: Image, changes: Changes) -> None:
        self._image = image
        if changes.topics_removed:
            self._remove_deleted()

    def unloaded(self) -> None:
        """Nobody waits here: who was told nothing gets NOT_COORDINATOR from the runtime."""

    # --- requests

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int, reply: Reply) -> None:
        error = self._unknown(key)
        if key.partition < 0:
            error = ErrorCode.INVALID_REQUEST
        elif state_epoch != ANY_EPOCH and self._state_epochs.get(key, state_epoch) > state_epoch:
            error = ErrorCode.FENCED_STATE_EPOCH
        if error is not ErrorCode.NONE:
            reply(error)
            return
        kept = initialized(self.states.get(key), state_epoch, start_offset, self._clock.wall_ms())
        self._writer.write([snapshot_record(key, kept)], reply)

    def read(self, key: SharePartitionKey, leader_epoch: int, reply: Callable[[ShareState | ErrorCode], None]) -> None:
        error = self._refusal(key, leader_epoch, ANY_EPOCH)
        if error is not ErrorCode.NONE:
            reply(error)
            return
        kept = self.states[key]
        state = ShareState(kept.state_epoch, kept.start_offset, list(kept.batches))
        written = []
        if leader_epoch not in (NO_LEADER_EPOCH, kept.leader_epoch):
            written = [self._change(key, leader_epoch, kept.start_offset, kept.delivery_complete_count, [])]
        self._writer.write(written, lambda failure: reply(failure or state))

    def write(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        state_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
        reply: Reply,
    ) -> None:
        error = self._refusal(key, leader_epoch, state_epoch)
        if error is ErrorCode.NONE and any(not 0 <= each.first_offset <= each.last_offset for each in batches):
            error = ErrorCode.INVALID_REQUEST
        if error is not ErrorCode.NONE:
            reply(error)
            return
        own_epoch = self.states[key].leader_epoch
        self._writer.write([self._change(key, own_epoch, start_offset, delivery_complete_count, batches)], reply)

    def summary(self, key: SharePartitionKey, reply: Callable[[ShareSummary | ErrorCode], None]) -> None:
        error = ErrorCode.INVALID_REQUEST if key.partition < 0 else self._unknown(key)
        if error is not ErrorCode.NONE:
            reply(error)
            return
        kept = self.states.get(key)
        found = NOT_INITIALIZED
        if kept is not None:
            found = ShareSummary(kept.state_epoch, kept.leader_epoch, kept.start_offset, kept.delivery_complete_count)
        self._writer.when_settled(lambda failure: reply(failure or found))

    def delete(self, key: SharePartitionKey, reply: Reply) -> None:
        """Deleting what does not exist succeeds: a repeated request finds its work done."""
        error = ErrorCode.INVALID_REQUEST if key.partition < 0 else self._unknown(key)
        if error is not ErrorCode.NONE:
            reply(error)
        else:
            self._writer.write([removal(key)] if key in self.states else [], reply)

    def _refusal(self, key: SharePartitionKey, leader_epoch: int, state_epoch: int) -> ErrorCode:
        if key.partition < 0 or key not in self.states:
            return ErrorCode.INVALID_REQUEST
        if leader_epoch != NO_LEADER_EPOCH and self._leader_epochs[key] > leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if state_epoch != ANY_EPOCH and self._state_epochs[key] > state_epoch:
            return ErrorCode.FENCED_STATE_EPOCH
        return self._unknown(key)

    def _unknown(self, key: SharePartitionKey) -> ErrorCode:
        topic = None if self._image is None else self._image.topics.get(key.topic_id)
        if topic is None or not key.partition < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE

    def _change(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> CoordinatorRecord:
        """An update, or a snapshot after `updates_per_snapshot` of them."""
        kept = self.states[key]
        if kept.updates < self._config.updates_per_snapshot:
            return update_record(key, kept, leader_epoch, start_offset, delivery_complete_count, batches)
        now_ms = self._clock.wall_ms()
        after = kept.with_report(start_offset, delivery_complete_count, batches)._replace(
            snapshot_epoch=kept.snapshot_epoch + 1,
            leader_epoch=leader_epoch,
            created_at_ms=now_ms,
            written_at_ms=now_ms,
        )
        return snapshot_record(key, after)

    # --- what time brings about

    def _snapshot_cold(self) -> None:
        """States without a snapshot for so long are written again, so that the log before can be deleted: if that is
        at least as much as is written."""
        self._timers.set("snapshots", self._config.cold_snapshot_interval_ms, self._snapshot_cold)
        now_ms = self._clock.wall_ms()
        old = [
            snapshot_record(key, kept._replace(snapshot_epoch=kept.snapshot_epoch + 1, written_at_ms=now_ms))
            for key, kept in self.states.items()
            if now_ms - kept.written_at_ms >= self._config.cold_snapshot_interval_ms
        ]
        oldest_offset = min(self._snapshot_offsets.values(), default=self._partition.end_offset)
        unneeded = self._partition.end_offset - oldest_offset - len(self.states)
        if unneeded >= len(old):
            self._write_in_parts(old)

    def _prune(self) -> None:
        """After what is in the log now is committed, since only that may be built upon."""
        self._timers.set("prune", self._config.prune_interval_ms, self._prune)
        needed = min(self._snapshot_offsets.values(), default=self._partition.end_offset)
        if needed > self._partition.start_offset:
            self._writer.when_settled(partial(self._pruned, needed))

    def _pruned(self, needed: int, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self._partition.delete_before(needed)

    def _remove_deleted(self) -> None:
        image = self._image
        gone = [] if image is None else [removal(key) for key in self.states if image.topic(key.topic_id) is None]
        if not self._write_in_parts(gone):
            self._timers.set("deleted topics", RETRY_MS, self._remove_deleted)

    def _write_in_parts(self, records: Sequence[CoordinatorRecord]) -> bool:
        """Whether the log took all of them; after a refusal the rest is not tried."""
        parts = range(0, len(records), RECORDS_PER_BATCH)
        return all(self._writer.write(list(records[at : at + RECORDS_PER_BATCH]), ignore) for at in parts)
