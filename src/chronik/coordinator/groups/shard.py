"""The state of one partition of `__consumer_offsets`: its classic groups and their offsets.

Holds the groups, replays records into them, and puts the decisions of `joining`, `membership` and `offsets` together.
A group exists while it is in the log, has offsets, or has somebody who joins it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import cast

from chronik.coordinator.groups import offsets
from chronik.coordinator.groups.classic import ClassicGroup, State
from chronik.coordinator.groups.config import GroupsConfig
from chronik.coordinator.groups.joining import Joining
from chronik.coordinator.groups.member_memory import MemberMemory
from chronik.coordinator.groups.members import UNKNOWN_MEMBER_ID, JoinReply, SyncReply, join_error, sync_error
from chronik.coordinator.groups.membership import Membership
from chronik.coordinator.groups.rebalance import Rebalancer
from chronik.coordinator.groups.records import RECORD_TYPES, group_removed, offset_removed
from chronik.coordinator.groups.requests import Caller
from chronik.coordinator.shard import NOTHING_TO_WRITE, Decision, Record, Writer, Written, ignore
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
from chronik.wire.messages.leave_group import MemberIdentity, MemberResponse
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
    record_types = RECORD_TYPES

    def __init__(
        self,
        config: GroupsConfig,
        clock: Clock,
        randomness: Randomness,
        writer: Writer,
        timers: Timers,
        memory: MemberMemory | None = None,
    ) -> None:
        self._config = config
        self._memory = memory or MemberMemory()
        self._clock = clock
        self._writer = writer
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = offsets.OffsetStore()
        self._rebalancer = Rebalancer(config, clock, timers, writer)
        self._joining = Joining(self._rebalancer, randomness)
        self._membership = Membership(self._rebalancer)

    # --- what the runtime asks for

    def replay(self, record: Record, offset: int) -> None:
        key = record.key
        if type(key) is OffsetCommitKey:
            value = cast("OffsetCommitValue | None", record.value)
            if value is not None and key.group not in self.groups:
                self.groups[key.group] = ClassicGroup(key.group, self._memory)
            self.offsets.replay(key, value)
        elif type(key) is GroupMetadataKey:
            self._replay_group(key.group, cast("GroupMetadataValue | None", record.value))

    def _replay_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        group = self.groups.get(group_id)
        if value is not None:
            if group is None:
                group = self.groups[group_id] = ClassicGroup(group_id, self._memory)
            check(
                group.stored is None or value.generation >= group.stored.generation,
                "18 generations only go up",
                group=group_id,
                before=group.stored and group.stored.generation,
                now=value.generation,
            )
            group.stored = value
        elif group is not None:
            group.stored = None
            # Somebody may have joined, or committed, while the removal was being written: then it lives on.
            if group.state is State.EMPTY and not group.pending_joins:
                del self.groups[group_id]
                if self.offsets.of(group_id):
                    self.groups[group_id] = ClassicGroup(group_id, self._memory)

    def loaded(self) -> None:
        for group in self.groups.values():
            group.restore()
            for member in group.members.values():
                self._rebalancer.keep_alive(group, member)
            if len(group.members) > self._config.size_max:
                reason = f"more than group.max.size={self._config.size_max} members"
                self._rebalancer.write_unawaited(group, self._rebalancer.prepare(group, reason))

    def image_changed(self, image: Image, changes: Changes) -> None:
        """Forgets what was committed for topics that were deleted."""
        for topic in changes.topics_removed:
            # After what is on its way: a commit that was admitted before the deletion is not seen otherwise.
            self._writer.when_settled(partial(self._forget_topic, topic.name, topic.topic_id))

    def _forget_topic(self, name: str, topic_id: bytes, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self.remove(self.offsets.remove_topic(name, topic_id))

    def remove(self, records: list[Record], written: Written = ignore, error: ErrorCode = ErrorCode.NONE) -> None:
        """Writes removals in several batches, answered with the last: what fails in between can be removed again."""
        if not records:
            written(error)
        for start in range(0, len(records), REMOVALS_PER_BATCH):
            is_last = start + REMOVALS_PER_BATCH >= len(records)
            part = records[start : start + REMOVALS_PER_BATCH]
            self._writer.write(part, written if is_last else ignore)

    def unloaded(self) -> None:
        """Members learn that they have to look for another coordinator."""
        for group in self.groups.values():
            group.transition(State.DEAD, self._clock.wall_ms())
            for member in group.members.values():
                group.answer_join(member, join_error(ErrorCode.NOT_COORDINATOR, member.member_id))
                group.answer_sync(member, sync_error(ErrorCode.NOT_COORDINATOR))
            group.let_go()
            check(group.joined_count == 0, "27 every join is answered when a shard ends", group=group.group_id)

    # --- members

    def join(self, request: JoinGroupRequest, caller: Caller, reply: JoinReply) -> Decision:
        group = self.groups.get(request.group_id)
        if group is None:
            if request.member_id != UNKNOWN_MEMBER_ID:
                reply(join_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
                return NOTHING_TO_WRITE
            group = self.groups[request.group_id] = ClassicGroup(request.group_id, self._memory, self._clock.wall_ms())
        return self._joining.join(group, request, caller, reply)

    def sync(self, request: SyncGroupRequest, reply: SyncReply) -> Decision:
        group = self.groups.get(request.group_id)
        if group is None:
            reply(sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
            return NOTHING_TO_WRITE
        return self._membership.sync(group, request, reply)

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        group = self.groups.get(request.group_id)
        return ErrorCode.UNKNOWN_MEMBER_ID if group is None else self._membership.heartbeat(group, request)

    def leave(self, group_id: str, leaving: Sequence[MemberIdentity]) -> tuple[list[Record], list[MemberResponse]]:
        group = self.groups.get(group_id)
        if group is not None:
            return self._membership.leave(group, leaving)
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        return [], [
            MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=unknown)
            for each in leaving
        ]

    # --- offsets

    def commit(self, request: OffsetCommitRequest, version: int) -> tuple[list[Record], OffsetCommitResponse]:
        error = self.admit_commit(request, version)
        if error is not ErrorCode.NONE:
            return [], offsets.commit_refused(request, error)
        return at_once(self.committing(request))

    def admit_commit(self, request: OffsetCommitRequest, version: int) -> ErrorCode:
        """Whether the commit may be written now. If so it counts as a sign of life."""
        group = self.groups.get(request.group_id)
        error = offsets.commit_error(group, request, version)
        if error is ErrorCode.NONE and group is not None and group.state is not State.EMPTY:
            self._rebalancer.keep_alive(group, group.members[request.member_id])  # a commit is as good as a heartbeat
        return error

    def committing(self, request: OffsetCommitRequest) -> Work[tuple[list[Record], OffsetCommitResponse]]:
        """The records of the commit; whether it may be written is asked afterwards, without a pause between."""
        return offsets.commit(request, self._clock.wall_ms(), self._config)

    def delete_offsets(self, request: OffsetDeleteRequest) -> tuple[list[Record], OffsetDeleteResponse]:
        group = self.groups.get(request.group_id)
        if group is None or group.state is State.DEAD:
            return [], offset_delete_refused(ErrorCode.GROUP_ID_NOT_FOUND)
        if group.state is not State.EMPTY and not group.uses_consumer_protocol:
            return [], offset_delete_refused(ErrorCode.NON_EMPTY_GROUP)
        stored = self.offsets.of(request.group_id)
        records: list[Record] = []
        topics = []
        for topic in request.topics:
            is_read = group.subscribes_to(topic.name)
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
            parts = []
            for partition in topic.partitions:
                index = partition.partition_index
                parts.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
                if not is_read and index in stored.get(topic.name, {}):
                    records.append(offset_removed(request.group_id, topic.name, index))
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=parts))
        return records, OffsetDeleteResponse(error_code=ErrorCode.NONE, throttle_time_ms=0, topics=topics)

    # --- the end of groups

    def delete_group(self, group_id: str) -> tuple[list[Record], ErrorCode]:
        group = self.groups.get(group_id)
        if group is None or group.state is State.DEAD:
            return [], ErrorCode.GROUP_ID_NOT_FOUND
        if group.state is not State.EMPTY:
            return [], ErrorCode.NON_EMPTY_GROUP
        return [*self.offsets.remove_group(group_id), group_removed(group_id)], ErrorCode.NONE

    def expire(self, now_ms: int) -> Iterator[list[Record]]:
        """Offsets past their retention, and groups that are empty and keep no offsets; a slice at a time.

        Other work may come between two slices, so each decides by what is there when its turn comes. A group with a
        write on its way is spared: a commit that is about to be acknowledged must not be removed as out of date.
        """
        records: list[Record] = []
        looked_at = 0
        busy = self._unsettled_groups()
        for group_id in list(self.groups):
            group = self.groups.get(group_id)
            if group is None or group_id in busy:
                continue
            stored_count = sum(map(len, self.offsets.of(group_id).values()))
            gone = list(self.offsets.expired(group, now_ms, self._config.offsets_retention_ms))
            check(
                len(gone) <= stored_count,
                "17 only offsets that are stored expire",
                group=group_id,
                expired=len(gone),
                stored=stored_count,
            )
            records += [offset_removed(group_id, topic, partition) for topic, partition in gone]
            if len(gone) == stored_count and group.state is State.EMPTY and not group.pending_joins:
                if group.stored is None and not stored_count:
                    del self.groups[group_id]  # it never got as far as the log
                else:
                    records.append(group_removed(group_id))
            looked_at += stored_count + 1
            if looked_at >= OFFSETS_PER_SLICE:
                yield records
                records, looked_at = [], 0
                busy = self._unsettled_groups()
        yield records

    def _unsettled_groups(self) -> set[str]:
        return {
            record.key.group
            for record in self._writer.unsettled()
            if isinstance(record.key, (OffsetCommitKey, GroupMetadataKey))
        }


def offset_delete_refused(error: ErrorCode) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=error, throttle_time_ms=0, topics=[])
