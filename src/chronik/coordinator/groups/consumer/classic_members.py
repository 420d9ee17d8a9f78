"""Members of a consumer group that still use the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Their generation is their member epoch. Their JoinGroup does what a ConsumerGroupHeartbeat does for other members: it
lists the partitions that the member has, and moves the member a step towards its target. SyncGroup then returns the
assignment. None of them is a leader, so none assigns. A Heartbeat asks the member to join again when it must revoke or
can get partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from chronik.coordinator.groups.classic.members import (
    UNKNOWN_MEMBER_ID,
    JoinReply,
    SyncReply,
    join_error,
    protocols_of,
    sync_error,
)
from chronik.coordinator.groups.config import MigrationPolicy
from chronik.coordinator.groups.consumer import embedded, heartbeats, migration
from chronik.coordinator.groups.consumer.deciding import Change
from chronik.coordinator.groups.consumer.group import ConsumerGroup
from chronik.coordinator.groups.consumer.member import Member, MemberState
from chronik.coordinator.groups.consumer.protocol import ConsumerProtocol, member_key
from chronik.coordinator.groups.consumer.requests import Refused, refuse
from chronik.coordinator.groups.requests import Caller
from chronik.coordinator.shard import CoordinatorRecord
from chronik.wire.error_codes import ErrorCode
from chronik.wire.errors import Malformed
from chronik.wire.messages.consumer_group_heartbeat import TopicPartitions
from chronik.wire.messages.consumer_group_records import ClassicMemberMetadata, ClassicProtocol
from chronik.wire.messages.heartbeat import HeartbeatRequest
from chronik.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from chronik.wire.messages.leave_group import MemberIdentity, MemberResponse
from chronik.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

LeaveReply = Callable[[list[MemberResponse], ErrorCode], None]

MEMBER_ID_REQUIRED_SINCE = 4  # version of JoinGroup; from this version on, a first join only fetches a member id


class ClassicMembers:
    def __init__(self, consumer: ConsumerProtocol) -> None:
        self._consumer = consumer

    # --- JoinGroup

    def join(self, group: ConsumerGroup, request: JoinGroupRequest, caller: Caller, reply: JoinReply) -> None:
        try:
            self._join(group, request, caller, reply)
        except Refused as fault:
            reply(join_error(fault.error, request.member_id))

    def _join(self, group: ConsumerGroup, request: JoinGroupRequest, caller: Caller, reply: JoinReply) -> None:
        consumer = self._consumer
        if consumer.config.consumer_migration_policy is MigrationPolicy.DISABLED:
            refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "group.consumer.migration.policy=disabled")
        is_new, instance_id = request.member_id == UNKNOWN_MEMBER_ID, request.group_instance_id
        member_id = consumer.new_member_id() if is_new else request.member_id
        heartbeats.require_room(group, member_id, consumer.config.consumer_size_max)
        self._require_protocols(group, request)
        if is_new and instance_id is None and caller.version >= MEMBER_ID_REQUIRED_SINCE:
            reply(join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id))
            return
        joins = is_new or instance_id is None
        found = heartbeats.find_member(group, member_id, instance_id, joins=joins, classic=True)
        before, written = found.member, list[CoordinatorRecord]()
        if found.replaced is not None:
            written += heartbeats.replace_member(group, found.replaced, before)
        settings = consumer.settings(group.group_id)
        change = Change(
            group,
            consumer.topics,
            consumer.config,
            settings,
            consumer.clock.wall_ms(),
            written,
            before,
            found.replaced,
        )
        try:
            subscription = embedded.subscription(request.protocols[0].metadata)
        except Malformed:
            refuse(ErrorCode.UNKNOWN_SERVER_ERROR, "the member's metadata is not of the consumer protocol")
        updated = _told(before, request, subscription, caller)
        consumer.require_memory(group, before, updated)
        names_changed = change.subscribe(updated)
        regex_changed, _ = consumer.regex_changes(group, before, updated, written)
        bump = names_changed or regex_changed
        if bump or group.is_stale:
            change.refresh(bump=bump)
        named = [
            TopicPartitions(topic_id=topic_id, partitions=partitions)
            for name, partitions in subscription.owned.items()
            if (topic_id := consumer.topics.id_of(name)) is not None
        ]
        holder = None if instance_id is None else group.static_member(instance_id)
        if holder is not None and self._is_last_of_its_kind(group, holder):
            self._join_and_downgrade(change, holder, named, bump, request, reply)
            return
        change.assign()
        change.reconcile(named, subscription_changed=bump)

        def done(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                reply(join_error(error, change.member.member_id))
                return
            consumer.timers.cancel(member_key("rejoin", group.group_id, change.member.member_id))
            reply(_joined(change.member))

        if consumer.write(written, done):
            consumer.changed(change)
            consumer.keep_alive(group, change.member)
            self._await_sync(group, change.member)

    def _require_protocols(self, group: ConsumerGroup, request: JoinGroupRequest) -> None:
        """All other classic members must support one of the member's protocols."""
        others = [each.classic for each in group.members.values() if each.classic is not None]
        offered = {name for name, _ in protocols_of(request.protocols)}
        for other in others:
            offered &= {each.name for each in other.supported_protocols}
        if request.protocol_type != embedded.PROTOCOL_TYPE or not offered:
            refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "no protocol of the member is known to all classic members")

    def _is_last_of_its_kind(self, group: ConsumerGroup, holder: Member) -> bool:
        """Whether the static member that is replaced was the last one with the consumer protocol."""
        config = self._consumer.config
        return (
            not holder.uses_classic_protocol
            and config.consumer_migration_policy.may_downgrade
            and len(group.members) <= config.size_max
            and group.classic_count == len(group.members) - 1
        )

    def _join_and_downgrade(
        self,
        change: Change,
        holder: Member,
        named: list[TopicPartitions],
        bump: bool,  # noqa: FBT001
        request: JoinGroupRequest,
        reply: JoinReply,
    ) -> None:
        consumer, group = self._consumer, change.group
        is_late = group.target_epoch < change.epoch
        if not is_late:
            change.reconcile(named, subscription_changed=bump)
        member = change.member
        converted, classic = migration.downgrade(
            group,
            [holder.member_id],
            (member, holder.member_id),
            consumer.memory,
            consumer.topics,
            consumer.clock.wall_ms(),
        )

        def done(error: ErrorCode) -> None:
            reply(join_error(error, member.member_id) if error else _joined(member))

        if consumer.write(converted, done):
            reason = "a static member has changed its protocol" if is_late else None
            consumer.classic.take_over(classic, reason)

    # --- SyncGroup

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest, reply: SyncReply) -> None:
        try:
            member = self._find(group, request.member_id, request.group_instance_id, request.generation_id)
            self._require_same_protocol(member, request)
            if group.target_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED:
                self._await_rejoin(group, member)
                refuse(ErrorCode.REBALANCE_IN_PROGRESS, "there is a newer target")
        except Refused as fault:
            reply(sync_error(fault.error))
            return
        consumer = self._consumer
        consumer.timers.cancel(member_key("resync", group.group_id, member.member_id))
        consumer.keep_alive(group, member)
        assert member.classic is not None
        version = embedded.version_of(member.classic.supported_protocols[0].metadata)
        answer = SyncGroupResponse(
            error_code=ErrorCode.NONE,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=embedded.encoded_assignment(embedded.named(member.assigned, consumer.topics), version),
        )
        consumer.write([], lambda error: reply(sync_error(error) if error else answer))

    def _require_same_protocol(self, member: Member, request: SyncGroupRequest) -> None:
        assert member.classic is not None
        if request.protocol_type not in (None, embedded.PROTOCOL_TYPE) or request.protocol_name not in (
            None,
            member.classic.supported_protocols[0].name,
        ):
            refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the member was told another protocol")

    # --- Heartbeat

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> ErrorCode:
        try:
            member = self._find(group, request.member_id, request.group_instance_id, request.generation_id)
        except Refused as fault:
            return fault.error
        self._consumer.keep_alive(group, member)
        if (
            member.member_epoch < group.target_epoch
            or member.state is MemberState.UNREVOKED
            or (member.state is MemberState.UNRELEASED and not group.waits_for_others(member))
        ):
            self._await_rejoin(group, member)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _find(self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> Member:
        member = heartbeats.find_member(group, member_id, instance_id, joins=False, classic=True).member
        if not member.uses_classic_protocol:
            refuse(ErrorCode.UNKNOWN_MEMBER_ID, f"member {member_id} does not use the classic protocol")
        if member.member_epoch != generation:
            refuse(ErrorCode.ILLEGAL_GENERATION, f"generation {generation} is not {member.member_epoch}")
        return member

    # --- LeaveGroup

    def leave(self, group: ConsumerGroup, leaving: Sequence[MemberIdentity], reply: LeaveReply) -> None:
        """Removes all members that can be identified at once, including those of the consumer protocol, as an operator
        may."""
        gone: dict[str, Member] = {}
        answers = []
        for identity in leaving:
            error = ErrorCode.NONE
            try:
                member = _identified(group, identity)
                gone[member.member_id] = member
            except Refused as fault:
                error = fault.error
            answers.append(
                MemberResponse(
                    member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
                )
            )
        if gone:
            self._consumer.remove(group, list(gone.values()), lambda error: reply(answers, error))
        else:
            reply(answers, ErrorCode.NONE)

    # --- timers

    def _await_rejoin(self, group: ConsumerGroup, member: Member) -> None:
        key = member_key("rejoin", group.group_id, member.member_id)
        if key not in self._consumer.timers:
            reason = "it did not join again within its rebalance time-out"
            over = partial(self._consumer.fence, group.group_id, member.member_id, reason)
            self._consumer.timers.set(key, member.rebalance_timeout_ms, over)

    def _await_sync(self, group: ConsumerGroup, member: Member) -> None:
        reason = "it did not ask for its assignment within its rebalance time-out"
        over = partial(self._consumer.fence, group.group_id, member.member_id, reason)
        key = member_key("resync", group.group_id, member.member_id)
        self._consumer.timers.set(key, member.rebalance_timeout_ms, over)


def _told(member: Member, request: JoinGroupRequest, subscription: embedded.Subscription, caller: Caller) -> Member:
    timeout_ms = request.session_timeout_ms if caller.version == 0 else request.rebalance_timeout_ms
    return member._replace(
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topics=subscription.topics,
        regex="",
        client_id=caller.client_id or "",
        client_host=caller.client_host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=each.name, metadata=each.metadata) for each in request.protocols],
        ),
    )


def _joined(member: Member) -> JoinGroupResponse:
    assert member.classic is not None
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=member.member_epoch,
        protocol_type=embedded.PROTOCOL_TYPE,
        protocol_name=member.classic.supported_protocols[0].name,
        leader="",
        member_id=member.member_id,
        members=[],
    )


def _identified(group: ConsumerGroup, identity: MemberIdentity) -> Member:
    instance_id, member_id = identity.group_instance_id, identity.member_id
    if instance_id is None:
        return heartbeats.find_member(group, member_id, None, joins=False, classic=True).member
    holder = group.static_member(instance_id)
    if holder is not None and member_id == UNKNOWN_MEMBER_ID:
        return holder  # an operator removes a static member by its instance id only
    return heartbeats.require_static(holder, member_id, instance_id)
