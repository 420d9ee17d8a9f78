"""SyncGroup, Heartbeat and LeaveGroup for classic groups: the requests of a member after it has joined."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from chronik.coordinator.groups.classic.group import ClassicGroup, GroupState
from chronik.coordinator.groups.classic.members import UNKNOWN_MEMBER_ID, SyncReply, sync_error
from chronik.coordinator.groups.classic.rebalance import Rebalancer, assignment_of
from chronik.coordinator.groups.member_memory import MEMBER_BYTES_MAX
from chronik.coordinator.groups.records import group_record
from chronik.coordinator.shard import NOTHING_TO_WRITE, CoordinatorRecord, Decision
from chronik.runtime.invariants import check
from chronik.runtime.wording import counted
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.heartbeat import HeartbeatRequest
from chronik.wire.messages.leave_group import MemberIdentity, MemberResponse
from chronik.wire.messages.sync_group import SyncGroupRequest

log = logging.getLogger("chronik.coordinator.groups")


class Membership:
    def __init__(self, rebalancer: Rebalancer) -> None:
        self._rebalancer = rebalancer

    # --- SyncGroup

    def sync(self, group: ClassicGroup, request: SyncGroupRequest, reply: SyncReply) -> Decision:
        """The leader's assignment is written to the log. All members get their response when it is committed."""
        if error := self._sync_error(group, request):
            reply(sync_error(error))
            return NOTHING_TO_WRITE
        member = group.members[request.member_id]
        if member.member_id == group.leader_id and (error := self._assignment_error(group, request)):
            reply(sync_error(error))
            return NOTHING_TO_WRITE
        self._rebalancer.synced(group, member.member_id)
        if group.state is GroupState.STABLE:
            reply(assignment_of(group, member))
            return NOTHING_TO_WRITE
        group.await_sync(member, reply)
        if member.member_id != group.leader_id:
            return NOTHING_TO_WRITE
        return self._store_assignment(group, {each.member_id: each.assignment for each in request.assignments})

    def _sync_error(self, group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
        if group.state is GroupState.EMPTY:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if error := group.identify(request.member_id, request.group_instance_id):
            return error
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if request.protocol_type is not None and request.protocol_type != group.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.protocol_name is not None and request.protocol_name != group.protocol:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else ErrorCode.NONE

    def _assignment_error(self, group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
        """Whether there is memory for the leader's assignment, for each part and in total."""
        given = [len(each.assignment) for each in request.assignments]
        if any(size_bytes > MEMBER_BYTES_MAX for size_bytes in given):
            return ErrorCode.MESSAGE_TOO_LARGE
        held_bytes = sum([len(member.assignment) for member in group.members.values()])
        has_room = group.memory.has_room(sum(given) - held_bytes)
        return ErrorCode.NONE if has_room else ErrorCode.COORDINATOR_NOT_AVAILABLE

    def _store_assignment(self, group: ClassicGroup, given: dict[str, bytes]) -> Decision:
        """Members that the leader did not name get an empty assignment; other names are ignored.

        A generation has one assignment: while the leader's first one is being written, later ones are ignored.
        """
        if group.is_assigned:
            return NOTHING_TO_WRITE
        group.is_assigned = True
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        check(
            group.state is GroupState.COMPLETING,
            "18 an assignment is of the round under way",
            group=group.group_id,
            generation=group.generation,
            state=group.state,
        )
        written = partial(self._assignment_stored, group, group.generation, assignments)
        return Decision([group_record(group.group_id, group.to_stored(assignments))], written)

    def _assignment_stored(
        self, group: ClassicGroup, generation: int, assignments: dict[str, bytes], error: ErrorCode
    ) -> None:
        """Sends the assignments, unless another rebalance has started while the record was written."""
        if group.state is not GroupState.COMPLETING or group.generation != generation:
            return
        check(group.is_assigned, "18 a generation has one assignment", group=group.group_id, generation=generation)
        if error is ErrorCode.NONE:
            self._rebalancer.assign(group, assignments)
        else:
            self._rebalancer.fail_syncs(group, error)
            records = self._rebalancer.prepare(group, f"the assignment was not written: {error.name}")
            self._rebalancer.write_unawaited(group, records)

    # --- Heartbeat

    def heartbeat(self, group: ClassicGroup, request: HeartbeatRequest) -> ErrorCode:
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if error := group.identify(request.member_id, request.group_instance_id):
            return error
        if request.generation_id != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
        self._rebalancer.keep_alive(group, group.members[request.member_id])
        return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING else ErrorCode.NONE

    # --- LeaveGroup

    def leave(
        self, group: ClassicGroup, leaving: Sequence[MemberIdentity]
    ) -> tuple[list[CoordinatorRecord], list[MemberResponse]]:
        """Removes each member that can be identified, then continues with one rebalance for the others."""
        responses = [
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=self._leave_one(group, identity),
            )
            for identity in leaving
        ]
        left_count = sum(response.error_code == ErrorCode.NONE for response in responses)
        if left_count == 0 or group.state is GroupState.EMPTY:
            return [], responses
        return self._rebalancer.prepare_or_complete(group, f"{counted(left_count, 'member')} left"), responses

    def _leave_one(self, group: ClassicGroup, identity: MemberIdentity) -> ErrorCode:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        if member_id == UNKNOWN_MEMBER_ID:
            # An operator removes a static member by its instance id only.
            found = None if instance_id is None else group.static_members.get(instance_id)
            if found is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = found
        elif member_id not in group.pending_joins and (error := group.identify(member_id, instance_id)):
            return error
        log.info("group %s: %s leaves; client reason: %s", group.group_id, member_id, identity.reason or "not provided")
        self._rebalancer.drop(group, member_id)
        return ErrorCode.NONE
