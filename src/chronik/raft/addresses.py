"""Addresses of the members, stored in every snapshot next to the state machine's bytes and changed by log entries.

A node that joins, or returns after a long time, finds its peers here instead of in a configuration file that may be
outdated.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from chronik.raft.errors import MalformedMessage


class Address(NamedTuple):
    host: str
    port: int

    def encode(self) -> bytes:
        return _PORT.pack(self.port) + self.host.encode()

    @classmethod
    def decode(cls, data: bytes) -> Address:
        return cls(data[_PORT.size :].decode(), _PORT.unpack_from(data)[0])

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


Book = dict[int, Address]

_PORT = struct.Struct(">H")
_HEAD = struct.Struct(">BH?")  # format, address count, whether state follows
_ADDRESS = struct.Struct(">QH")
_FORMAT = 1


def encode_image(book: Mapping[int, Address], state: bytes | None) -> bytes:
    """The data of a snapshot. Without state: a quorum that was just founded, whose machine has no state yet."""
    parts = [_HEAD.pack(_FORMAT, len(book), state is not None)]
    for node_id, address in sorted(book.items()):
        packed = address.encode()
        parts += (_ADDRESS.pack(node_id, len(packed)), packed)
    return b"".join(parts) + (state or b"")


def decode_image(data: bytes) -> tuple[Book, bytes | None]:
    book: Book = {}
    try:
        version, count, has_state = _HEAD.unpack_from(data)
        if version != _FORMAT:
            raise ValueError(f"format {version} is newer than this node, upgrade it")
        at = _HEAD.size
        for _ in range(count):
            node_id, size_bytes = _ADDRESS.unpack_from(data, at)
            at += _ADDRESS.size
            book[node_id] = Address.decode(data[at : at + size_bytes])
            at += size_bytes
    except (struct.error, ValueError) as error:
        raise MalformedMessage(f"snapshot of {len(data)} bytes: {error}") from error
    return book, data[at:] if has_state else None
