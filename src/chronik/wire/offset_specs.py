"""Timestamps of ListOffsets with a special meaning, by Kafka's numbers. Others are milliseconds."""

from __future__ import annotations

LATEST = -1  # the end: the high watermark, or the last stable offset
EARLIEST = -2  # the log start offset
MAX_TIMESTAMP = -3  # the record with the highest timestamp
EARLIEST_LOCAL = -4  # the first offset that is not only in tiered storage
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
