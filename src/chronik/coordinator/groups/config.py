"""The settings of group coordination, by Kafka's names and with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class GroupsConfig:
    session_timeout_ms_min: int = 6_000  # group.min.session.timeout.ms
    session_timeout_ms_max: int = 30 * MINUTE_MS  # group.max.session.timeout.ms
    size_max: int = 2**31 - 1  # group.max.size
    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    offset_metadata_chars_max: int = 4_096  # offset.metadata.max.bytes; Kafka counts characters, and so do we
    offsets_retention_ms: int = 7 * 24 * 60 * MINUTE_MS  # offsets.retention.minutes
    offset_commit_timeout_ms: int = 5_000  # offsets.commit.timeout.ms
    # A member that has not got its id yet cannot heartbeat, so its first join has a deadline of its own. Not a setting.
    new_member_join_timeout_ms: int = 5 * MINUTE_MS
