"""JoinGroup for classic groups: which members may join, which must repeat the request, and when a join starts a
rebalance.

A decision returns the records to write; the caller writes them. The response goes through `reply`: at once, at the end
of the join phase, or when the records are committed. Checks run in Kafka's order: group size, group state, protocols,
identity, then the effect of the join in the current state. Memory, which Kafka does not check, comes before protocols.
"""

from __future__ import annotations

from functools import partial

from chronik.coordinator.groups.classic.group import ClassicGroup, GroupState
from chronik.coordinator.groups.classic.members import (
    UNKNOWN_MEMBER_ID,
    JoinReply,
    Member,
    Protocols,
    join_error,
    protocols_bytes,
    protocols_of,
)
from chronik.coordinator.groups.classic.rebalance import Rebalancer, session_key
from chronik.coordinator.groups.member_memory import MEMBER_BYTES, MEMBER_BYTES_MAX, PROTOCOL_BYTES
from chronik.coordinator.groups.records import group_record
from chronik.coordinator.groups.requests import Caller
from chronik.coordinator.shard import NOTHING_TO_WRITE, Decision
from chronik.runtime.interfaces import Randomness
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.join_group import JoinGroupRequest

MEMBER_ID_REQUIRED_SINCE = 4  # from this version of JoinGroup on, a first join only fetches a member id
SKIP_ASSIGNMENT_SINCE = 9


