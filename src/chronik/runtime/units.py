"""Units of time and size. A name counts in the unit that it ends with: `HOUR_MS` is in milliseconds."""

from __future__ import annotations

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

OCTAVES = 32  # of durations that are counted by powers of two of a microsecond; the last is of half an hour and more

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
