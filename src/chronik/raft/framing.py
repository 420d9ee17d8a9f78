"""Frames between the nodes of a quorum, and the hello that opens a connection. Bytes in, frames out; no I/O.

A frame is its size, a CRC-32 of its body, the body. The CRC finds accidents and proves nothing about the sender.
The first frame in either direction is a hello: magic, format, the sender's id, the id it looks for, a nonce, the
cluster's id. A node that belongs to no cluster yet sends an empty cluster id. `greeting` says who sends what when.

A frame may be as large as its kind needs: the first two bytes of a body name the kind, so a peer cannot announce a
large frame of a kind that is small.
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
_HELLO = struct.Struct(">4sBqq16s")  # magic, format, sender, wanted, nonce; the cluster's id follows
MAGIC = b"CRQ1"
FORMAT = 2
NONCE_BYTES = 16

# First byte of a body that is no message; that of a message is its format.
NOTE = b"N"  # of the layer above
WHO = b"W"  # the sender asks whether a node is a member
MEMBER = b"V"  # the answer: it is one
ABOUT = struct.Struct(">q")  # behind WHO and MEMBER: the node's id

HELLO_BYTES_MAX = 512  # a stranger may not cost more
SMALL_BYTES_MAX = 66 * KIB  # any message without entries and snapshot: its context is at most 64 KiB
LARGE_BYTES_MAX = 128 * MIB  # an append or a note: the largest request of a client, and what belongs to it
FRAME_BYTES_MAX = 256 * MIB  # a snapshot is one frame
KIND_BYTES = 2  # of a body, that name its kind
LARGE_KINDS = {MessageKind.APPEND: LARGE_BYTES_MAX, MessageKind.SNAPSHOT: FRAME_BYTES_MAX}


def frame(body: bytes) -> bytes:
    return _FRAME.pack(len(body), zlib.crc32(body)) + body


def bytes_max_of(kind: bytes) -> int:
    """How large a body may be that begins with these two bytes."""
    if kind[:1] == NOTE:
        return LARGE_BYTES_MAX
    return LARGE_KINDS.get(kind[1], SMALL_BYTES_MAX)  # type: ignore[call-overload, no-any-return]


class FrameReader:
    """Raise `bytes_max`, and set `bytes_max_of`, once the peer is known."""

    def __init__(self, bytes_max: int, bytes_max_of: Callable[[bytes], int] | None = None) -> None:
        self.bytes_max = bytes_max
        self.bytes_max_of = bytes_max_of  # by the first bytes of the body; asked for bodies above SMALL_BYTES_MAX
        self._unread = bytearray()

    @property
    def unread_bytes(self) -> int:
        """What is held of a frame that is not whole yet."""
        return len(self._unread)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The frames that are whole by now. Raises MalformedMessage; nothing behind that is to be trusted."""
        if not self._unread:  # as mostly: whole small frames need not be gathered
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
    nonce: bytes = bytes(NONCE_BYTES)  # drawn by the sender, so that no proof is good for a second connection

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
            raise MalformedMessage(f"no hello: {error}") from error

    def is_of_another_cluster(self, own: Hello) -> bool:
        return bool(self.cluster_id and own.cluster_id) and self.cluster_id != own.cluster_id

    def check_answer_to(self, own: Hello) -> None:
        """Raises MalformedMessage unless this is the node that `own` is for, in the same cluster."""
        if self.is_of_another_cluster(own):
            raise MalformedMessage(f"it belongs to cluster {self.cluster_id!r}, this node to {own.cluster_id!r}")
        self.check_ids(own)

    def check_ids(self, own: Hello) -> None:
        if self.wanted != own.sender:
            raise MalformedMessage(f"it looks for node {self.wanted}, this is node {own.sender}")
        if self.sender < 0 or self.sender == own.sender or own.wanted not in (NOBODY, self.sender):
            raise MalformedMessage(f"it says it is node {self.sender}")
