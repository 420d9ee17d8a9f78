"""The settings of group coordination. Defaults are the catalogue's."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.catalogue.defaults import of_broker
from chronik.runtime.units import MINUTE_MS


@dataclass(frozen=True, slots=True)
class GroupsConfig:
    session_timeout_ms_min: int = of_broker("group.min.session.timeout.ms")
    session_timeout_ms_max: int = of_broker("group.max.session.timeout.ms")
    size_max: int = of_broker("group.max.size")
    initial_rebalance_delay_ms: int = of_broker("group.initial.rebalance.delay.ms")
    offset_metadata_chars_max: int = of_broker("offset.metadata.max.bytes")  # Kafka counts characters, and so do we
    offsets_retention_ms: int = of_broker("offsets.retention.minutes") * MINUTE_MS
    offset_commit_timeout_ms: int = of_broker("offsets.commit.timeout.ms")
    # A member that has not got its id yet cannot heartbeat, so its first join has a deadline of its own. Not a setting.
    new_member_join_timeout_ms: int = 5 * MINUTE_MS
