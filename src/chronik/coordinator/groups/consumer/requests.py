"""Validates a ConsumerGroupHeartbeat independently of its group, and defines how requests are refused."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NoReturn

from chronik.coordinator.groups.consumer.member import JOINS, LEAVES, LEAVES_FOR_A_WHILE
from chronik.wire.error_codes import ErrorCode
from chronik.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

GROUP_FEATURE: Final = "group.version"
CONSUMER_GROUPS_SINCE: Final = 1  # the level of the feature that allows consumer groups
MEMBER_ID_REQUIRED_SINCE: Final = 1  # from this version on, clients generate their member ids


class Refused(Exception):
    """The request is answered with an error. Nothing is written."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error


def refuse(error: ErrorCode, message: str) -> NoReturn:
    raise Refused(error, message)


def require_valid(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    epoch = request.member_epoch
    if version >= MEMBER_ID_REQUIRED_SINCE or epoch > JOINS or epoch == LEAVES:
        _require_text(request.member_id, "member_id")
    _require_text(request.group_id, "group_id")
    _require_text(request.instance_id, "instance_id")
    _require_text(request.rack_id, "rack_id")
    if epoch == JOINS:
        if request.rebalance_timeout_ms == -1:
            _invalid("a member that joins must send rebalance_timeout_ms")
        if request.topic_partitions is None or request.topic_partitions:
            _invalid("a member that joins must send topic_partitions, as an empty list")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            _invalid("a member that joins must send subscribed_topic_names or subscribed_topic_regex")
    elif epoch == LEAVES_FOR_A_WHILE:
        if request.instance_id is None:
            _invalid("member epoch -2 is for static members: send instance_id")
    elif epoch < LEAVES_FOR_A_WHILE:
        _invalid(f"member epoch {epoch} has no meaning")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        refuse(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"there is no assignor {request.server_assignor!r}: this broker has {', '.join(assignors)}",
        )


def _require_text(value: str | None, field: str) -> None:
    if value is not None and not value.strip():
        _invalid(f"{field} is empty")


def _invalid(message: str) -> NoReturn:
    refuse(ErrorCode.INVALID_REQUEST, message)
