"""One connection with one request in flight: a minimal client, so that the broker dominates the measurement.

A line sends a complete frame and returns the complete response, without decoding either. The protocol is
`wire.stop_and_wait`; a line owns the transport. It never retries. It reports a lost connection, including one that it
closed because of an unexpected response, and its owner reopens it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from chronik.wire.errors import Malformed
from chronik.wire.stop_and_wait import LargeResponses, SmallResponses


class SmallLine(asyncio.Protocol):
    """For responses of a few bytes, which usually arrive in one piece. The response includes its size prefix."""

    def __init__(self, answered: Callable[[bytes], None], lost: Callable[[], None]) -> None:
        self._answered, self._lost = answered, lost
        self._responses = SmallResponses()
        self._transport: asyncio.Transport | None = None
        self._is_full = False
        self._when_writable: Callable[[], None] | None = None

    def send(self, frame: bytes) -> None:
        if self._transport is not None:
            self._transport.write(frame)

    def when_writable(self, call: Callable[[], None]) -> None:
        """Calls back in the next loop iteration in which the transport is writable; for requests without response."""
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
        try:
            answer = self._responses.received(data)
        except Malformed:
            cast(asyncio.Transport, self._transport).abort()
            return
        if answer is not None:
            self._answered(answer)


class LargeLine(asyncio.BufferedProtocol):
    """For responses of megabytes, received directly into their own memory. The response excludes its size prefix."""

    def __init__(self, answered: Callable[[memoryview], None], lost: Callable[[], None], scratch: memoryview) -> None:
        self._answered, self._lost = answered, lost
        self._responses = LargeResponses(scratch)
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
        return self._responses.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            answer = self._responses.received(nbytes)
        except Malformed:
            cast(asyncio.Transport, self._transport).abort()
            return
        if answer is not None:
            self._answered(answer)


def _nothing() -> None:
    """Closed on purpose: no report needed."""
