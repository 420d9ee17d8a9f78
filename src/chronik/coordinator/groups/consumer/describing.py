"""ConsumerGroupDescribe: describes a consumer group for operators. Read-only."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from chronik.coordinator.groups.consumer.group import ConsumerGroup
from chronik.coordinator.groups.consumer.member import NO_TARGET, Member, Target
from chronik.coordinator.groups.consumer.protocol import ConsumerProtocol
from chronik.coordinator.groups.consumer.topics import Topics
from chronik.coordinator.groups.group import Group
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.consumer_group_describe import Assignment, DescribedGroup, TopicPartitions
from chronik.wire.messages.consumer_group_describe import Member as DescribedMember

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1  # member types


def describe_group(group_id: str, group: Group | None, consumer: ConsumerProtocol) -> DescribedGroup:
    if type(group) is not ConsumerGroup:
        what = "does not exist" if group is None else "is no consumer group"
        return not_described(group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id} {what}")
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor() or consumer.config.consumer_assignors[0],
        members=[
            _member(each, group.targets.get(each.member_id, NO_TARGET), consumer.topics)
            for each in group.members.values()
        ],
    )


def not_described(group_id: str, error: ErrorCode, message: str | None = None) -> DescribedGroup:
    return DescribedGroup(
        error_code=error,
        error_message=message or error.message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


def _member(member: Member, target: Target, topics: Topics) -> DescribedMember:
    """A member is responsible for partitions that it must revoke until it has revoked them."""
    held = {
        topic_id: {*member.assigned.get(topic_id, ()), *member.revoking.get(topic_id, ())}
        for topic_id in member.assigned.keys() | member.revoking.keys()
    }
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(held, topics),
        target_assignment=_assignment(target, topics),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def _assignment(partitions: Mapping[bytes, Collection[int]], topics: Topics) -> Assignment:
    """Omits deleted topics."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(parts))
            for topic_id, parts in sorted(partitions.items())
            if (name := topics.name_of(topic_id)) is not None
        ]
    )
