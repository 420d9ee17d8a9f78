"""The partition of an internal topic that holds a group or a transactional id, computed as in Kafka."""

from __future__ import annotations

from functools import lru_cache
from struct import unpack_from

_HASHES_KEPT = 16_384  # every request names its group, and most requests name one of a few


@lru_cache(maxsize=_HASHES_KEPT)
def java_string_hash(text: str) -> int:
    """Java's String.hashCode: s[0]*31^(n-1) + ... + s[n-1] over UTF-16 units, as a signed 32-bit number."""
    raw = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in unpack_from(f">{len(raw) // 2}H", raw):
        value = (value * 31 + unit) & 0xFFFF_FFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(key: str, partition_count: int) -> int:
    value = java_string_hash(key)
    # The lowest number has no positive counterpart in 32 bits; Kafka replaces it by 0.
    return (0 if value == -(1 << 31) else abs(value)) % partition_count
