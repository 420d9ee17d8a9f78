"""OTLP metrics as bytes, written independently of the reader: protobuf by its own rules."""

from __future__ import annotations

import struct

DELTA, CUMULATIVE = 1, 2


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def whole(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def part(number: int, data: bytes | str) -> bytes:
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def double(number: int, value: float) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<d", value)


def fixed64(number: int, value: int) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<q", value)


def key_value(key: str, value: str | int | bool | float) -> bytes:
    match value:
        case bool():
            inner = whole(2, int(value))
        case int():
            inner = whole(3, value)
        case float():
            inner = double(4, value)
        case _:
            inner = part(1, value)
    return part(1, key) + part(2, inner)


def point(value: float, **labels: str | int | bool | float) -> bytes:
    """A double as field 4, an int as field 6, between times that nobody reads."""
    number = fixed64(6, value) if isinstance(value, int) else double(4, value)
    return fixed64(2, 1) + fixed64(3, 2) + number + b"".join(part(7, key_value(*each)) for each in labels.items())


def gauge(name: str, *points: bytes) -> bytes:
    return part(1, name) + part(2, "words") + part(5, b"".join(part(1, each) for each in points))


def total(name: str, *points: bytes, temporality: int = DELTA, monotonic: bool = True) -> bytes:
    inner = b"".join(part(1, each) for each in points) + whole(2, temporality) + whole(3, int(monotonic))
    return part(1, name) + part(7, inner)


def histogram(name: str) -> bytes:
    return part(1, name) + part(9, part(1, fixed64(4, 5)))


def metrics_data(*metrics: bytes, **resource: str | int | bool | float) -> bytes:
    described = part(1, b"".join(part(1, key_value(*each)) for each in resource.items()))
    scope = part(1, part(1, "scope")) + b"".join(part(2, each) for each in metrics)
    return part(1, part(2, scope) + described)
