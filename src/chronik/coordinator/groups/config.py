"""Settings of group coordinators. The defaults are the catalogue's."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from chronik.catalogue.defaults import of_broker
from chronik.coordinator.groups.share.settings import ShareGroupsConfig
from chronik.coordinator.groups.streams.settings import StreamsGroupsConfig
from chronik.runtime.units import MINUTE_MS


class MigrationPolicy(StrEnum):
    """Whether a group with members may change between the classic and the consumer protocol."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def may_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def may_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True)
class GroupsConfig:
    session_timeout_ms_min: int = of_broker("group.min.session.timeout.ms")
    session_timeout_ms_max: int = of_broker("group.max.session.timeout.ms")
    size_max: int = of_broker("group.max.size")
    initial_rebalance_delay_ms: int = of_broker("group.initial.rebalance.delay.ms")
    offset_metadata_chars_max: int = of_broker("offset.metadata.max.bytes")  # in characters, as in Kafka
    consumer_session_timeout_ms: int = of_broker("group.consumer.session.timeout.ms")
    consumer_session_limits: tuple[int, int] = (
        of_broker("group.consumer.min.session.timeout.ms"),
        of_broker("group.consumer.max.session.timeout.ms"),
    )
    consumer_heartbeat_interval_ms: int = of_broker("group.consumer.heartbeat.interval.ms")
    consumer_heartbeat_limits: tuple[int, int] = (
        of_broker("group.consumer.min.heartbeat.interval.ms"),
        of_broker("group.consumer.max.heartbeat.interval.ms"),
    )
    consumer_assignment_interval_ms: int = of_broker("group.consumer.assignment.interval.ms")
    consumer_assignment_limits: tuple[int, int] = (
        of_broker("group.consumer.min.assignment.interval.ms"),
        of_broker("group.consumer.max.assignment.interval.ms"),
    )
    consumer_size_max: int = of_broker("group.consumer.max.size")
    consumer_assignors: tuple[str, ...] = ("uniform", "range")  # the first is the default
    consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    share: ShareGroupsConfig = field(default_factory=ShareGroupsConfig)
    streams: StreamsGroupsConfig = field(default_factory=StreamsGroupsConfig)
    offsets_retention_ms: int = of_broker("offsets.retention.minutes") * MINUTE_MS
    offset_commit_timeout_ms: int = of_broker("offsets.commit.timeout.ms")
    # A member without an id cannot send heartbeats, so its first join has a deadline. Not configurable.
    new_member_join_timeout_ms: int = 5 * MINUTE_MS
