"""Isolation levels of Fetch, ListOffsets and consumers, by Kafka's numbers."""

from __future__ import annotations

READ_UNCOMMITTED = 0  # everything below the high watermark
READ_COMMITTED = 1  # everything below the last stable offset, without aborted transactions
