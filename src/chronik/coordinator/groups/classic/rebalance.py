"""The rebalances of a classic group: wait for members to join, start the next generation, wait for the leader's
assignment.

This module sets all timers: the initial delay, during which the members of a new group arrive; the time-outs of the
join and sync phases; and each member's session. All other state is in the group. Records that a rebalance writes (for a
group that became empty) are returned; the caller writes them and replies after that.
"""

from __future__ import annotations

import logging
from functools import partial

from chronik.coordinator.groups.classic.group import ClassicGroup, GroupState
from chronik.coordinator.groups.classic.members import Member, sync_error
from chronik.coordinator.groups.config import GroupsConfig
from chronik.coordinator.groups.records import group_record
from chronik.coordinator.shard import NOTHING_TO_WRITE, CoordinatorRecord, Decision, Writer
from chronik.coordinator.timers import Timers
from chronik.runtime.interfaces import Clock
from chronik.runtime.invariants import check
from chronik.runtime.wording import counted
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.sync_group import SyncGroupResponse

log = logging.getLogger("chronik.coordinator.groups")


def join_key(group: ClassicGroup) -> tuple[str, str]:
    return "join", group.group_id


def sync_key(group: ClassicGroup) -> tuple[str, str]:
    return "sync", group.group_id


def session_key(group: ClassicGroup, member_id: str) -> tuple[str, str, str]:
    return "session", group.group_id, member_id


