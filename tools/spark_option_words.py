"""What each option of `format("chronik")` means, for docs/reference/spark-options.md. A missing one fails a test."""

from __future__ import annotations

from typing import Final

BOTH: Final = {
    "kafka.bootstrap.servers": "required: brokers as `host:port,host:port`",
    "kafka.security.protocol": "`PLAINTEXT` (default), `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`",
    "kafka.client.id": "name for quotas and logs of the brokers; default: `chronik-spark`",
    "commandConfig": "a properties file with the keys for TLS and logins, without `kafka.`; instead of those options",
}
SOURCE: Final = BOTH | {
    "subscribe": "topics, with commas between them",
    "subscribePattern": "a regular expression for names of topics",
    "assign": 'partitions as JSON: `{"orders":[0,1]}`',
    "startingOffsets": "`latest` (default of streams), `earliest` (default of batches), `group`, or JSON by partition",
    "startingOffsetsByTimestamp": "JSON with milliseconds by partition",
    "startingTimestamp": "milliseconds, for all partitions",
    "startingOffsetsByTimestampStrategy": "if no record is that late: `error` (default) or `latest`",
    "endingOffsets": "batches only: `latest` (default), or JSON by partition",
    "endingOffsetsByTimestamp": "batches only: JSON with milliseconds by partition",
    "endingTimestamp": "batches only: milliseconds, for all partitions",
    "maxOffsetsPerTrigger": "at most this many offsets per batch",
    "minOffsetsPerTrigger": "wait until there are this many offsets",
    "maxTriggerDelay": "but no longer than this; default: `15m`",
    "failOnDataLoss": "`true` (default): stop if records are gone that were not read; `false`: continue after them",
    "minPartitions": "at least this many tasks; without it, partitions with up to 2,000 records in all share one",
    "maxRecordsPerPartition": "split so that a task reads at most this many records",
    "groupIdPrefix": "prefix of the group that shows the lag of the query; default: `spark`",
    "includeHeaders": "`true` adds the column `headers`; default: `false`",
    "kafkaConsumer.pollTimeoutMs": "time that a read may take; default: 120000",
    "fetchOffset.numRetries": "accepted without effect: requests are repeated by time",
    "fetchOffset.retryIntervalMs": "accepted without effect",
    "kafka.group.id": "name of the group that shows the lag of the query",
    "kafka.isolation.level": "`read_committed` (default) or `read_uncommitted`",
    "kafka.max.partition.fetch.bytes": "size of one fetch; default: 4 MiB",
    "kafka.fetch.max.bytes": "the same; the smaller of both counts",
}
SINK: Final = BOTH | {
    "topic": "the topic of all rows; without it, the column `topic` names one for each row",
    "exactlyOnce": "`true`: each batch of a streaming query appears once; default: `false`",
    "onTooLarge": "`fail` (default), or `dlq`: a record that is too large is noted in `TOPIC.dlq`",
    "includeHeaders": "accepted without effect: headers are written if the column `headers` exists",
    "checkpointLocation": "Spark's own: where a streaming query stores its progress",
    "queryName": "Spark's own: the name of a streaming query",
    "path": "Spark's own; has no effect",
    "kafka.compression.type": "`none` (default), `gzip`, `snappy`, `lz4` or `zstd`",
    "kafka.max.request.size": "size of the largest record; default: 1048576",
    "kafka.delivery.timeout.ms": "how long records and requests are sent again; default: 120000",
    "kafka.transaction.timeout.ms": "with `exactlyOnce`: how long a batch may take; default: 900000",
}
