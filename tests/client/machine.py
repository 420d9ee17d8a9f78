"""A machine for client tests: virtual time, chance from a seed, and a network in memory that can be cut.

`run` drives a coroutine in virtual time: when every task waits, time jumps to the next timer. So nothing here is slow
or depends on the speed of the machine.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from chronik.runtime.interfaces import Runtime

T = TypeVar("T")
WALL_MS = 1_700_000_000_000
LATENCY_S = 0.001  # of one message, so that virtual time moves


class Clock:
    def __init__(self) -> None:
        self.now_ns = 0

    def wall_ms(self) -> int:
        return WALL_MS + self.now_ns // 1_000_000

    def monotonic_ns(self) -> int:
        return self.now_ns


class Chance:
    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


class Nothing(Exception):
    """Every task waits and no timer is set, so nothing would ever happen."""


class _Jumping(selectors.DefaultSelector):
    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Nothing
        self._clock.now_ns += max(1, round(timeout * 1e6)) * 1000 if timeout > 0 else 0
        return []


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: Clock) -> None:
        super().__init__(_Jumping(clock))
        self._virtual = clock

    def time(self) -> float:
        return self._virtual.now_ns / 1e9


class Endpoint(Protocol):
    """The server's side of a connection."""

    def opened(self, send: Callable[[bytes], None], hang_up: Callable[[], None]) -> None: ...

    def received(self, data: bytes) -> None: ...

    def closed(self) -> None: ...


class Network:
    """Connects clients to endpoints by address. Addresses that are not in `listening` refuse connections."""

    def __init__(self) -> None:
        self.listening: dict[tuple[str, int], Callable[[], Endpoint]] = {}
        self.silent: set[tuple[str, int]] = set()  # accept, and never answer
        self.links: list[Link] = []
        self.connects: list[tuple[str, int]] = []

    async def connect(
        self, host: str, port: int, factory: Callable[[], asyncio.Protocol]
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        self.connects.append((host, port))
        await asyncio.sleep(LATENCY_S)
        if (host, port) not in self.listening:
            raise ConnectionRefusedError(111, f"cannot connect to {host}:{port}: Connection refused")
        protocol: Any = factory()
        link = Link(protocol, self.listening[host, port](), is_silent=(host, port) in self.silent, at=(host, port))
        self.links.append(link)
        protocol.connection_made(link)
        return link, protocol  # type: ignore[return-value]

    def cut(self, host: str, port: int) -> None:
        """Ends the connections to an address from the other side."""
        for link in self.links:
            if link.at == (host, port):
                link.hang_up()


class Link:
    """The client's transport. Bytes travel in order, LATENCY_S each way."""

    def __init__(self, protocol: Any, endpoint: Endpoint, *, is_silent: bool, at: tuple[str, int]) -> None:
        self.at = at
        self._protocol, self._endpoint, self._is_silent = protocol, endpoint, is_silent
        self._loop = asyncio.get_running_loop()
        self.is_open = True
        # Timers of one moment fire in any order, so data in flight is queued, and a timer takes the first item.
        self._outgoing: deque[bytes] = deque()
        self._incoming: deque[bytes] = deque()
        endpoint.opened(self._send, self.hang_up)

    def write(self, data: bytes) -> None:
        if self.is_open and not self._is_silent:
            self._outgoing.append(bytes(data))
            self._loop.call_later(LATENCY_S, self._arrive)

    def writelines(self, parts: list[bytes]) -> None:
        self.write(b"".join(parts))

    def _arrive(self) -> None:
        data = self._outgoing.popleft()
        if self.is_open:
            self._endpoint.received(data)

    def _send(self, data: bytes) -> None:
        self._incoming.append(data)
        self._loop.call_later(LATENCY_S, self._deliver)

    def _deliver(self) -> None:
        view = memoryview(self._incoming.popleft())
        while view and self.is_open:
            room = self._protocol.get_buffer(-1)
            count = min(len(room), len(view))
            room[:count] = view[:count]
            self._protocol.buffer_updated(count)
            view = view[count:]

    def hang_up(self) -> None:
        self._end()

    def abort(self) -> None:
        self._end()

    close = abort

    def _end(self) -> None:
        if self.is_open:
            self.is_open = False
            self._endpoint.closed()
            self._loop.call_soon(self._protocol.connection_lost, None)


class Machine:
    def __init__(self, seed: int = 0) -> None:
        self.clock = Clock()
        self.network = Network()
        self.runtime = Runtime(self.clock, None, self.network, Chance(seed))  # type: ignore[arg-type]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        loop = _VirtualLoop(self.clock)
        try:
            return loop.run_until_complete(work)
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()
