"""Latencies counted in buckets: constant memory for any duration of the run, with less than one percent error.

A bucket is as wide as 1/128 of its values, so a percentile is off by less than 0.8 %. Values are whole microseconds.

Coordinated omission: a loop that sends its next request only after the last response sends fewer requests while
responses are slow, so slow periods are underrepresented. With a fixed rate, latencies count from when a request was
due, and nothing is missing. Without a rate, `corrected` adds the requests that were not sent while one took longer than
the usual interval.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

SUB_BITS: Final = 7
VALUE_BITS_MAX: Final = 36  # 19 hours in microseconds; longer values are capped
BUCKET_COUNT: Final = (VALUE_BITS_MAX - SUB_BITS + 2) << SUB_BITS
STEPS_MAX: Final = 4096
VALUE_MAX: Final = (1 << VALUE_BITS_MAX) - 1


class Histogram:
    __slots__ = ("_counts", "count")

    def __init__(self) -> None:
        self._counts = [0] * BUCKET_COUNT
        self.count = 0

    def add(self, value: int, times: int = 1) -> None:
        shift = value.bit_length() - SUB_BITS - 1
        if shift <= 0:
            self._counts[max(0, value)] += times
        elif value <= VALUE_MAX:
            self._counts[(shift << SUB_BITS) + (value >> shift)] += times
        else:
            self._counts[-1] += times
        self.count += times

    def merge(self, other: Histogram) -> None:
        self._counts = [mine + theirs for mine, theirs in zip(self._counts, other._counts, strict=True)]
        self.count += other.count

    def percentile(self, percent: float) -> int:
        """The value that this share of all values does not exceed; 0 if there are none."""
        wanted = max(1, -(-self.count * percent // 100))
        seen = 0
        for value, count in self:
            seen += count
            if seen >= wanted:
                return value
        return 0

    @property
    def largest(self) -> int:
        return max((value for value, _ in self), default=0)

    def corrected(self, interval: int) -> Histogram:
        """Adds the values that a loop with this interval would have measured had it not waited for slow responses."""
        full = Histogram()
        for value, count in self:
            full.add(value, count)
            if interval <= 0:
                continue
            # A very long value represents very many missed ones: beyond STEPS_MAX they are added in larger steps.
            step = max(interval, value // STEPS_MAX)
            missed = value - step
            while missed >= interval:
                full.add(missed, count * step // interval)
                missed -= step
        return full

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """(highest value of the bucket, count), in ascending order; skips empty buckets."""
        for index, count in enumerate(self._counts):
            if count:
                yield _highest(index), count


def _highest(index: int) -> int:
    shift = (index >> SUB_BITS) - 1
    if shift <= 0:
        return index
    low = (index - (shift << SUB_BITS)) << shift
    return low + (1 << shift) - 1
