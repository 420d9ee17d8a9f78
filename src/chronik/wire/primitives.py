"""Kafka's variable-length integers and the bounds of every decoder. Pure functions on memoryviews.

The compiled decoders inline the one-byte case and call these functions for the rest.
"""

from __future__ import annotations

from struct import Struct

ELEMENTS_MAX = 1_000_000  # Kafka 4.4 refuses longer arrays as well
TAGS_MAX = 10_000  # per struct; Kafka 4.4's bound
STRING_BYTES_MAX = 32_767  # the limit of non-compact strings; Java applies it to compact ones too
TAG_COST_BYTES = 192  # a kept unknown tag: tuple, int, bytes and list slot

# A decoder may allocate 16x its input + 1 MiB. Text may grow 4x (one wide character widens all); the rest is for
# objects.
OBJECT_BYTES_PER_WIRE_BYTE = 12
OBJECT_BYTES_FREE = (1 << 20) - (64 << 10)


class Refused(Exception):
    """A bound or rule was violated. Internal to the package: `explain` reports which one, and where."""


def read_varint_rest(buffer: memoryview, at: int, first: int) -> tuple[int, int]:
    """Continues after a first byte with its high bit set: (value, end position). Values are unsigned, 32 bits."""
    value, shift = first & 0x7F, 7
    while True:
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFF_FFFF:
                raise Refused("a varint over 32 bits")
            return value, at
        shift += 7
        if shift > 28:
            raise Refused("a varint over five bytes")


def read_varint(buffer: memoryview, at: int) -> tuple[int, int]:
    byte = buffer[at]
    return (byte, at + 1) if byte < 0x80 else read_varint_rest(buffer, at + 1, byte)


_ONE_BYTE = [bytes([value]) for value in range(0x80)]


def write_varint(value: int) -> bytes:
    """Unsigned, at most 32 bits."""
    if 0 <= value <= 0x7F:
        return _ONE_BYTE[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_MANY: dict[tuple[str, int], Struct] = {}
_SHAPES_MAX = 4096  # formats are cached per length; lengths are external input, so a full cache is cleared


def struct_of_many(code: str, count: int) -> Struct:
    """The struct of `count` equal scalars."""
    try:
        return _MANY[code, count]
    except KeyError:
        if len(_MANY) >= _SHAPES_MAX:
            _MANY.clear()
        made = _MANY[code, count] = Struct(f">{count}{code}")
        return made


class Shapes(dict[tuple[int, ...], object]):
    """Packers of one run of fields with arrays, by the arrays' lengths: one C call packs them all."""

    def __init__(self, pieces: list[str]) -> None:
        super().__init__()
        self.pieces = pieces  # alternates between plain codes and an array's element code

    def __missing__(self, lengths: tuple[int, ...]) -> object:
        if len(self) >= _SHAPES_MAX:
            self.clear()
        text = [">", self.pieces[0]]
        for length, element, plain in zip(lengths, self.pieces[1::2], self.pieces[2::2], strict=True):
            text.append(f"{length}{element}{plain}")
        made = self[lengths] = Struct("".join(text)).pack
        return made
