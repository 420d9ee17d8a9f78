"""What a ShareGroupHeartbeat must look like, and the answers to it. Never decides."""

from __future__ import annotations

from typing import Final

from chronik.coordinator.groups.consumer.requests import refuse
from chronik.coordinator.groups.share.group import ShareGroup
from chronik.coordinator.groups.share.member import JOINS, LEAVES, Member
from chronik.metadata.image import Image
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

SHARE_FEATURE: Final = "share.version"
SHARE_GROUPS_SINCE: Final = 1  # the level of the feature that allows them
MEMBER_ID_CHARS_MAX: Final = 36


def is_served(image: Image) -> bool:
    return image.features.get(SHARE_FEATURE, 0) >= SHARE_GROUPS_SINCE


def require_valid(request: ShareGroupHeartbeatRequest) -> None:
    for value, field in (
        (request.member_id, "member_id"),
        (request.group_id, "group_id"),
        (request.rack_id, "rack_id"),
    ):
        if value is not None and not value.strip():
            refuse(ErrorCode.INVALID_REQUEST, f"{field} is empty")
    if len(request.member_id) > MEMBER_ID_CHARS_MAX:
        refuse(ErrorCode.INVALID_REQUEST, f"member_id is longer than {MEMBER_ID_CHARS_MAX} characters")
    if request.member_epoch == JOINS:
        if not request.subscribed_topic_names:
            refuse(ErrorCode.INVALID_REQUEST, "a member that joins must send subscribed_topic_names")
    elif request.member_epoch < LEAVES:
        refuse(ErrorCode.INVALID_REQUEST, f"member epoch {request.member_epoch} has no meaning")


def require_room(group: ShareGroup, member_id: str, size_max: int) -> None:
    if len(group.members) >= size_max and member_id not in group.members:
        refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, f"group {group.group_id} has {size_max} members, as many as it may")


def require_epoch(member: Member, epoch: int) -> None:
    """A member that missed the answer which raised its epoch comes with the one before."""
    if epoch not in (JOINS, member.member_epoch) and (epoch > member.member_epoch or epoch != member.previous_epoch):
        refuse(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"member epoch {epoch} is not {member.member_epoch}: give up all partitions, and join again with epoch 0",
        )


def told(member: Member, request: ShareGroupHeartbeatRequest, client_id: str, client_host: str) -> Member:
    """The member as it describes itself. What the request leaves out stays as it was."""
    names = request.subscribed_topic_names
    return member._replace(
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        topics=member.topics if names is None else frozenset(names),
        client_id=client_id,
        client_host=client_host,
    )


def answer(member: Member, interval_ms: int, *, with_assignment: bool) -> ShareGroupHeartbeatResponse:
    assigned = [
        TopicPartitions(topic_id=topic_id, partitions=sorted(parts))
        for topic_id, parts in sorted(member.assigned.items())
    ]
    return ShareGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=Assignment(topic_partitions=assigned) if with_assignment else None,
    )


def refused(error: ErrorCode, message: str | None = None) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=error,
        error_message=message or error.message,
        member_epoch=0,
        heartbeat_interval_ms=0,
    )


def left(member_id: str) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        member_id=member_id,
        member_epoch=LEAVES,
        heartbeat_interval_ms=0,
    )
