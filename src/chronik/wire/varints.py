"""Variable-length integers of record batches: seven bits a byte, low bits first, sign folded in by zigzag.

    0 -> 00    -1 -> 01    1 -> 02    -64 -> 7f    64 -> 80 01

Readers take bytes and a position and return the value with the position after it. The end of the data raises
IndexError, because only the caller knows what was being read; any other error is a ValueError. `records` inlines the
one- and two-byte cases, and calls these functions for the rest.
"""

from __future__ import annotations

from chronik.wire.errors import Unencodable

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
VARINT_BYTES_MAX, VARLONG_BYTES_MAX = 5, 10

# Lengths and deltas of real records are small, so their encodings are cached. The bound keeps the cache under 2 MiB.
_CACHED_BELOW = 8192
_cache: dict[int, bytes] = {}


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag int32."""
    raw, at = _read_raw(data, at, VARINT_BYTES_MAX)
    if raw >> 32:
        raise ValueError("a varint does not fit 32 bits")
    return (raw >> 1) ^ -(raw & 1), at


def read_varlong(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag int64."""
    raw, at = _read_raw(data, at, VARLONG_BYTES_MAX)
    if raw >> 64:
        raise ValueError("a varlong does not fit 64 bits")
    return (raw >> 1) ^ -(raw & 1), at


def _read_raw(data: bytes, at: int, bytes_max: int) -> tuple[int, int]:
    raw = shift = 0
    for position in range(at, at + bytes_max):
        byte = data[position]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw, position + 1
        shift += 7
    raise ValueError(f"a variable-length integer goes on after {bytes_max} bytes")


def encode_varint(value: int) -> bytes:
    """An int32 or int64 as zigzag: both have the same encoding, so one function is enough."""
    encoded = _cache.get(value)
    if encoded is None:
        encoded = _encode(value)
        if -_CACHED_BELOW < value < _CACHED_BELOW:
            _cache[value] = encoded
    return encoded


def _encode(value: int) -> bytes:
    if not INT64_MIN <= value <= INT64_MAX:
        raise Unencodable(f"{value} does not fit 64 bits")
    raw = value << 1 if value >= 0 else (-value << 1) - 1
    encoded = bytearray()
    while raw > 0x7F:
        encoded.append(raw & 0x7F | 0x80)
        raw >>= 7
    encoded.append(raw)
    return bytes(encoded)
