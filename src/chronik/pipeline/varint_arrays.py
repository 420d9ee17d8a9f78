"""Reads variable-length integers at many positions of one buffer at once, with numpy.

The same encoding as `chronik.wire.varints`, which reads one at a time. Positions beyond the end of the buffer read as
its last byte: the caller checks afterwards, once for all fields of a record, that there were none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from chronik.wire.varints import VARINT_BYTES_MAX, VARLONG_BYTES_MAX

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Ints = NDArray[np.int64]
    Raws = NDArray[np.uint64]
    Mask = NDArray[np.bool_]

CONTINUES: Final = 0x80
SEVEN_BITS: Final = 0x7F


class BadVarint(ValueError):
    """A varint is too long or its value does not fit; the one-by-one reader reports which."""


def read_raw(data: Bytes, at: Ints, bytes_max: int) -> tuple[Raws, Ints]:
    """The integers at these positions, still zigzag-encoded, and the positions after them."""
    first = data.take(at, mode="clip")
    raw = first.astype(np.uint64)
    goes_on: Any = first >= CONTINUES
    if not goes_on.any():
        return raw, at + 1
    second = data.take(at + 1, mode="clip")
    # If a varint has one byte, the second byte belongs to the next field: multiply it by zero.
    raw = (raw & SEVEN_BITS) + second.astype(np.uint64) * (goes_on.astype(np.uint64) << 7)
    after = at + 1 + goes_on
    long = np.flatnonzero(goes_on & (second >= CONTINUES))
    if len(long):
        raw[long], after[long] = _read_long(data, at[long], bytes_max)
    return raw, after


def _read_long(data: Bytes, at: Ints, bytes_max: int) -> tuple[Raws, Ints]:
    raw = np.zeros(len(at), np.uint64)
    after = at + bytes_max
    reading = np.arange(len(at))
    for index in range(bytes_max):
        byte = data.take(at[reading] + index, mode="clip")
        if index == VARLONG_BYTES_MAX - 1 and (byte > 1).any():
            raise BadVarint
        raw[reading] |= (byte & SEVEN_BITS).astype(np.uint64) << np.uint64(7 * index)
        ends = byte < CONTINUES
        after[reading[ends]] = at[reading[ends]] + index + 1
        reading = reading[~ends]
        if not len(reading):
            break
    if len(reading) or (bytes_max == VARINT_BYTES_MAX and (raw >> np.uint64(32)).any()):
        raise BadVarint
    return raw, after


def read_varints(data: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Zigzag int32s."""
    raw, after = read_raw(data, at, VARINT_BYTES_MAX)
    return unfold(raw), after


def read_varlongs(data: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Zigzag int64s."""
    raw, after = read_raw(data, at, VARLONG_BYTES_MAX)
    return unfold(raw), after


def unfold(raw: Raws) -> Ints:
    return (raw >> np.uint64(1)).view(np.int64) ^ -((raw & np.uint64(1)).view(np.int64))


def read_lengths(data: Bytes, at: Ints) -> tuple[Ints, Mask | None, Ints]:
    """Lengths, which of them are null (None: none), and where the bytes start. Null has length 0."""
    raw, after = read_raw(data, at, VARINT_BYTES_MAX)
    length = (raw >> np.uint64(1)).view(np.int64)
    is_null: Mask = (raw & np.uint64(1)).astype(np.bool_)
    if not is_null.any():
        return length, None, after
    length[is_null] = 0  # every negative length means null
    return length, is_null, after
