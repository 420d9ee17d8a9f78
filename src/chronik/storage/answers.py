"""What an append is given besides its batches, and the results of an append and of a read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from chronik.wire.batches import BatchView

Verify = Callable[[BatchView], None]  # raises why a batch must not be appended


class Appended(NamedTuple):
    first_offset: int
    last_offset: int
    append_time_ms: int  # -1 unless the topic has LogAppendTime, or it is a duplicate: then the time of the first
    is_duplicate: bool  # an idempotent producer sent it again: nothing was written, the offsets are the first ones


class LogRead(NamedTuple):
    """Whole batches. The first may start before the asked offset, which then lies inside it, as Kafka has it too."""

    buffers: list[Any]  # of bytes in memory; or Unread, for who asked for what is to be sent
    size_bytes: int
    next_offset: int  # where to go on; the asked offset if nothing was read
