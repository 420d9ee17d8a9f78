"""The settings of share groups: the broker's, unless a group has configs of its own.

The coordinator of a group uses the first three, the leaders of its partitions the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from chronik.catalogue.defaults import of_broker
from chronik.metadata.image import Image, ResourceType
from chronik.wire.isolation import READ_COMMITTED, READ_UNCOMMITTED

ALL_BROKERS: Final = ""  # the name of the resource with configs of all brokers
ASSIGNMENT_INTERVAL: Final = "group.share.assignment.interval.ms"  # the one of these keys that changes at run time

_duration = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)
BY_DURATION: Final = "by_duration:"


class ResetStrategy(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"
    BY_DURATION = "by_duration"


class OffsetReset(NamedTuple):
    """Where a share group begins in a partition that it has not read."""

    strategy: ResetStrategy
    duration_ms: int = 0  # BY_DURATION: at the first record that is not older


def _default(key: str) -> int:
    return int(of_broker(f"group.share.{key}"))


def _limits(key: str) -> tuple[int, int]:
    return _default(f"min.{key}"), _default(f"max.{key}")


@dataclass(frozen=True, slots=True)
class ShareGroupsConfig:
    """The broker's settings. Limits are the lowest and the highest value that groups may set for themselves."""

    session_timeout_ms: int = _default("session.timeout.ms")
    session_timeout_limits: tuple[int, int] = _limits("session.timeout.ms")
    heartbeat_interval_ms: int = _default("heartbeat.interval.ms")
    heartbeat_interval_limits: tuple[int, int] = _limits("heartbeat.interval.ms")
    assignment_interval_ms: int = _default("assignment.interval.ms")
    assignment_interval_limits: tuple[int, int] = _limits("assignment.interval.ms")
    size_max: int = _default("max.size")
    delivery_count_limit: int = _default("delivery.count.limit")
    delivery_count_limits: tuple[int, int] = _limits("delivery.count.limit")
    record_lock_duration_ms: int = _default("record.lock.duration.ms")
    record_lock_duration_limits: tuple[int, int] = _limits("record.lock.duration.ms")
    record_locks_max: int = _default("partition.max.record.locks")
    record_locks_limits: tuple[int, int] = _limits("partition.max.record.locks")
    sessions_max: int = _default("max.share.sessions")


class ShareGroupSettings(NamedTuple):
    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    record_lock_duration_ms: int
    delivery_count_limit: int
    record_locks_max: int
    offset_reset: OffsetReset
    isolation_level: int  # of chronik.wire.isolation
    renews_locks: bool  # whether members may keep a record for longer


def settings_of(group_id: str, image: Image, config: ShareGroupsConfig) -> ShareGroupSettings:
    """A value that an operator has set is brought into the broker's limits, which may have changed since."""
    own = image.config(ResourceType.GROUP, group_id)
    of_all = image.config(ResourceType.BROKER, ALL_BROKERS)
    isolation = own.get("share.isolation.level", "read_uncommitted")
    return ShareGroupSettings(
        session_timeout_ms=_within(
            own, "share.session.timeout.ms", config.session_timeout_ms, config.session_timeout_limits
        ),
        heartbeat_interval_ms=_within(
            own, "share.heartbeat.interval.ms", config.heartbeat_interval_ms, config.heartbeat_interval_limits
        ),
        assignment_interval_ms=_within(
            own,
            "share.assignment.interval.ms",
            int(of_all.get(ASSIGNMENT_INTERVAL, config.assignment_interval_ms)),
            config.assignment_interval_limits,
        ),
        record_lock_duration_ms=_within(
            own, "share.record.lock.duration.ms", config.record_lock_duration_ms, config.record_lock_duration_limits
        ),
        delivery_count_limit=_within(
            own, "share.delivery.count.limit", config.delivery_count_limit, config.delivery_count_limits
        ),
        record_locks_max=_within(
            own, "share.partition.max.record.locks", config.record_locks_max, config.record_locks_limits
        ),
        offset_reset=offset_reset(own.get("share.auto.offset.reset", ResetStrategy.LATEST)),
        isolation_level=READ_COMMITTED if isolation == "read_committed" else READ_UNCOMMITTED,
        renews_locks=own.get("share.renew.acknowledge.enable", "true").strip().lower() == "true",
    )


def offset_reset(text: str) -> OffsetReset:
    """The catalogue has checked the text: `earliest`, `latest`, or `by_duration:` with an ISO 8601 duration."""
    if not text.startswith(BY_DURATION):
        return OffsetReset(ResetStrategy(text))
    found = _duration.fullmatch(text.removeprefix(BY_DURATION))
    if found is None:
        return OffsetReset(ResetStrategy.LATEST)
    days, hours, minutes, seconds = (float(found[name] or 0) for name in ("days", "hours", "minutes", "seconds"))
    return OffsetReset(ResetStrategy.BY_DURATION, round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000))


def _within(own: Mapping[str, str], key: str, default: int, limits: tuple[int, int]) -> int:
    value = own.get(key)
    return default if value is None else min(max(int(value), limits[0]), limits[1])
