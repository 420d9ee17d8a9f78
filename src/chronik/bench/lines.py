"""One connection with one request in flight: the smallest client there can be, so that the broker is what is measured.

A line sends a whole frame and hands over the whole answer, without decoding either. It never retries; when it is cut it
says so, and whoever owns it opens it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

from chronik.wire.errors import Malformed
from chronik.wire.framing import FrameReader

SIZE_BYTES: Final = 4
ANSWER_BYTES_MAX: Final = 512 << 20


class SmallLine(asyncio.Protocol):
    """For answers of a few bytes, which mostly come in one piece. The answer still has its size in front."""

    def __init__(self, answered: Callable[[bytes], None], lost: Callable[[], None]) -> None:
        self._answered, self._lost = answered, lost
        self._rest = b""
        self._transport: asyncio.Transport | None = None
        self._is_full = False
        self._when_writable: Callable[[], None] | None = None

    def send(self, frame: bytes) -> None:
        if self._transport is not None:
            self._transport.write(frame)

    def when_writable(self, call: Callable[[], None]) -> None:
        """Calls back in the next turn of the loop in which the system takes more; for requests without answer."""
        if self._is_full:
            self._when_writable = call
        else:
            asyncio.get_running_loop().call_soon(call)

    def close(self) -> None:
        if self._transport is not None:
            self._lost = _nothing
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._lost()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        if self._when_writable is not None:
            call, self._when_writable = self._when_writable, None
            call()

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
            self._rest = b""
        if len(data) < SIZE_BYTES or len(data) - SIZE_BYTES < int.from_bytes(data[:SIZE_BYTES], "big"):
            self._rest = data
            return
        self._answered(data)


class LargeLine(asyncio.BufferedProtocol):
    """For answers of megabytes, received straight into their own memory. The answer comes without its size."""

    def __init__(self, answered: Callable[[memoryview], None], lost: Callable[[], None], scratch: memoryview) -> None:
        self._answered, self._lost = answered, lost
        self._reader = FrameReader(ANSWER_BYTES_MAX, scratch=scratch)
        self._transport: asyncio.Transport | None = None

    def send(self, frame: bytes) -> None:
        if self._transport is not None:
            self._transport.write(frame)

    def close(self) -> None:
        if self._transport is not None:
            self._lost = _nothing
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._lost()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            frames = self._reader.received(nbytes)
        except Malformed:
            cast(Any, self._transport).abort()
            return
        for frame in frames:
            self._answered(frame)


def _nothing() -> None:
    """Closed on purpose: nobody needs to hear of it."""
