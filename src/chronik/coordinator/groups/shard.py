"""The state of one partition of `__consumer_offsets`: its groups and their offsets.

Holds the groups and hands each record and each request to the protocol it belongs to: `classic`, `consumer`, `share` or
`streams`.
Offsets, and the end of groups, are the same for all kinds. A group exists while it is in the log, has offsets, or has
somebody who joins it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, cast

from chronik.coordinator.groups import offsets
from chronik.coordinator.groups.classic.members import JoinReply, SyncReply, join_error
from chronik.coordinator.groups.classic.protocol import ClassicProtocol
from chronik.coordinator.groups.config import GroupsConfig
from chronik.coordinator.groups.consumer.classic_members import ClassicMembers, LeaveReply
from chronik.coordinator.groups.consumer.group import ConsumerGroup
from chronik.coordinator.groups.consumer.protocol import ConsumerProtocol
from chronik.coordinator.groups.consumer.records import RECORD_TYPES as CONSUMER_RECORD_TYPES
from chronik.coordinator.groups.group import Group
from chronik.coordinator.groups.member_memory import MemberMemory
from chronik.coordinator.groups.pending_offsets import PendingOffsets
from chronik.coordinator.groups.records import RECORD_TYPES, offset_removed
from chronik.coordinator.groups.requests import Caller
from chronik.coordinator.groups.share.group import ShareGroup
from chronik.coordinator.groups.share.protocol import ShareParts, ShareProtocol
from chronik.coordinator.groups.share.records import KEYS as SHARE_KEYS
from chronik.coordinator.groups.share.records import RECORD_TYPES as SHARE_RECORD_TYPES
from chronik.coordinator.groups.streams.group import StreamsGroup
from chronik.coordinator.groups.streams.protocol import StreamsProtocol
from chronik.coordinator.groups.streams.records import KEYS as STREAMS_KEYS
from chronik.coordinator.groups.streams.records import RECORD_TYPES as STREAMS_RECORD_TYPES
from chronik.coordinator.shard import (
    NOTHING_TO_WRITE,
    CoordinatorRecord,
    Decision,
    OnWritten,
    RecordType,
    Writer,
    ignore,
)
from chronik.coordinator.timers import Timers
from chronik.metadata.delta import Changes
from chronik.metadata.image import Image
from chronik.runtime.interfaces import Clock, Randomness
from chronik.runtime.invariants import check
from chronik.runtime.pieces import Work, at_once
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from chronik.wire.messages.heartbeat import HeartbeatRequest
from chronik.wire.messages.join_group import JoinGroupRequest
from chronik.wire.messages.leave_group import MemberIdentity
from chronik.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from chronik.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from chronik.wire.messages.sync_group import SyncGroupRequest

REMOVALS_PER_BATCH = 1_000  # removals need not be one atomic batch, and a batch has a size limit
OFFSETS_PER_SLICE = 2_000  # looked at before an expiry lets other work have its turn


class GroupShard:
    record_types: Final[Mapping[int, RecordType]] = {
        **RECORD_TYPES,
        **CONSUMER_RECORD_TYPES,
        **SHARE_RECORD_TYPES,
        **STREAMS_RECORD_TYPES,
    }

    def __init__(
        self,
        config: GroupsConfig,
        clock: Clock,
        randomness: Randomness,
        writer: Writer,
        timers: Timers,
        memory: MemberMemory | None = None,
        share: ShareParts | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._writer = writer
        self.groups: dict[str, Group] = {}
        self.open_transactions = PendingOffsets(self._ensure_group)
        self.offsets = offsets.OffsetStore()
        memory = memory or MemberMemory()
        self.classic = ClassicProtocol(self.groups, config, clock, randomness, writer, timers, memory)
        self.consumer = ConsumerProtocol(self.groups, config, clock, randomness, writer, timers, memory, self.classic)
        self.classic_members = ClassicMembers(self.consumer)
        self.share = ShareProtocol(self.groups, config, clock, writer, timers, memory, self.consumer.topics, share)

        self.streams = StreamsProtocol(
            self.groups, config, clock, writer, timers, memory, self.consumer.topics, self.classic
        )

    # --- what the runtime asks for

    def replay(self, record: CoordinatorRecord, offset: int) -> None:
        key = record.key
        if type(key) is OffsetCommitKey:
            value = cast("OffsetCommitValue | None", record.value)
            if value is not None:
                self._ensure_group(key.group)
            if self.open_transactions:
                self.open_transactions.supersede(key, value, offset)
            self.offsets.replay(key, value)
        elif type(key) is GroupMetadataKey:
            metadata = cast("GroupMetadataValue | None", record.value)
            self.classic.replay(key.group, metadata, has_offsets=self._has_offsets(key.group))
        elif isinstance(key, SHARE_KEYS):
            self.share.replay(key.group_id, record)  # type: ignore[attr-defined]
        elif isinstance(key, STREAMS_KEYS):
            self.streams.replay(key.group_id, record)  # type: ignore[attr-defined]
        else:
            self.consumer.replay(key.group_id, record)  # type: ignore[attr-defined]

    def _has_offsets(self, group_id: str) -> bool:
        return bool(self.offsets.of(group_id) or self.open_transactions.of(group_id))

    def _ensure_group(self, group_id: str) -> None:
        """A group that has offsets and nothing else is a classic one."""
        if group_id not in self.groups:
            self.classic.add(group_id)

    def loaded(self) -> None:
        for group_id in [*self.offsets.groups(), *self.open_transactions.groups()]:
            self._ensure_group(group_id)  # a group that had these offsets was removed, and they were not
        self.classic.loaded()
        self.consumer.loaded()
        self.share.loaded()
        self.streams.loaded()

    def unloaded(self) -> None:
        self.classic.unloaded()
        self.consumer.unloaded()
        self.share.unloaded()
        self.streams.unloaded()

    def image_changed(self, image: Image, changes: Changes) -> None:
        """Forgets what was committed for topics that were deleted."""
        self.consumer.image_changed(image, changes)
        self.share.image_changed(image, changes)
        self.streams.image_changed(image, changes)
        for topic in changes.topics_removed:
            # After what is on its way: a commit that was admitted before the deletion is not seen otherwise.
            self._writer.when_settled(partial(self._forget_topic, topic.name, topic.topic_id))

    def _forget_topic(self, name: str, topic_id: bytes, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            stored, pending = self.offsets.remove_topic, self.open_transactions.remove_topic
            self.remove(_each_once([*stored(name, topic_id), *pending(name, topic_id)]))

    def remove(
        self, records: list[CoordinatorRecord], written: OnWritten = ignore, error: ErrorCode = ErrorCode.NONE
    ) -> None:
        """Writes removals in several batches, answered with the last: what fails in between can be removed again."""
        if not records:
            written(error)
        for start in range(0, len(records), REMOVALS_PER_BATCH):
            is_last = start + REMOVALS_PER_BATCH >= len(records)
            part = records[start : start + REMOVALS_PER_BATCH]
            self._writer.write(part, written if is_last else ignore)

    # --- members of the classic protocol, in a group of either kind

    def join(self, request: JoinGroupRequest, caller: Caller, reply: JoinReply) -> Decision:
        group = self.groups.get(request.group_id)
        if type(group) in (ShareGroup, StreamsGroup):
            reply(join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""))
            return NOTHING_TO_WRITE
        if type(group) is ConsumerGroup and (group.members or request.member_id):
            if group.members:
                self.classic_members.join(group, request, caller, reply)
            else:
                reply(join_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
            return NOTHING_TO_WRITE
        if type(group) is ConsumerGroup and not self._writer.write(group.removal(), ignore):
            reply(join_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id))
            return NOTHING_TO_WRITE
        return self.classic.join(request, caller, reply)

    def sync(self, request: SyncGroupRequest, reply: SyncReply) -> Decision:
        group = self.groups.get(request.group_id)
        if type(group) is not ConsumerGroup:
            return self.classic.sync(request, reply)
        self.classic_members.sync(group, request, reply)
        return NOTHING_TO_WRITE

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        group = self.groups.get(request.group_id)
        if type(group) is ConsumerGroup:
            return self.classic_members.heartbeat(group, request)
        return self.classic.heartbeat(request)

    def leave(self, group_id: str, leaving: Sequence[MemberIdentity], reply: LeaveReply) -> Decision:
        group = self.groups.get(group_id)
        if type(group) is ConsumerGroup:
            self.classic_members.leave(group, leaving, reply)
            return NOTHING_TO_WRITE
        records, left = self.classic.leave(group_id, leaving)
        if not records:
            reply(left, ErrorCode.NONE)
            return NOTHING_TO_WRITE
        return Decision(records, partial(reply, left))

    # --- offsets

    def commit(
        self, request: OffsetCommitRequest, version: int, *, in_transaction: bool = False
    ) -> tuple[list[CoordinatorRecord], OffsetCommitResponse]:
        error = self.admit_commit(request, version, in_transaction=in_transaction)
        if error is not ErrorCode.NONE:
            return [], offsets.commit_refused(request, error)
        return at_once(self.committing(request))

    def admit_commit(self, request: OffsetCommitRequest, version: int, *, in_transaction: bool = False) -> ErrorCode:
        """Whether the commit may be written now. If so it counts as a sign of life, unless a transaction's producer
        sends it: that is not the member itself."""
        group = self.groups.get(request.group_id)
        if in_transaction:
            return offsets.transactional_commit_error(group, request)
        error = offsets.commit_error(group, request, version)
        if error is ErrorCode.NONE:
            self.classic.committed(request)
        return error

    def committing(self, request: OffsetCommitRequest) -> Work[tuple[list[CoordinatorRecord], OffsetCommitResponse]]:
        """The records of the commit; whether it may be written is asked afterwards, without a pause between."""
        return offsets.commit(request, self._clock.wall_ms(), self._config)

    def delete_offsets(self, request: OffsetDeleteRequest) -> tuple[list[CoordinatorRecord], OffsetDeleteResponse]:
        group = self.groups.get(request.group_id)
        if group is None:
            return [], offset_delete_refused(ErrorCode.GROUP_ID_NOT_FOUND)
        if error := group.may_delete_offsets():
            return [], offset_delete_refused(error)
        stored, pending = self.offsets.of(request.group_id), self.open_transactions.of(request.group_id)
        records: list[CoordinatorRecord] = []
        topics = []
        for topic in request.topics:
            held = stored.get(topic.name, {}).keys() | pending.get(topic.name, {}).keys()
            is_read = group.subscribes_to(topic.name)
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
            parts = []
            for partition in topic.partitions:
                index = partition.partition_index
                parts.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
                if not is_read and index in held:
                    records.append(offset_removed(request.group_id, topic.name, index))
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=parts))
        return records, OffsetDeleteResponse(error_code=ErrorCode.NONE, throttle_time_ms=0, topics=topics)

    # --- the end of groups

    def delete_group(self, group_id: str) -> tuple[list[CoordinatorRecord], ErrorCode]:
        group = self.groups.get(group_id)
        if group is None:
            return [], ErrorCode.GROUP_ID_NOT_FOUND
        if error := group.may_be_deleted():
            return [], error
        gone = _each_once([*self.offsets.remove_group(group_id), *self.open_transactions.remove_group(group_id)])
        return [*gone, *group.removal()], ErrorCode.NONE

    def expire(self, now_ms: int) -> Iterator[list[CoordinatorRecord]]:
        """Offsets past their retention, and groups that are empty and keep no offsets; a slice at a time.

        Other work may come between two slices, so each decides by what is there when its turn comes. A group is spared
        while a record of its own is on its way, and an offset while a commit of the same partition is, or belongs to an
        open transaction: what is about to be acknowledged must not be removed as out of date.
        """
        records: list[CoordinatorRecord] = []
        looked_at = 0
        busy, commits = self._unsettled()
        for group_id in list(self.groups):
            group = self.groups.get(group_id)
            if group is None or group_id in busy:
                continue
            awaited = commits.get(group_id, set())
            stored_count = sum(map(len, self.offsets.of(group_id).values()))
            expired = self.offsets.expired(group, now_ms, self._config.offsets_retention_ms)
            gone = [place for place in expired if place not in awaited]
            check(
                len(gone) <= stored_count,
                "17 only offsets that are stored expire",
                group=group_id,
                expired=len(gone),
                stored=stored_count,
            )
            records += [offset_removed(group_id, topic, partition) for topic, partition in gone]
            if len(gone) == stored_count and not awaited and group.expire().group_may_go:
                if not group.is_stored and not stored_count:
                    del self.groups[group_id]  # it never got as far as the log
                else:
                    records += group.removal()
            looked_at += stored_count + 1
            if looked_at >= OFFSETS_PER_SLICE:
                yield records
                records, looked_at = [], 0
                busy, commits = self._unsettled()
        yield records

    def _unsettled(self) -> tuple[set[str], dict[str, set[tuple[str, int]]]]:
        """Groups with records of their own on their way, and the topics and partitions of commits, by group."""
        busy: set[str] = set()
        commits: dict[str, set[tuple[str, int]]] = {}
        for record in self._writer.unsettled():
            key = record.key
            if isinstance(key, OffsetCommitKey):
                commits.setdefault(key.group, set()).add((key.topic, key.partition))
            elif isinstance(key, GroupMetadataKey):
                busy.add(key.group)
            else:
                busy.add(key.group_id)  # type: ignore[attr-defined]
        return busy, commits


def _each_once(removals: list[CoordinatorRecord]) -> list[CoordinatorRecord]:
    """An offset may be stored and pending."""
    by_place = {
        (key.group, key.topic, key.partition): each for each in removals if isinstance(key := each.key, OffsetCommitKey)
    }
    return list(by_place.values())


def offset_delete_refused(error: ErrorCode) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error, throttle_time_ms=0, topics=[])
