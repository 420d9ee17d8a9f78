"""The settings of streams groups: the broker's, unless a group has configs of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from chronik.catalogue.defaults import of_broker
from chronik.metadata.image import Image, ResourceType

ALL_BROKERS: Final = ""  # the name of the resource with configs of all brokers
ASSIGNMENT_INTERVAL: Final = "group.streams.assignment.interval.ms"  # the one of these keys that changes at run time


def _default(key: str) -> int:
    return int(of_broker(f"group.streams.{key}"))


def _limits(key: str) -> tuple[int, int]:
    return _default(f"min.{key}"), _default(f"max.{key}")


@dataclass(frozen=True, slots=True)
class StreamsGroupsConfig:
    """The broker's settings. Limits are the lowest and the highest value that groups may set for themselves."""

    session_timeout_ms: int = _default("session.timeout.ms")
    session_timeout_limits: tuple[int, int] = _limits("session.timeout.ms")
    heartbeat_interval_ms: int = _default("heartbeat.interval.ms")
    heartbeat_interval_limits: tuple[int, int] = _limits("heartbeat.interval.ms")
    assignment_interval_ms: int = _default("assignment.interval.ms")
    assignment_interval_limits: tuple[int, int] = _limits("assignment.interval.ms")
    initial_rebalance_delay_ms: int = _default("initial.rebalance.delay.ms")
    standby_replicas: int = _default("num.standby.replicas")
    standby_replicas_max: int = _default("max.standby.replicas")
    size_max: int = _default("max.size")


class StreamsGroupSettings(NamedTuple):
    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    initial_rebalance_delay_ms: int
    standby_replicas: int


def settings_of(group_id: str, image: Image, config: StreamsGroupsConfig) -> StreamsGroupSettings:
    """A value that an operator has set is brought into the broker's limits, which may have changed since."""
    own = image.config(ResourceType.GROUP, group_id)
    of_all = image.config(ResourceType.BROKER, ALL_BROKERS)
    return StreamsGroupSettings(
        session_timeout_ms=_within(
            own, "streams.session.timeout.ms", config.session_timeout_ms, config.session_timeout_limits
        ),
        heartbeat_interval_ms=_within(
            own, "streams.heartbeat.interval.ms", config.heartbeat_interval_ms, config.heartbeat_interval_limits
        ),
        assignment_interval_ms=_within(
            own,
            "streams.assignment.interval.ms",
            int(of_all.get(ASSIGNMENT_INTERVAL, config.assignment_interval_ms)),
            config.assignment_interval_limits,
        ),
        initial_rebalance_delay_ms=int(
            own.get("streams.initial.rebalance.delay.ms", config.initial_rebalance_delay_ms)
        ),
        standby_replicas=_within(
            own, "streams.num.standby.replicas", config.standby_replicas, (0, config.standby_replicas_max)
        ),
    )


def _within(own: Mapping[str, str], key: str, default: int, limits: tuple[int, int]) -> int:
    value = own.get(key)
    return default if value is None else min(max(int(value), limits[0]), limits[1])
