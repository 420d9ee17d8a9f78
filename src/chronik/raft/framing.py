"""Frames between quorum nodes, and the hello that opens a connection. Pure: bytes in, frames out.

A frame is a size, a CRC-32 of the body, and the body. The CRC detects corruption; it does not authenticate the sender.
The first frame in each direction is a hello: magic, format, sender id, expected peer id, nonce, cluster id. The cluster
id is empty while a node belongs to no cluster. `greeting` defines the order of the handshake.

The first two bytes of a body name its kind, and each kind has its own size limit, so a peer cannot announce a large
frame of a small kind.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from chronik.raft.errors import MalformedMessage
from chronik.raft.messages import NOBODY, MessageKind
from chronik.runtime.units import KIB, MIB

_FRAME = struct.Struct(">II")  # body size, CRC
_HELLO = struct.Struct(">4sBqq16s")  # magic, format, sender, wanted, nonce; then the cluster id
MAGIC = b"CRQ1"
FORMAT = 2
NONCE_BYTES = 16

# First byte of a body that is not a message. A message starts with its format instead.
NOTE = b"N"  # carries bytes of the layer above
WHO = b"W"  # the sender asks whether a node is a member
MEMBER = b"V"  # the answer: it is a member
ABOUT = struct.Struct(">q")  # the node id that follows WHO and MEMBER

HELLO_BYTES_MAX = 512  # bounds the memory an unauthenticated peer can use
SMALL_BYTES_MAX = 66 * KIB  # any message without entries or snapshot: the context is at most 64 KiB
LARGE_BYTES_MAX = 128 * MIB  # an append or a note: fits the largest client request and its overhead
FRAME_BYTES_MAX = 256 * MIB  # a snapshot is one frame
KIND_BYTES = 2  # leading bytes of a body that name its kind
LARGE_KINDS = {MessageKind.APPEND: LARGE_BYTES_MAX, MessageKind.SNAPSHOT: FRAME_BYTES_MAX}


def frame(body: bytes) -> bytes:
    return _FRAME.pack(len(body), zlib.crc32(body)) + body


def bytes_max_of(kind: bytes) -> int:
    """The size limit of a body that begins with these two bytes."""
    if kind[:1] == NOTE:
        return LARGE_BYTES_MAX
    return LARGE_KINDS.get(kind[1], SMALL_BYTES_MAX)  # type: ignore[call-overload, no-any-return]


class FrameReader:
    """Splits a byte stream into frames. Raise `bytes_max`, and set `bytes_max_of`, once the peer is known."""

    def __init__(self, bytes_max: int, bytes_max_of: Callable[[bytes], int] | None = None) -> None:
        self.bytes_max = bytes_max
        self.bytes_max_of = bytes_max_of  # limit by kind; applied above SMALL_BYTES_MAX
        self._unread = bytearray()

    @property
    def unread_bytes(self) -> int:
        """Bytes buffered for an incomplete frame."""
        return len(self._unread)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yields complete frames. After MalformedMessage the rest of the stream cannot be trusted."""
        if not self._unread:  # the common case: complete small frames need no buffer
            at, data_bytes = 0, len(data)
            while data_bytes - at >= _FRAME.size:
                size_bytes, crc = _FRAME.unpack_from(data, at)
                end = at + _FRAME.size + size_bytes
                if end > data_bytes or size_bytes > SMALL_BYTES_MAX or size_bytes > self.bytes_max:
                    break
                body, at = data[at + _FRAME.size : end], end
                yield _checked(body, crc)
            if at == data_bytes:
                return
            data = data[at:] if at else data
        self._unread += data
        while len(self._unread) >= _FRAME.size:
            size_bytes, crc = _FRAME.unpack_from(self._unread)
            self._check_size(size_bytes)
            end = _FRAME.size + size_bytes
            if len(self._unread) < end:
                return
            body = bytes(memoryview(self._unread)[_FRAME.size : end])
            del self._unread[:end]
            yield _checked(body, crc)

    def _check_size(self, size_bytes: int) -> None:
        bytes_max = self.bytes_max
        kind = bytes(self._unread[_FRAME.size : _FRAME.size + KIND_BYTES])
        if self.bytes_max_of is not None and size_bytes > SMALL_BYTES_MAX and len(kind) == KIND_BYTES:
            bytes_max = min(bytes_max, self.bytes_max_of(kind))
        if size_bytes > bytes_max:
            raise MalformedMessage(f"a frame of {size_bytes} bytes, {bytes_max} are allowed here")


def _checked(body: bytes, crc: int) -> bytes:
    if zlib.crc32(body) != crc:
        raise MalformedMessage("a frame with a wrong checksum")
    return body


class Hello(NamedTuple):
    sender: int
    wanted: int
    cluster_id: str
    nonce: bytes = bytes(NONCE_BYTES)  # random per connection, so that a proof cannot be replayed

    def encode(self) -> bytes:
        return _HELLO.pack(MAGIC, FORMAT, self.sender, self.wanted, self.nonce) + self.cluster_id.encode()

    @classmethod
    def decode(cls, body: bytes) -> Hello:
        try:
            if body[:4] != MAGIC:
                raise ValueError("not a node of a quorum")
            if body[4:5] != bytes([FORMAT]):
                raise ValueError(f"format {list(body[4:5])}, this node speaks {FORMAT}: upgrade the older one")
            _, _, sender, wanted, nonce = _HELLO.unpack_from(body)
            return cls(sender, wanted, body[_HELLO.size :].decode(), nonce)
        except (struct.error, ValueError) as error:
            raise MalformedMessage(f"invalid hello: {error}") from error

    def is_of_another_cluster(self, own: Hello) -> bool:
        return bool(self.cluster_id and own.cluster_id) and self.cluster_id != own.cluster_id

    def check_answer_to(self, own: Hello) -> None:
        """Raises MalformedMessage unless this is the node that `own` expects, in the same cluster."""
        if self.is_of_another_cluster(own):
            raise MalformedMessage(f"it belongs to cluster {self.cluster_id!r}, this node to {own.cluster_id!r}")
        self.check_ids(own)

    def check_ids(self, own: Hello) -> None:
        if self.wanted != own.sender:
            raise MalformedMessage(f"it looks for node {self.wanted}, this is node {own.sender}")
        if self.sender < 0 or self.sender == own.sender or own.wanted not in (NOBODY, self.sender):
            raise MalformedMessage(f"it says it is node {self.sender}")
