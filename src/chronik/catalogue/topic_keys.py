"""Every topic-level key of Kafka 4.3 and of Chronik: the broker keys that give its default, and its description.

A key with synonyms takes its type, default and limits from them: the broker's default is the topic's default. Nothing
here acts on a value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from chronik.catalogue.definitions import Definition, Synonym
from chronik.catalogue.resource_keys import inherits, own
from chronik.runtime.units import HOUR_MS, MINUTE_MS

LONG_MAX, INT_MAX = 2**63 - 1, 2**31 - 1
_throttled = re.compile(r"[0-9]+:[0-9]+", re.ASCII)


def _throttled_replicas(values: Sequence[str]) -> str | None:
    if values in ((), ("*",)) or all(_throttled.fullmatch(value) for value in values):
        return None
    return "it must be * or a list of partition:broker pairs"


def _earliest_latest_or_time(value: str) -> str | None:
    is_time = value.isascii() and value.isdecimal() and int(value) <= LONG_MAX
    return None if value in ("earliest", "latest") or is_time else "it must be earliest, latest, or ms since 1970"


TOPIC_CONFIGS: dict[str, Definition] = {
    definition.name: definition
    for definition in (
        inherits(
            "chronik.durability",
            "When acks=all is acknowledged: fsync, after the records are on disk on every in-sync replica; os, "
            "when they are in the page cache of each.",
            "chronik.durability",
        ),
        own(
            "chronik.table.backfill  string  earliest",
            "Where the table of a materialized topic begins: earliest, latest, or a time in ms since 1970.",
            rule=_earliest_latest_or_time,
        ),
        own(
            "chronik.table.decode  string  none  none|json",
            "How values become columns: none keeps their bytes, json takes the fields of an object.",
        ),
        own(
            "chronik.table.enable  boolean  false",
            "Materializes the topic as a table while `chronik materialize` runs; producers never wait for it.",
        ),
        own("chronik.table.format  string  delta  delta", "The format of the table."),
        own(
            "chronik.table.mode  string  append  append|upsert",
            "append has a row for every record, upsert the last of each key, without those whose last value is null.",
        ),
        own(
            "chronik.table.on.error  string  dlq  dlq|suspend|drop",
            "What becomes of a record that cannot be decoded: dlq sends it to the topic NAME.dlq, drop counts it "
            "and goes on, suspend stops the table there.",
        ),
        own("chronik.table.partition.by  list  ''", "Columns that the table is partitioned by."),
        own(
            "chronik.table.target.lag.ms  long  10000  0..",
            "How far the table may be behind: records are gathered for so long before they are written.",
        ),
        inherits(
            "cleanup.policy",
            "What happens to old records: delete drops whole segments by age and size, compact keeps the last "
            "record of each key, both together do both, none keeps everything.",
            "log.cleanup.policy",
        ),
        inherits(
            "compression.gzip.level",
            "Level used when the broker itself compresses with gzip; -1 is the codec's own choice.",
            "compression.gzip.level",
        ),
        inherits(
            "compression.lz4.level", "Level used when the broker itself compresses with lz4.", "compression.lz4.level"
        ),
        inherits(
            "compression.type", "Codec in which batches are stored; producer keeps what was sent.", "compression.type"
        ),
        inherits(
            "compression.zstd.level",
            "Level used when the broker itself compresses with zstd.",
            "compression.zstd.level",
        ),
        inherits(
            "delete.retention.ms",
            "How long compaction keeps tombstones, so that a reader from the start still sees the deletion.",
            "log.cleaner.delete.retention.ms",
        ),
        inherits(
            "file.delete.delay.ms",
            "How long the files of a dropped segment stay on disk.",
            "log.segment.delete.delay.ms",
        ),
        inherits(
            "flush.messages",
            "Forces an fsync after this many records; prefer chronik.durability.",
            "log.flush.interval.messages",
        ),
        inherits(
            "flush.ms",
            "Forces an fsync after this time.",
            "log.flush.interval.ms",
            "log.flush.scheduler.interval.ms",
        ),
        own(
            "follower.replication.throttled.replicas  list  ''",
            "Followers whose replication is throttled, as partition:broker pairs, or * for all.",
            rule=_throttled_replicas,
            is_idle=True,
        ),
        inherits(
            "index.interval.bytes",
            "Distance between entries of the offset index: smaller finds faster and costs more space.",
            "log.index.interval.bytes",
        ),
        own(
            "leader.replication.throttled.replicas  list  ''",
            "Leaders whose replication is throttled, as partition:broker pairs, or * for all.",
            rule=_throttled_replicas,
            is_idle=True,
        ),
        inherits(
            "local.retention.bytes",
            "With tiered storage, bytes kept on the broker's own disk; -2 means retention.bytes.",
            "log.local.retention.bytes",
        ),
        inherits(
            "local.retention.ms",
            "With tiered storage, time kept on the broker's own disk; -2 means retention.ms.",
            "log.local.retention.ms",
        ),
        inherits(
            "max.compaction.lag.ms",
            "Longest time that a record may stay out of reach of compaction.",
            "log.cleaner.max.compaction.lag.ms",
        ),
        inherits(
            "max.message.bytes", "Largest record batch accepted, as it arrives (compressed).", "message.max.bytes"
        ),
        inherits(
            "message.timestamp.after.max.ms",
            "How far a record's timestamp may lie ahead of the broker's clock; further is refused.",
            "log.message.timestamp.after.max.ms",
        ),
        inherits(
            "message.timestamp.before.max.ms",
            "How far a record's timestamp may lie behind the broker's clock; further is refused.",
            "log.message.timestamp.before.max.ms",
        ),
        inherits(
            "message.timestamp.type",
            "Whose time a record carries: the producer's (CreateTime) or the broker's (LogAppendTime).",
            "log.message.timestamp.type",
        ),
        inherits(
            "min.cleanable.dirty.ratio",
            "Share of a compacted log that must be new before it is compacted again.",
            "log.cleaner.min.cleanable.ratio",
        ),
        inherits(
            "min.compaction.lag.ms",
            "Shortest time that a record stays uncompacted.",
            "log.cleaner.min.compaction.lag.ms",
        ),
        inherits(
            "min.insync.replicas",
            "With acks=all, how many replicas must be in sync for a write to be accepted.",
            "min.insync.replicas",
        ),
        inherits("preallocate", "Reserves a segment's space when it is made.", "log.preallocate"),
        own(
            "remote.log.copy.disable  boolean  false",
            "With tiered storage, stops copying to the remote tier.",
            is_idle=True,
        ),
        own(
            "remote.log.delete.on.disable  boolean  false",
            "With tiered storage, deletes the remote data when it is turned off for the topic.",
            is_idle=True,
        ),
        own(
            "remote.storage.enable  boolean  false",
            "Turns tiered storage on for the topic; not available.",
            is_idle=True,
        ),
        inherits(
            "retention.bytes",
            "Bytes a partition may hold before its oldest segments are deleted; -1 is no limit.",
            "log.retention.bytes",
        ),
        inherits(
            "retention.ms",
            "Retention time of records under cleanup.policy=delete; -1 means no limit.",
            Synonym("log.retention.ms", floor=-1),
            Synonym("log.retention.minutes", MINUTE_MS, floor=-1),
            Synonym("log.retention.hours", HOUR_MS, floor=-1),
            allowed="-1..",
        ),
        inherits("segment.bytes", "Size at which a new segment file is begun.", "log.segment.bytes"),
        inherits(
            "segment.index.bytes",
            "Largest size of an index; a full one begins a new segment.",
            "log.index.size.max.bytes",
        ),
        inherits(
            "segment.jitter.ms",
            "At most so much is taken off segment.ms, so that segments do not all roll at once.",
            "log.roll.jitter.ms",
            Synonym("log.roll.jitter.hours", HOUR_MS),
        ),
        inherits(
            "segment.ms",
            "Age at which a new segment is begun even if the old one is not full.",
            "log.roll.ms",
            Synonym("log.roll.hours", HOUR_MS),
        ),
        inherits(
            "unclean.leader.election.enable",
            "Lets a replica that is not in sync lead when no other is left, which loses records.",
            "unclean.leader.election.enable",
        ),
    )
}

# Accepted and applied, but never shown: tests of the storage layer need small segments.
INTERNAL_TOPIC_CONFIGS: dict[str, Definition] = {
    "internal.segment.bytes": own(
        f"internal.segment.bytes  int  -  1..{INT_MAX}", "Takes the place of segment.bytes, with no lower limit."
    )
}
