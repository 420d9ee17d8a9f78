"""Frames between the nodes of a quorum, and the hello that opens a connection. Bytes in, frames out; no I/O.

A frame is its size, a CRC-32 of its body, the body. Whoever connects says hello first: magic, format, its id, the id it
looks for, the cluster's. Whoever accepts says the same back, so both know whom they talk to before a message flows. A
node that belongs to no cluster yet says so by an empty id.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from chronik.raft.errors import MalformedMessage

_FRAME = struct.Struct(">II")  # body size, CRC
_HELLO = struct.Struct(">4sBQQ")  # magic, format, sender, wanted; the cluster's id follows
MAGIC = b"CRQ1"
FORMAT = 1
NOTE = b"N"  # first byte of a body that is the layer above's; that of a message is its format

MIB = 1 << 20
HELLO_BYTES_MAX = 512  # a stranger may not cost more
FRAME_BYTES_MAX = 256 * MIB  # a snapshot is one frame


def frame(body: bytes) -> bytes:
    return _FRAME.pack(len(body), zlib.crc32(body)) + body


class FrameReader:
    """Raise `bytes_max` once the peer has said who it is."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._unread = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The frames that are whole by now. Raises MalformedMessage; nothing behind that is to be trusted."""
        self._unread += data
        while len(self._unread) >= _FRAME.size:
            size_bytes, crc = _FRAME.unpack_from(self._unread)
            if size_bytes > self.bytes_max:
                raise MalformedMessage(f"a frame of {size_bytes} bytes, {self.bytes_max} are allowed here")
            end = _FRAME.size + size_bytes
            if len(self._unread) < end:
                return
            body = bytes(memoryview(self._unread)[_FRAME.size : end])
            del self._unread[:end]
            if zlib.crc32(body) != crc:
                raise MalformedMessage("a frame with a wrong checksum")
            yield body


class Hello(NamedTuple):
    sender: int
    wanted: int
    cluster_id: str

    def encode(self) -> bytes:
        return _HELLO.pack(MAGIC, FORMAT, self.sender, self.wanted) + self.cluster_id.encode()

    @classmethod
    def decode(cls, body: bytes) -> Hello:
        try:
            magic, version, sender, wanted = _HELLO.unpack_from(body)
            if magic != MAGIC:
                raise ValueError("no node of a quorum")
            if version != FORMAT:
                raise ValueError(f"format {version}, this node speaks {FORMAT}: upgrade the older one")
            return cls(sender, wanted, body[_HELLO.size :].decode())
        except (struct.error, ValueError) as error:
            raise MalformedMessage(f"no hello: {error}") from error

    def is_of_another_cluster(self, own: Hello) -> bool:
        return bool(self.cluster_id and own.cluster_id) and self.cluster_id != own.cluster_id

    def check_answer_to(self, own: Hello) -> None:
        """Raises MalformedMessage unless this is the node that `own` is for, in the same cluster."""
        if self.is_of_another_cluster(own):
            raise MalformedMessage(f"it belongs to cluster {self.cluster_id!r}, this node to {own.cluster_id!r}")
        if self.wanted != own.sender:
            raise MalformedMessage(f"it looks for node {self.wanted}, this is node {own.sender}")
        if self.sender in (0, own.sender) or (own.wanted and self.sender != own.wanted):
            raise MalformedMessage(f"it says it is node {self.sender}")
