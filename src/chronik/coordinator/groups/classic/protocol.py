"""The classic protocol in one shard: replays its records, starts and ends its groups, and takes members' requests.

Shares the table of groups with the other kinds, and changes only classic groups in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from chronik.coordinator.groups.classic.group import ClassicGroup, GroupState
from chronik.coordinator.groups.classic.joining import Joining
from chronik.coordinator.groups.classic.members import (
    UNKNOWN_MEMBER_ID,
    JoinReply,
    SyncReply,
    join_error,
    sync_error,
)
from chronik.coordinator.groups.classic.membership import Membership
from chronik.coordinator.groups.classic.rebalance import Rebalancer
from chronik.coordinator.groups.config import GroupsConfig
from chronik.coordinator.groups.group import Group
from chronik.coordinator.groups.member_memory import MemberMemory
from chronik.coordinator.groups.requests import Caller
from chronik.coordinator.shard import NOTHING_TO_WRITE, CoordinatorRecord, Decision, Writer
from chronik.coordinator.timers import Timers
from chronik.runtime.interfaces import Clock, Randomness
from chronik.runtime.invariants import check
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.group_records import GroupMetadataValue
from chronik.wire.messages.heartbeat import HeartbeatRequest
from chronik.wire.messages.join_group import JoinGroupRequest
from chronik.wire.messages.leave_group import MemberIdentity, MemberResponse
from chronik.wire.messages.offset_commit import OffsetCommitRequest
from chronik.wire.messages.sync_group import SyncGroupRequest


class ClassicProtocol:
    def __init__(
        self,
        groups: dict[str, Group],
        config: GroupsConfig,
        clock: Clock,
        randomness: Randomness,
        writer: Writer,
        timers: Timers,
        memory: MemberMemory,
    ) -> None:
        self._groups = groups
        self._config = config
        self._clock = clock
        self._memory = memory
        self._rebalancer = Rebalancer(config, clock, timers, writer)
        self._joining = Joining(self._rebalancer, randomness)
        self._membership = Membership(self._rebalancer)

    # --- replay

    def add(self, group_id: str) -> ClassicGroup:
        """A group that only has offsets is a classic group."""
        group = self._groups[group_id] = ClassicGroup(group_id, self._memory)
        return group

    def replay(self, group_id: str, value: GroupMetadataValue | None, *, has_offsets: bool) -> None:
        group = self._group(group_id)
        if group is None and group_id in self._groups:
            return  # the group was converted since: the records that convert it come later in the log
        if value is not None:
            if group is None:
                group = self.add(group_id)
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
            # A client may have joined or committed while the removal was being written: then the group stays.
            if group.state is GroupState.EMPTY and not group.pending_joins:
                del self._groups[group_id]
                if has_offsets:
                    self.add(group_id)

    def release(self, group_id: str) -> None:
        """Another kind of group takes over this group id. Members with waiting requests must join again."""
        group = self._group(group_id)
        if group is None:
            return
        del self._groups[group_id]
        self._rebalancer.forget(group)
        group.transition(GroupState.DEAD, self._clock.wall_ms())
        for member in group.members.values():
            group.answer_join(member, join_error(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
            group.answer_sync(member, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
        group.let_go()

    def take_over(self, group: ClassicGroup, rebalance_reason: str | None) -> None:
        """Serves a group that was a consumer group before. Its records are in the log. If they are committed already,
        the group was created from them by replay, without its members."""
        replayed = self._groups.get(group.group_id)
        check(
            replayed is None or (type(replayed) is ClassicGroup and not replayed.members),
            "18 a group is of one kind",
            group=group.group_id,
            generation=group.generation,
        )
        if type(replayed) is ClassicGroup:
            group.stored = replayed.stored
        self._groups[group.group_id] = group
        for member in group.members.values():
            self._rebalancer.keep_alive(group, member)
        if rebalance_reason is not None:
            self._rebalancer.write_unawaited(group, self._rebalancer.prepare(group, rebalance_reason))

    def loaded(self) -> None:
        for group in self._all():
            group.restore()
            for member in group.members.values():
                self._rebalancer.keep_alive(group, member)
            if len(group.members) > self._config.size_max:
                reason = f"more than group.max.size={self._config.size_max} members"
                self._rebalancer.write_unawaited(group, self._rebalancer.prepare(group, reason))

    def unloaded(self) -> None:
        """Members with waiting requests must look for another coordinator."""
        for group in self._all():
            group.transition(GroupState.DEAD, self._clock.wall_ms())
            for member in group.members.values():
                group.answer_join(member, join_error(ErrorCode.NOT_COORDINATOR, member.member_id))
                group.answer_sync(member, sync_error(ErrorCode.NOT_COORDINATOR))
            group.let_go()
            check(group.joined_count == 0, "27 every join is answered when a shard ends", group=group.group_id)

    # --- members' requests

    def join(self, request: JoinGroupRequest, caller: Caller, reply: JoinReply) -> Decision:
        group = self._group(request.group_id)
        if group is None:
            if request.group_id in self._groups:
                reply(join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id))
                return NOTHING_TO_WRITE
            if request.member_id != UNKNOWN_MEMBER_ID:
                reply(join_error(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
                return NOTHING_TO_WRITE
            group = ClassicGroup(request.group_id, self._memory, self._clock.wall_ms())
            self._groups[request.group_id] = group
        return self._joining.join(group, request, caller, reply)

    def sync(self, request: SyncGroupRequest, reply: SyncReply) -> Decision:
        group = self._group(request.group_id)
        if group is None:
            reply(sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
            return NOTHING_TO_WRITE
        return self._membership.sync(group, request, reply)

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        group = self._group(request.group_id)
        return ErrorCode.UNKNOWN_MEMBER_ID if group is None else self._membership.heartbeat(group, request)

    def leave(
        self, group_id: str, leaving: Sequence[MemberIdentity]
    ) -> tuple[list[CoordinatorRecord], list[MemberResponse]]:
        group = self._group(group_id)
        if group is not None:
            return self._membership.leave(group, leaving)
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        return [], [
            MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=unknown)
            for each in leaving
        ]

    def committed(self, request: OffsetCommitRequest) -> None:
        """A member's commit counts as a heartbeat."""
        group = self._group(request.group_id)
        if group is not None and group.state is not GroupState.EMPTY:
            self._rebalancer.keep_alive(group, group.members[request.member_id])

    def _group(self, group_id: str) -> ClassicGroup | None:
        group = self._groups.get(group_id)
        return group if type(group) is ClassicGroup else None

    def _all(self) -> list[ClassicGroup]:
        return [group for group in self._groups.values() if type(group) is ClassicGroup]
