"""Takes pieces of one buffer as an Arrow array, without a Python loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from chronik.pipeline.varint_arrays import Bytes, Ints, Mask


def gather(data: Bytes, start: Ints, length: Ints, is_null: Mask | None, chosen: Mask | None = None) -> pa.Array:
    """Pieces of `data` with these starts and lengths, in ascending order, as one binary array.

    The whole buffer is presented to Arrow as alternating wanted and unwanted pieces; Arrow then takes every other one,
    one memcpy each, in C++.
    """
    start, length = chosen_of(chosen, start), chosen_of(chosen, length)
    count = len(start)
    if is_null is not None:
        is_null = chosen_of(chosen, is_null)
        if is_null.all():
            return pa.nulls(count, pa.binary())
    if count == 0:
        return pa.array([], pa.binary())
    borders = np.empty(2 * count, np.int32)
    borders[0::2] = start
    borders[1::2] = start + length
    in_turn = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(borders), pa.py_buffer(data)])
    wanted = np.arange(0, 2 * count, 2, dtype=np.int32)
    return in_turn.take(pa.array(wanted, mask=is_null))


def chosen_of(chosen: Mask | None, values: Any) -> Any:
    """The chosen values; all of them if `chosen` is None."""
    return values if chosen is None else values[chosen]
