"""Server-side handshakes, rate-limited: a handshake costs a millisecond of the event loop, a request a tenth.

After a failover thousands of clients connect at once. At most UNDER_WAY_MAX handshakes run concurrently, and only
BEGUN_PER_TURN start per loop iteration, so that other requests are served in between. The rest waits in order of
arrival and is not read from meanwhile. A client that does not respond within SLOW_S gives up its slot; otherwise slow
clients would limit throughput: 16 clients at 50 ms are 320 handshakes a second, and the loop can do a thousand. After
DEADLINE_S without progress a client is disconnected. Time in our queue does not count.

Anyone can open connections and send nothing, and no other limit applies before the handshake. So their number has its
own bound: at the bound, the peer that has been silent for longest is disconnected, because honest clients respond soon.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter, deque
from collections.abc import Callable
from functools import cached_property
from typing import Final

from chronik.runtime import descriptors
from chronik.runtime.tls_transport import HANDSHAKE, HELLO_BYTES_MAX, NOT_TLS, READ_BYTES, TOO_LONG, TlsLayer

log = logging.getLogger("chronik.tls")

UNDER_WAY_MAX: Final = 16
BEGUN_PER_TURN: Final = 2
SLOW_S: Final = 0.01
DEADLINE_S: Final = 10.0
REASONS_MAX: Final = 64  # distinct reasons logged within LOG_EVERY_S
LOG_EVERY_S: Final = 1.0
CROWDED: Final = "too many connections are in their handshake, and this one has been silent for longest"


class Handshakes:
    """The handshakes of all listeners of one event loop. `open_max` bounds connections with unfinished handshakes."""

    def __init__(self, open_max: int = descriptors.HANDSHAKES_MAX) -> None:
        self._open_max = open_max
        self._silent: dict[ServerLayer, None] = {}  # waiting for the peer, longest silent first
        self._waiting: deque[ServerLayer] = deque()  # waiting for a slot
        self._under_way: dict[ServerLayer, None] = {}
        self._is_due = False
        self.failures = Failures()
        self.done_count = 0

    @cached_property
    def scratch(self) -> memoryview:
        """The read buffer shared by connections of this event loop; created for the first one."""
        return memoryview(bytearray(READ_BYTES))

    def made(self, layer: ServerLayer) -> None:
        """A peer has connected. If all others wait for us, this newest one is refused instead."""
        self._silent[layer] = None
        if len(self._silent) + len(self._waiting) > self._open_max:
            next(iter(self._silent)).failed(CROWDED)

    def ready(self, layer: ServerLayer) -> None:
        """The first bytes have arrived."""
        self._silent.pop(layer, None)
        self._waiting.append(layer)
        self._schedule()

    def over(self, layer: ServerLayer) -> None:
        """The handshake is done, or has failed."""
        self._silent.pop(layer, None)
        self.left(layer)

    def left(self, layer: ServerLayer) -> None:
        """It is over, or slow: starts others."""
        if self._under_way.pop(layer, False) is None and self._waiting:
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_due and self._waiting and len(self._under_way) < UNDER_WAY_MAX:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._is_due = False
        begun = 0
        while self._waiting and len(self._under_way) < UNDER_WAY_MAX and begun < BEGUN_PER_TURN:
            layer = self._waiting.popleft()
            if not layer.is_over:
                begun += 1
                self._under_way[layer] = self._silent[layer] = None
                layer.begin()
        self._schedule()


class Failures:
    """Logs failed handshakes: one line per reason and second, with the number of the others."""

    def __init__(self) -> None:
        self.count = 0
        self._since_line: Counter[str] = Counter()

    def note(self, where: str, peer: str, reason: str) -> None:
        self.count += 1
        if reason not in self._since_line and len(self._since_line) >= REASONS_MAX:
            reason = "for other reasons"
        if reason not in self._since_line:
            self._since_line[reason] = 0
            log.warning("TLS handshake with %s on %s failed: %s", peer, where, reason)
            asyncio.get_running_loop().call_later(LOG_EVERY_S, self._tell, where, reason)
        else:
            self._since_line[reason] += 1

    def _tell(self, where: str, reason: str) -> None:
        more = self._since_line.pop(reason, 0)
        if more:
            log.warning("TLS handshakes on %s failed %d more times within a second: %s", where, more, reason)


class ServerLayer(TlsLayer):
    """An accepted connection."""

    def __init__(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        context: Callable[[], ssl.SSLContext],
        handshakes: Handshakes,
        where: str,
    ) -> None:
        super().__init__(factory, handshakes.scratch)
        self._context = context
        self._handshakes = handshakes
        self._where = where  # the listener, for the log
        self.is_over = False  # the handshake, with success or without
        self._has_begun = False
        self._is_queued = False
        self._deadline: asyncio.TimerHandle | None = None
        self._slowness: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._await_peer()
        self._handshakes.made(self)

    def arrived(self) -> None:
        if self._has_begun:
            super().arrived()
        elif not self._is_queued:
            if self._first_byte() != HANDSHAKE:
                return self.failed(NOT_TLS)
            if self._arriving.pending > HELLO_BYTES_MAX:
                return self.failed(TOO_LONG)
            self._is_queued = True
            self.raw.pause_reading()
            self._stop_timers()
            self._handshakes.ready(self)
        return None

    def begin(self) -> None:
        self._has_begun = True
        self.wrap(self._context(), is_server=True)
        loop = asyncio.get_running_loop()
        self._await_peer()
        self._slowness = loop.call_later(SLOW_S, self._handshakes.left, self)
        self.shake()
        if not self.raw.is_closing() and self.is_reading:
            self.raw.resume_reading()

    def shaken(self) -> None:
        self._over()
        self._handshakes.done_count += 1

    def failed(self, reason: str) -> None:
        if not self.is_over:
            self._over()
            name = self.raw.get_extra_info("peername") or ("?", 0)
            self._handshakes.failures.note(self._where, str(name[0]), reason)
            self.raw.close()

    def _over(self) -> None:
        self.is_over = True
        self._stop_timers()
        self._handshakes.over(self)

    def _await_peer(self) -> None:
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(DEADLINE_S, self.failed, f"it did not go on within {DEADLINE_S:.0f} s")

    def _stop_timers(self) -> None:
        for timer in (self._deadline, self._slowness):
            if timer is not None:
                timer.cancel()

    def _first_byte(self) -> int:
        head = self._arriving.read()
        self._arriving.write(head)
        return head[0] if head else HANDSHAKE


class ClientLayer(TlsLayer):
    """A connection made by this process."""

    def __init__(
        self, factory: Callable[[], asyncio.BaseProtocol], context: ssl.SSLContext, host: str, scratch: memoryview
    ) -> None:
        super().__init__(factory, scratch)
        self._to_use = context
        self._host = host
        # Result: why it failed, or None.
        self.done: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.wrap(self._to_use, is_server=False, host=self._host)
        self.shake()

    def shaken(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def failed(self, reason: str) -> None:
        if not self.done.done():
            self.done.set_result(reason)
        self.raw.close()
