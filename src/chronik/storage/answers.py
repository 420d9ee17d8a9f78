"""The additional inputs of an append, and the results of appends and reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from chronik.wire.batches import BatchView

Verify = Callable[[BatchView], None]  # raises if a batch must not be appended


class Appended(NamedTuple):
    first_offset: int
    last_offset: int
    append_time_ms: int  # -1 unless the topic has LogAppendTime, or it is a duplicate: then the time of the first
    is_duplicate: bool  # an idempotent producer sent it again: nothing was written, the offsets are the first ones


class LogRead(NamedTuple):
    """Whole batches. As in Kafka, the first may start before the requested offset, which is inside it."""

    buffers: list[Any]  # bytes in memory; or Unread, if requested for sending
    size_bytes: int
    next_offset: int  # where to continue; the requested offset if nothing was read
