"""The client side of a Kafka connection with one request in flight, for load generators: nothing is decoded.

Requests are encoded in advance (`frame_of`), all with the same correlation id, and sent many times. The next request is
sent only after the last response, so that id is always the expected one. A response is returned as bytes. Versions are
negotiated elsewhere, by a `Peer` to the same cluster.

`SmallResponses` is for responses of a few bytes, which usually arrive in one piece; it is the cheapest receiver.
`LargeResponses` is for responses of megabytes, which are received into their own memory.
"""

from __future__ import annotations

from functools import cache
from struct import Struct as Packing
from typing import Final

from chronik.wire.calls import Call
from chronik.wire.errors import Malformed
from chronik.wire.framing import SIZE_BYTES, BadFrame, FrameReader
from chronik.wire.notation import Request

CORRELATION_ID: Final = 0
RESPONSE_BYTES_MAX: Final = 512 << 20
HEADER_BYTES: Final = 8  # size and correlation id, before a response that is not flexible
_header_of: Final = Packing(">ii").unpack_from
_number_of: Final = Packing(">i").unpack_from


def frame_of(request: Request, version: int, client_id: str) -> bytes:
    parts, _ = _call_of(type(request), version, client_id).frame(request, CORRELATION_ID)
    return b"".join(parts)


@cache  # a fetch needs a new encoding for each offset
def _call_of(request: type[Request], version: int, client_id: str) -> Call:
    return Call(request, None, version, client_id)


def _foreign(number: int) -> Malformed:
    return Malformed("response", 0, f"correlation id {number}, where {CORRELATION_ID} is due")


class SmallResponses:
    __slots__ = ("_part",)

    def __init__(self) -> None:
        self._part = b""  # part of a response

    def received(self, data: bytes) -> bytes | None:
        """The response with its size prefix, once complete. Raises Malformed: close the connection."""
        if self._part:
            data = self._part + data
            self._part = b""
        if len(data) < HEADER_BYTES:
            self._part = data
            return None
        size_bytes, number = _header_of(data)
        if len(data) - SIZE_BYTES == size_bytes and not number:
            return data
        if not SIZE_BYTES <= size_bytes <= RESPONSE_BYTES_MAX:
            raise BadFrame(size_bytes, RESPONSE_BYTES_MAX)
        if number != CORRELATION_ID:
            raise _foreign(number)
        if len(data) - SIZE_BYTES > size_bytes:
            raise Malformed("response", SIZE_BYTES + size_bytes, "bytes after the only expected response")
        self._part = data
        return None


class LargeResponses:
    __slots__ = ("_reader", "room")

    def __init__(self, scratch: memoryview | None = None) -> None:
        self._reader = FrameReader(RESPONSE_BYTES_MAX, scratch=scratch)
        self.room = self._reader.room  # buffer for the next bytes

    def received(self, count: int) -> memoryview | None:
        """`count` bytes were put into `room()`. The response without its size, once complete. Raises Malformed."""
        frames = self._reader.received(count)
        if not frames:
            return None
        frame = frames[0]
        if len(frames) > 1 or len(frame) < SIZE_BYTES:
            raise Malformed("response", 0, f"{len(frames)} frames of {len(frame)} bytes and more, where one is due")
        (number,) = _number_of(frame)
        if number != CORRELATION_ID:
            raise _foreign(number)
        return frame