class Rebalancer:
    def __init__(self, config: GroupsConfig, clock: Clock, timers: Timers, writer: Writer) -> None:
        self.config = config
        self.clock = clock
        self.timers = timers
        self._writer = writer

    def forget(self, group: ClassicGroup) -> None:
        """Cancels all timers of this group."""
        for key in (join_key(group), sync_key(group), *(session_key(group, each) for each in group.members)):
            self.timers.cancel(key)
        for member_id in group.pending_joins:
            self.timers.cancel(session_key(group, member_id))

    # --- join phase

    def prepare(self, group: ClassicGroup, reason: str) -> list[CoordinatorRecord]:
        """Asks all members to join again. Members that wait for an assignment are told so in their response."""
        if group.state is GroupState.COMPLETING:
            self.fail_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_syncs.clear()
        self.timers.cancel(sync_key(group))
        check(group.state is not GroupState.DEAD, "30 a group that is dead stays dead", group=group.group_id)
        is_initial = group.state is GroupState.EMPTY
        group.transition(GroupState.PREPARING, self.clock.wall_ms())
        log.info("group %s: rebalance after generation %d: %s", group.group_id, group.generation, reason)
        if not is_initial:
            return self._complete_or_wait(group)
        delay_ms = self.config.initial_rebalance_delay_ms
        left_ms = max(group.rebalance_timeout_ms() - delay_ms, 0)
        group.has_new_member = False
        self.timers.set(join_key(group), delay_ms, partial(self._initial_delay_over, group, delay_ms, left_ms))
        return []

    def _initial_delay_over(self, group: ClassicGroup, delay_ms: int, left_ms: int) -> None:
        """Continues to wait while new members arrive, up to the rebalance time-out."""
        if not group.has_new_member or left_ms == 0:
            self.write_unawaited(group, self.complete(group))
            return
        group.has_new_member = False
        next_ms = min(self.config.initial_rebalance_delay_ms, left_ms)
        left_ms = max(left_ms - delay_ms, 0)
        self.timers.set(join_key(group), next_ms, partial(self._initial_delay_over, group, next_ms, left_ms))

    def _complete_or_wait(self, group: ClassicGroup) -> list[CoordinatorRecord]:
        if group.has_all_joined:
            return self.complete(group)
        self._wait_for_joins(group)
        return []

    def _wait_for_joins(self, group: ClassicGroup) -> None:
        self.timers.set(
            join_key(group), group.rebalance_timeout_ms(), lambda: self.write_unawaited(group, self.complete(group))
        )

    def prepare_or_complete(self, group: ClassicGroup, reason: str) -> list[CoordinatorRecord]:
        """Called after a member has joined, changed or left."""
        if group.state is GroupState.PREPARING:
            return self.complete_if_all_joined(group)
        return self.prepare(group, reason)

    def complete_if_all_joined(self, group: ClassicGroup) -> list[CoordinatorRecord]:
        """A new group waits for its whole initial delay, because more members are likely to arrive."""
        if (
            group.state is GroupState.PREPARING
            and group.previous_state is not GroupState.EMPTY
            and group.has_all_joined
        ):
            return self.complete(group)
        return []

    def complete(self, group: ClassicGroup) -> list[CoordinatorRecord]:
        """Ends the join phase. Dynamic members that have not joined are removed; static ones keep their place."""
        self.timers.cancel(join_key(group))
        for member in list(group.members.values()):
            if member.join_reply is None and member.group_instance_id is None:
                self.drop(group, member.member_id)
        if group.members and not group.elect_joined_leader():
            # Only static members are left and none has joined: those that are gone will be removed by their sessions.
            self._wait_for_joins(group)
            return []
        group.begin_generation(self.clock.wall_ms())
        if group.state is GroupState.EMPTY:
            return [group_record(group.group_id, group.to_stored({}))]
        for member in group.members.values():
            group.pending_syncs[member.member_id] = None
            member.is_new = False
            self.keep_alive(group, member)
            is_leader = member.member_id == group.leader_id
            group.answer_join(member, group.joined(member.member_id, with_members=is_leader))
        check(
            group.joined_count == 0 and len(group.pending_syncs) == len(group.members),
            "27 every join of a round is answered, and every member is asked to sync",
            group=group.group_id,
            generation=group.generation,
            waiting=group.joined_count,
            syncs=len(group.pending_syncs),
        )
        self.timers.set(
            sync_key(group), group.rebalance_timeout_ms(), partial(self._syncs_over, group, group.generation)
        )
        return []

    # --- sync phase

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        check(member_id in group.members, "18 only members sync", group=group.group_id, member=member_id)
        group.pending_syncs.pop(member_id, None)
        if not group.pending_syncs:
            self.timers.cancel(sync_key(group))

    def assign(self, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
        """Sends the leader's assignment, which is in the log now. The group becomes stable."""
        check(
            group.state is GroupState.COMPLETING and group.is_assigned,
            "18 an assignment ends the round it was made for",
            group=group.group_id,
            generation=group.generation,
            state=group.state,
        )
        check(
            group.stored is not None and group.stored.generation == group.generation,
            "17 an assignment is told once it is in the log",
            group=group.group_id,
            generation=group.generation,
            stored=group.stored and group.stored.generation,
        )
        for member in group.members.values():
            group.assign(member, assignments.get(member.member_id, b""))
            self._answer_sync(group, member, assignment_of(group, member))
        group.transition(GroupState.STABLE, self.clock.wall_ms())

    def fail_syncs(self, group: ClassicGroup, error: ErrorCode) -> None:
        for member in group.members.values():
            group.assign(member, b"")
            self._answer_sync(group, member, sync_error(error))

    def _answer_sync(self, group: ClassicGroup, member: Member, response: SyncGroupResponse) -> None:
        # While its SyncGroup waited, the member did not have to send heartbeats. From now on it does.
        if group.answer_sync(member, response):
            self.keep_alive(group, member)

    def _syncs_over(self, group: ClassicGroup, generation: int) -> None:
        """Removes members that joined but did not send SyncGroup."""
        if group.generation != generation or group.state not in (GroupState.COMPLETING, GroupState.STABLE):
            return
        absent = list(group.pending_syncs)
        for member_id in absent:
            self.drop(group, member_id)
        if absent:
            self.write_unawaited(group, self.prepare(group, f"no SyncGroup from {counted(len(absent), 'member')}"))

    # --- sessions

    def keep_alive(self, group: ClassicGroup, member: Member, timeout_ms: int | None = None) -> None:
        """Restarts the member's session timeout."""
        member_id = member.member_id
        check(
            group.members.get(member_id) is member,
            "18 only members are kept alive",
            group=group.group_id,
            member=member_id,
        )
        self.timers.set(
            session_key(group, member_id),
            member.session_timeout_ms if timeout_ms is None else timeout_ms,
            partial(self.session_over, group, member_id),
        )

    def session_over(self, group: ClassicGroup, member_id: str) -> None:
        if group.state is GroupState.DEAD:
            return
        member = group.members.get(member_id)
        if member is None:
            if member_id in group.pending_joins:
                group.remove(member_id)
                self.write_unawaited(group, self._after_loss(group, ""))
            return
        # A waiting request counts as heartbeats. But a member that never got its id may be gone for good.
        if member.is_waiting and not member.is_new:
            return
        log.info("group %s: member %s was silent for its session time-out", group.group_id, member_id)
        group.remove(member_id)
        self.write_unawaited(group, self._after_loss(group, f"member {member_id} failed"))

    def _after_loss(self, group: ClassicGroup, reason: str) -> list[CoordinatorRecord]:
        if group.state is GroupState.PREPARING:
            return self.complete(group) if group.has_all_joined else []
        return self.prepare(group, reason) if reason else []

    def drop(self, group: ClassicGroup, member_id: str) -> None:
        """Removes a member and its session. The caller handles the effects on the group."""
        self.timers.cancel(session_key(group, member_id))
        group.remove(member_id)

    def write_unawaited(self, group: ClassicGroup, records: list[CoordinatorRecord]) -> None:
        """Writes changes that a timer caused, so no request waits for them. If they are lost, old members time out
        again."""
        if records:
            self._writer.write(*self.unawaited(group, records))

    def unawaited(self, group: ClassicGroup, records: list[CoordinatorRecord]) -> Decision:
        """The records of a rebalance, for a request that is answered without waiting for them."""
        return Decision(records, partial(_log_failure, group.group_id)) if records else NOTHING_TO_WRITE


def assignment_of(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=ErrorCode.NONE,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=member.assignment,
    )


def _log_failure(group_id: str, error: ErrorCode) -> None:
    if error is not ErrorCode.NONE:
        log.warning("group %s: its new state was not written: %s", group_id, error.name)