class Joining:
    def __init__(self, rebalancer: Rebalancer, randomness: Randomness) -> None:
        self._rebalancer = rebalancer
        self._randomness = randomness

    def join(self, group: ClassicGroup, request: JoinGroupRequest, caller: Caller, reply: JoinReply) -> Decision:
        member_id = request.member_id
        protocols = protocols_of(request.protocols)
        if not self._has_room(group, member_id):
            group.remove(member_id)
            records = self._rebalancer.complete_if_all_joined(group)
            reply(join_error(ErrorCode.GROUP_MAX_SIZE_REACHED))
            return self._rebalancer.unawaited(group, records)
        if error := self._error(group, request, protocols):
            reply(join_error(error, member_id))
            return NOTHING_TO_WRITE
        if member_id == UNKNOWN_MEMBER_ID:
            return self._join_new(group, request, protocols, caller, reply)
        if member_id in group.pending_joins:
            return self._add(group, member_id, request, protocols, caller, reply)
        return self._rejoin(group, group.members[member_id], request, protocols, caller, reply)

    def _error(self, group: ClassicGroup, request: JoinGroupRequest, protocols: Protocols) -> ErrorCode:
        member_id, instance_id = request.member_id, request.group_instance_id
        if group.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if self._is_too_large(protocols):
            return ErrorCode.MESSAGE_TOO_LARGE
        if not self._is_remembered(group, member_id, protocols):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not group.supports(request.protocol_type, {name for name, _ in protocols}):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if member_id == UNKNOWN_MEMBER_ID:
            return ErrorCode.NONE
        if member_id in group.pending_joins:
            # A static member never gets MEMBER_ID_REQUIRED, so this member id is unknown.
            return ErrorCode.NONE if instance_id is None else ErrorCode.UNKNOWN_SERVER_ERROR
        return group.identify(member_id, instance_id)

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        """Existing members keep their place. During the join phase, members that have joined count: if the limit was
        lowered below the size of the group, the last ones are refused."""
        size_max = self._rebalancer.config.size_max
        if group.state is GroupState.PREPARING:
            member = group.members.get(member_id)
            return (member is not None and member.join_reply is not None) or group.joined_count < size_max
        if group.state in (GroupState.COMPLETING, GroupState.STABLE):
            return member_id in group.members or len(group.members) < size_max
        return True

    def _is_too_large(self, protocols: Protocols) -> bool:
        return protocols_bytes(protocols) > MEMBER_BYTES_MAX + MEMBER_BYTES + PROTOCOL_BYTES

    def _is_remembered(self, group: ClassicGroup, member_id: str, protocols: Protocols) -> bool:
        """Whether there is memory for the member's data. A refused client retries later."""
        member = group.members.get(member_id)
        held_bytes = 0 if member is None else protocols_bytes(member.protocols)
        return group.memory.has_room(protocols_bytes(protocols) - held_bytes)

    # --- new members

    def _join_new(
        self, group: ClassicGroup, request: JoinGroupRequest, protocols: Protocols, caller: Caller, reply: JoinReply
    ) -> Decision:
        instance_id = request.group_instance_id
        new_id = f"{caller.client_id or '' if instance_id is None else instance_id}-{self._uuid()}"
        if instance_id is not None and (old_id := group.static_members.get(instance_id)) is not None:
            return self._replace(group, old_id, new_id, request, protocols, caller, reply)
        if instance_id is not None or caller.version < MEMBER_ID_REQUIRED_SINCE:
            return self._add(group, new_id, request, protocols, caller, reply)
        group.await_id(new_id)
        self._rebalancer.timers.set(
            session_key(group, new_id),
            request.session_timeout_ms,
            partial(self._rebalancer.session_over, group, new_id),
        )
        reply(join_error(ErrorCode.MEMBER_ID_REQUIRED, new_id))
        return NOTHING_TO_WRITE

    def _add(
        self,
        group: ClassicGroup,
        member_id: str,
        request: JoinGroupRequest,
        protocols: Protocols,
        caller: Caller,
        reply: JoinReply,
    ) -> Decision:
        member = Member(
            member_id,
            group_instance_id=request.group_instance_id,
            client_id=caller.client_id or "",
            client_host=caller.client_host,
            rebalance_timeout_ms=_rebalance_timeout_ms(request, caller),
            session_timeout_ms=request.session_timeout_ms,
            protocols=protocols,
        )
        member.is_new = True
        if group.state is GroupState.PREPARING and group.previous_state is GroupState.EMPTY:
            group.has_new_member = True
        group.add(member, request.protocol_type)
        group.await_join(member, reply)
        # The coordinator does not notice when a client gives up a long join. Without a limit its retries would add up.
        self._rebalancer.keep_alive(group, member, self._rebalancer.config.new_member_join_timeout_ms)
        records = self._rebalancer.prepare_or_complete(group, f"member {member_id} joins; {_reason(request)}")
        return self._rebalancer.unawaited(group, records)

    # --- static members that return

    def _replace(
        self,
        group: ClassicGroup,
        old_id: str,
        new_id: str,
        request: JoinGroupRequest,
        protocols: Protocols,
        caller: Caller,
        reply: JoinReply,
    ) -> Decision:
        old_leader = group.leader_id
        self._rebalancer.timers.cancel(session_key(group, old_id))
        member = group.replace_static(old_id, new_id)
        group.update(member, protocols, _rebalance_timeout_ms(request, caller), request.session_timeout_ms)
        group.await_join(member, reply)
        self._rebalancer.keep_alive(group, member)
        if group.state is GroupState.STABLE and group.select_protocol() == group.protocol:
            # The place and assignment do not change, so no rebalance is needed. The new id must be in the log before
            # the reply.
            assignments = {each.member_id: each.assignment for each in group.members.values()}
            written = partial(self._replaced, group, new_id, group.generation, caller.version, old_leader)
            return Decision([group_record(group.group_id, group.to_stored(assignments))], written)
        # Once the joins are answered, the leader assigns to the old id, so another rebalance is needed.
        reason = f"static member {new_id} replaces {old_id}; {_reason(request)}"
        return self._rebalancer.unawaited(group, self._rebalancer.prepare_or_complete(group, reason))

    def _replaced(
        self,
        group: ClassicGroup,
        new_id: str,
        generation: int,
        version: int,
        old_leader: str | None,
        error: ErrorCode,
    ) -> None:
        """Replies once the new id is in the log. If a rebalance has started meanwhile, the join counts for that
        rebalance. If another process has taken over the static id meanwhile, this one is fenced, and gets no response
        here."""
        member = group.members.get(new_id)
        if member is None or group.state is not GroupState.STABLE or group.generation != generation:
            return
        self._rebalancer.keep_alive(group, member)
        if error is not ErrorCode.NONE:
            group.answer_join(member, join_error(error))
            return
        is_leader = member.member_id == group.leader_id
        if version >= SKIP_ASSIGNMENT_SINCE:
            response = group.joined(member.member_id, with_members=is_leader, skip_assignment=is_leader)
        else:
            # Older clients compute a new assignment if the leader has their own id. So they get the old leader's id.
            response = group.joined(member.member_id, with_members=False)
            response.leader = old_leader or ""
        group.answer_join(member, response)

    # --- existing members

    def _rejoin(
        self,
        group: ClassicGroup,
        member: Member,
        request: JoinGroupRequest,
        protocols: Protocols,
        caller: Caller,
        reply: JoinReply,
    ) -> Decision:
        if group.state is GroupState.EMPTY:
            reply(join_error(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id))
            return NOTHING_TO_WRITE
        is_leader = member.member_id == group.leader_id
        if member.protocols == protocols:
            if group.state is GroupState.COMPLETING:
                reply(group.joined(member.member_id, with_members=is_leader))  # the first response may be lost
                return NOTHING_TO_WRITE
            if group.state is GroupState.STABLE and not is_leader:
                reply(group.joined(member.member_id, with_members=False))  # nothing has changed: SyncGroup comes next
                return NOTHING_TO_WRITE
        # A leader that rejoins a stable group has seen a change that members do not send, such as new partitions.
        group.update(member, protocols, _rebalance_timeout_ms(request, caller), request.session_timeout_ms)
        group.await_join(member, reply)
        reason = f"member {member.member_id} rejoins; {_reason(request)}"
        return self._rebalancer.unawaited(group, self._rebalancer.prepare_or_complete(group, reason))

    def _uuid(self) -> str:
        """A random UUID of version 4: Kafka's member ids end in one."""
        raw = bytearray(self._randomness.bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        text = raw.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _rebalance_timeout_ms(request: JoinGroupRequest, caller: Caller) -> int:
    return request.session_timeout_ms if caller.version == 0 else request.rebalance_timeout_ms


def _reason(request: JoinGroupRequest) -> str:
    return f"client reason: {request.reason or 'not provided'}"
