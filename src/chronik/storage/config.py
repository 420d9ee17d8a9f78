"""Settings of a log: Kafka's topic settings under their own names, and settings that a node applies to all its logs.

Values are validated where they are parsed. A log's config can be replaced at any time; it applies from the next append
or maintenance step.
"""

from __future__ import annotations

from dataclasses import dataclass

FOREVER = 2**63 - 1
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class LogConfig:
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    retention_ms: int = 7 * DAY_MS  # -1: for ever
    retention_bytes: int = -1  # -1: without bound
    cleanup_policy: str = "delete"  # "delete", "compact" or "delete,compact", as written
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = FOREVER
    min_cleanable_dirty_ratio: float = 0.5
    max_message_bytes: int = 1_048_588
    message_timestamp_type: str = "CreateTime"  # or "LogAppendTime"
    message_timestamp_before_max_ms: int = FOREVER
    message_timestamp_after_max_ms: int = 3_600_000
    index_interval_bytes: int = 4096
    file_delete_delay_ms: int = 60_000
    durability: str = "fsync"  # "os": acknowledged from the page cache, as Kafka does (chronik.durability)

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy


@dataclass(frozen=True, slots=True)
class LogsConfig:
    journal_bytes_max: int = 64 << 20  # a longer journal is cut: it bounds both the disk it takes and recovery
    unsynced_bytes_max: int = 256 << 20  # more appended since the last checkpoint makes a new one, for recovery's sake
    producer_id_expiration_ms: int = DAY_MS
    compacts: bool = True
    compaction_keys_max: int = 200_000  # keys held at once by a compaction, about 180 bytes each
    stray_retention_ms: int = 7 * DAY_MS  # directories of unknown logs are removed after this time
