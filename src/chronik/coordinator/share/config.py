"""The settings of the share coordinator. Defaults are the catalogue's."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.catalogue.defaults import of_broker
from chronik.runtime.units import MINUTE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareCoordinatorConfig:
    updates_per_snapshot: int = of_broker("share.coordinator.snapshot.update.records.per.snapshot")
    write_timeout_ms: int = of_broker("share.coordinator.write.timeout.ms")
    # Kafka has internal keys for these, with the same values. Not settings.
    cold_snapshot_interval_ms: int = 5 * MINUTE_MS
    prune_interval_ms: int = 5 * MINUTE_MS
