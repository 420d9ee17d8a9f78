"""Units of time and size. A name's suffix is its unit: `HOUR_MS` is in milliseconds."""

from __future__ import annotations

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
US_PER_MS = 1_000
US_PER_S = 1_000_000
MS_PER_S = 1_000
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

# Durations are counted in buckets by powers of two of a microsecond; the last one is half an hour and more.
OCTAVES = 32

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
