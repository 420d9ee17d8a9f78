"""ShareGroupDescribe: a share group as operators see it. Never decides."""

from __future__ import annotations

from typing import Final

from chronik.coordinator.groups.consumer.topics import Topics
from chronik.coordinator.groups.group import Group
from chronik.coordinator.groups.share.group import ShareGroup
from chronik.coordinator.groups.share.member import Member
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.share_group_describe import Assignment, DescribedGroup, TopicPartitions
from chronik.wire.messages.share_group_describe import Member as DescribedMember

ASSIGNOR: Final = "simple"


def describe_group(group_id: str, group: Group | None, topics: Topics) -> DescribedGroup:
    if type(group) is not ShareGroup:
        what = "does not exist" if group is None else "is not a share group"
        return not_described(group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id} {what}")
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=ASSIGNOR,
        members=[_member(each, topics) for each in group.members.values()],
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


def _member(member: Member, topics: Topics) -> DescribedMember:
    assigned = [
        TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(parts))
        for topic_id, parts in sorted(member.assigned.items())
        if (name := topics.name_of(topic_id)) is not None
    ]
    return DescribedMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=Assignment(topic_partitions=assigned),
    )
