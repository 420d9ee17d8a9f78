"""Settings of a log: Kafka's topic settings under their own names, and settings that a node applies to all its logs.

Defaults are the catalogue's. Values are validated where they are parsed. A log's config can be replaced at any time; it
applies from the next append or maintenance step.
"""

from __future__ import annotations

from dataclasses import dataclass

from chronik.catalogue.defaults import of_broker, of_topic

FOREVER = 2**63 - 1  # ms

DECOMPRESSED_BYTES_MAX = 64 << 20  # of one batch, when its records are read here


@dataclass(frozen=True, slots=True)
class LogConfig:
    segment_bytes: int = of_topic("segment.bytes")
    segment_ms: int = of_topic("segment.ms")
    retention_ms: int = of_topic("retention.ms")  # -1: forever
    retention_bytes: int = of_topic("retention.bytes")  # -1: without bound
    cleanup_policy: str = ",".join(of_topic("cleanup.policy"))  # "delete", "compact" or "delete,compact", as written
    delete_retention_ms: int = of_topic("delete.retention.ms")
    min_compaction_lag_ms: int = of_topic("min.compaction.lag.ms")
    max_compaction_lag_ms: int = of_topic("max.compaction.lag.ms")
    min_cleanable_dirty_ratio: float = of_topic("min.cleanable.dirty.ratio")
    max_message_bytes: int = of_topic("max.message.bytes")
    message_timestamp_type: str = of_topic("message.timestamp.type")  # "CreateTime" or "LogAppendTime"
    message_timestamp_before_max_ms: int = of_topic("message.timestamp.before.max.ms")
    message_timestamp_after_max_ms: int = of_topic("message.timestamp.after.max.ms")
    index_interval_bytes: int = of_topic("index.interval.bytes")
    durability: str = of_topic("chronik.durability")  # "fsync", or "os": acknowledged from the page cache as in Kafka

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy


@dataclass(frozen=True, slots=True)
class LogsConfig:
    journal_bytes_max: int = 64 << 20  # bounds the journal's disk space and recovery time
    unsynced_bytes_max: int = 256 << 20  # more since the last checkpoint triggers a new one, to bound recovery time
    producer_id_expiration_ms: int = of_broker("producer.id.expiration.ms")
    compacts: bool = of_broker("log.cleaner.enable")
    compaction_keys_max: int = 200_000  # keys held at once by a compaction, about 180 bytes each
    stray_retention_ms: int = of_broker(
        "chronik.stray.retention.ms"
    )  # directories of unknown logs are removed after this time
