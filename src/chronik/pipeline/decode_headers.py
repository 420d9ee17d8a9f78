"""Decodes headers of many records into one Arrow column: array<struct<key: string, value: binary>>.

Processes the first header of every record, then the second of those that have two, and so on: as many steps as the
record with the most headers has. As in Spark's own Kafka source, a record without headers has null instead of an empty
array, and keys that are not UTF-8 get replacement characters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from chronik.pipeline.columns import HEADER_TYPE, HEADERS_TYPE
from chronik.pipeline.gathering import gather
from chronik.pipeline.varint_arrays import BadVarint, read_lengths, read_varints
from chronik.wire.records import HEADER_BYTES_OTHERWISE_MIN, HEADERS_OF_ANY_SIZE_MAX

if TYPE_CHECKING:
    from chronik.pipeline.varint_arrays import Bytes, Ints


def header_column(data: Bytes, counts: Ints, at: Ints, end: Ints) -> pa.Array:
    """`at` is the position of a record's header count, `end` the end of the record. Raises BadVarint."""
    _, place = read_varints(data, at)
    _require_room(counts, end - place)
    list_offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=list_offsets[1:])
    total = int(list_offsets[-1])
    key_at, key_length = np.empty(total, np.int64), np.empty(total, np.int64)
    value_at, value_length = np.empty(total, np.int64), np.empty(total, np.int64)
    value_is_null = np.zeros(total, np.bool_)
    going = np.flatnonzero(counts)
    place = place[going]
    index = 0
    while len(going):
        slot = list_offsets[going] + index
        key_length[slot], is_null, key_at[slot] = read_lengths(data, place)
        if is_null is not None:
            raise BadVarint
        value_length[slot], is_null, value_at[slot] = read_lengths(data, key_at[slot] + key_length[slot])
        if is_null is not None:
            value_is_null[slot] = is_null
        place = value_at[slot] + value_length[slot]
        index += 1
        is_last = counts[going] == index
        if (place[is_last] != end[going[is_last]]).any() or (place > end[going]).any():
            raise BadVarint
        going, place = going[~is_last], place[~is_last]
    keys = _texts(gather(data, key_at, key_length, None))
    values = gather(data, value_at, value_length, value_is_null)
    headers = pa.StructArray.from_arrays([keys, values], fields=list(HEADER_TYPE))
    has_headers = pa.py_buffer(np.packbits(counts > 0, bitorder="little"))
    buffers = [has_headers, pa.py_buffer(list_offsets)]
    return pa.Array.from_buffers(HEADERS_TYPE, len(counts), buffers, children=[headers])


def _require_room(counts: Ints, left: Ints) -> None:
    """The bounds of `wire.records`: applied here before memory is allocated."""
    most = HEADERS_OF_ANY_SIZE_MAX + left // HEADER_BYTES_OTHERWISE_MIN
    if ((counts < 0) | (counts * 2 > left) | (counts > most)).any():
        raise BadVarint


def _texts(keys: pa.Array) -> pa.Array:
    texts = keys.view(pa.string())
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
    return texts
