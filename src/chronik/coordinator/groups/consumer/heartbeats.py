"""ConsumerGroupHeartbeat: identifies the member, reads its state from the request, and decides what changes. Pure:
returns records and a response.

Checks run in Kafka's order: the request, the group, its size, the member, its epoch. Memory, which Kafka does not
check, comes after that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from chronik.coordinator.groups.consumer import records
from chronik.coordinator.groups.consumer.group import ConsumerGroup
from chronik.coordinator.groups.consumer.member import JOINS, LEAVES_FOR_A_WHILE, Member, Owned
from chronik.coordinator.groups.consumer.reconciling import Named, is_part_of
from chronik.coordinator.groups.consumer.requests import refuse
from chronik.coordinator.shard import CoordinatorRecord
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)


class Found(NamedTuple):
    """The member that a request is about, and the id of the static member that it replaces, if any."""

    member: Member
    replaced: str | None = None


def require_room(group: ConsumerGroup, member_id: str, size_max: int) -> None:
    if len(group.members) >= size_max and member_id not in group.members:
        refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, f"the group has {len(group.members)} members, its maximum")


def find_member(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    *,
    joins: bool,
    classic: bool,
    epoch: int = JOINS,
    named: Named = None,
) -> Found:
    """`classic` says that the request uses the classic protocol, which has no member epochs to check."""
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            if not joins:
                refuse(ErrorCode.UNKNOWN_MEMBER_ID, f"member {member_id} is not in group {group.group_id}")
            member = Member(member_id)
        if not classic:
            require_epoch(member, epoch, named)
        return Found(member)
    holder = group.static_member(instance_id)
    if not joins:
        member = require_static(holder, member_id, instance_id)
        if not classic:
            require_epoch(member, epoch, named)
        return Found(member)
    if holder is None:
        return Found(group.members.get(member_id) or Member(member_id))
    if not classic and not holder.uses_classic_protocol and holder.member_epoch != LEAVES_FOR_A_WHILE:
        refuse(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"instance id {instance_id} belongs to member {holder.member_id}, which has not left",
        )
    taken_over = holder._replace(member_id=member_id, member_epoch=JOINS, previous_epoch=JOINS)
    return Found(taken_over, holder.member_id)


def require_static(holder: Member | None, member_id: str, instance_id: str) -> Member:
    if holder is None:
        refuse(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the instance id {instance_id}")
    if holder.member_id != member_id:
        refuse(
            ErrorCode.FENCED_INSTANCE_ID,
            f"instance id {instance_id} belongs to member {holder.member_id} now: another process uses it",
        )
    return holder


def require_epoch(member: Member, epoch: int, named: Named) -> None:
    """A member that missed the response with its new epoch sends the previous one. It may continue if it does not claim
    a partition that it has lost."""
    if epoch in (JOINS, member.member_epoch):
        return
    if epoch < member.member_epoch and epoch == member.previous_epoch and is_part_of(named, member.assigned):
        return
    refuse(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"member epoch {epoch} is not {member.member_epoch}: give up all partitions, and join again with epoch 0",
    )


def replace_member(group: ConsumerGroup, old_id: str, member: Member) -> list[CoordinatorRecord]:
    """Gives a static member's place, with its target and partitions, to its next process."""
    target = group.targets.get(old_id, {})
    return [
        *records.member_removed(group.group_id, old_id),
        records.member_record(group.group_id, member),
        records.target_record(group.group_id, member.member_id, target),
        records.current_record(group.group_id, member),
    ]


def told(member: Member, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str) -> Member:
    """The member as the request describes it. Fields that the request omits keep their values."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return member._replace(
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        topics=member.topics if names is None else frozenset(names),
        regex=member.regex if regex is None else regex,
        client_id=client_id,
        client_host=client_host,
        classic=None,
    )


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the request has all fields, so that the response must, too. A member sends such a request when it joins,
    or when a response may be lost."""
    return (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def brings_no_news(request: ConsumerGroupHeartbeatRequest, member: Member, client_id: str, client_host: str) -> bool:
    """Whether the request only says that the member is alive, as most heartbeats do."""
    return (
        request.member_epoch == member.member_epoch
        and request.rebalance_timeout_ms == -1
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and (request.rack_id is None or request.rack_id == member.rack_id)
        and request.instance_id == member.instance_id
        and client_id == member.client_id
        and client_host == member.client_host
        and not member.regex
        and member.classic is None
    )


def answer(member: Member, interval_ms: int, *, with_assignment: bool) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=Assignment(topic_partitions=_partitions(member.assigned)) if with_assignment else None,
    )


def refused(error: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=error,
        error_message=message or error.message,
        member_epoch=0,
        heartbeat_interval_ms=0,
    )


def left(member_id: str, epoch: int) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=0, error_code=ErrorCode.NONE, member_id=member_id, member_epoch=epoch, heartbeat_interval_ms=0
    )


def _partitions(owned: Owned) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=topic_id, partitions=sorted(parts)) for topic_id, parts in sorted(owned.items())]


def leave_for_a_while(group: ConsumerGroup, member: Member) -> list[CoordinatorRecord]:
    """The partitions stay assigned to the member until its session expires. Its next process has had them since epoch
    0."""
    since_joining = {topic_id: dict.fromkeys(parts, JOINS) for topic_id, parts in member.assigned.items()}
    away = member._replace(member_epoch=LEAVES_FOR_A_WHILE, assigned=since_joining, revoking={})
    return [records.current_record(group.group_id, away)]


def remove_members(group: ConsumerGroup, leaving: Iterable[Member], metadata_hash: int) -> list[CoordinatorRecord]:
    """Removes members that leave or are fenced, and regular expressions that only they subscribe to."""
    gone = list(leaving)
    written = [record for each in gone for record in records.member_removed(group.group_id, each.member_id)]
    written += [records.regex_removed(group.group_id, regex) for regex in regexes_of_none(group, gone)]
    written.append(records.epoch_record(group.group_id, group.epoch + 1, metadata_hash))
    return written


def regexes_of_none(group: ConsumerGroup, leaving: Iterable[Member]) -> list[str]:
    """Regular expressions without subscribers once these members have left."""
    counts: dict[str, int] = {}
    for member in leaving:
        if member.regex:
            counts[member.regex] = counts.get(member.regex, 0) + 1
    return [regex for regex, count in counts.items() if group.regexes.get(regex) == count]
