"""The settings of one consumer group: the broker's, unless the group has its own configs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from chronik.coordinator.groups.config import GroupsConfig
from chronik.metadata.image import Image, ResourceType

ALL_BROKERS: Final = ""  # the resource name of the default for all brokers
# The only one of these keys that can change at run time.
ASSIGNMENT_INTERVAL: Final = "group.consumer.assignment.interval.ms"


class ConsumerGroupSettings(NamedTuple):
    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def settings_of(group_id: str, image: Image, config: GroupsConfig) -> ConsumerGroupSettings:
    """The group's settings. Values set by an operator are limited to the broker's current bounds."""
    own = image.config(ResourceType.GROUP, group_id)
    of_all = image.config(ResourceType.BROKER, ALL_BROKERS)
    assignment_interval_ms = int(of_all.get(ASSIGNMENT_INTERVAL, config.consumer_assignment_interval_ms))
    if not own:
        return ConsumerGroupSettings(
            config.consumer_session_timeout_ms, config.consumer_heartbeat_interval_ms, assignment_interval_ms
        )
    return ConsumerGroupSettings(
        _within(own, "consumer.session.timeout.ms", config.consumer_session_timeout_ms, config.consumer_session_limits),
        _within(
            own,
            "consumer.heartbeat.interval.ms",
            config.consumer_heartbeat_interval_ms,
            config.consumer_heartbeat_limits,
        ),
        _within(
            own,
            "consumer.assignment.interval.ms",
            assignment_interval_ms,
            config.consumer_assignment_limits,
        ),
    )


def _within(own: Mapping[str, str], key: str, default: int, limits: tuple[int, int]) -> int:
    value = own.get(key)
    return default if value is None else min(max(int(value), limits[0]), limits[1])
