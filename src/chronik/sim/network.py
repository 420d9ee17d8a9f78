"""Simulated TCP between machines: asyncio's Transport on both ends, and a network in between that delays and cuts.

As in reality, a stream stays in order, and streams do not wait for each other. A cut link only delays: data sent
meanwhile arrives after it is restored. A dying process closes its connections; a machine without power leaves them
half-open until it is back and resets them. If a peer does not read, the window fills, then the writer's buffer, and
then the writer is paused. Like TCP, it never loses or changes bytes inside a stream.
"""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random

from chronik.runtime.errors import TlsFailed
from chronik.runtime.tls import ClientAuth, Identity, TlsClient, TlsServer
from chronik.runtime.units import NS_PER_MS
from chronik.sim.loop import ProcessLoop, VirtualTime
from chronik.sim.transport import Pipe, SimTransport

LATENCY_NS = (100_000, 500_000)  # one way, within a data centre
SYN_RETRY_MS = 1000  # as Linux does
REVIVAL_MS = (0, 200)  # data delayed by a cut arrives this long after it ends
CONNECT_MS_MAX = 60_000
SPLIT_ODDS = 40  # one in this many packets arrives in two parts
SPLIT_BITS = SPLIT_ODDS.bit_length()
PORT_FIRST = 40_000  # first ephemeral port


class Host:
    """A machine as others see it: an address and its listeners."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.has_power = True
        self.listeners: dict[int, SimListener] = {}
        self.silent_since_ns: int | None = None  # since when its process must not answer clients; None: it may
        self.transports: dict[SimTransport, None] = {}
        self.unsent_bytes = 0  # written by its process, and held in socket buffers because peers do not read


class Wires:
    """All links of a world. Faults are counted, so that several may overlap on one link."""

    def __init__(self, time: VirtualTime, random: Random) -> None:
        self.time, self.random = time, random
        self._draw_bits = random.getrandbits
        self.hosts: dict[str, Host] = {}
        self.bytes_carried = 0
        self._cuts: Counter[tuple[str, str]] = Counter()
        self._extra_ns: Counter[tuple[str, str]] = Counter()
        self._loss_permille: Counter[tuple[str, str]] = Counter()
        # Link: pipes with data that waits for the end of a cut.
        self._held: dict[tuple[str, str], dict[Pipe, None]] = {}
        self._ports = PORT_FIRST
        self.on_broken_silence: Callable[[Host, int], None] | None = None  # called with the host and its port
        self.tap: Callable[[Pipe, bytes], list[bytes]] | None = None  # maps each packet to the packets to deliver

    def host(self, name: str) -> Host:
        found = self.hosts.get(name)
        if found is None:
            found = self.hosts[name] = Host(name)
        return found

    def free_port(self) -> int:
        self._ports += 1
        return self._ports

    # Faults

    def cut(self, source: str, target: str) -> None:
        """Blocks everything from source to target; the other direction may still work."""
        self._cuts[source, target] += 1

    def mend(self, source: str, target: str) -> None:
        self._cuts[source, target] -= 1
        if not self._cuts[source, target]:
            for pipe in self._held.pop((source, target), {}):
                self.time.after_ms(self.random.randint(*REVIVAL_MS), pipe.revive)

    def slow_down(self, source: str, target: str, extra_ms: int) -> None:
        self._extra_ns[source, target] += extra_ms * NS_PER_MS

    def lose(self, source: str, target: str, permille: int) -> None:
        """TCP resends lost packets after a while, which delays everything after them."""
        self._loss_permille[source, target] += permille

    def reset(self, source: str, target: str) -> None:
        """Resets every connection between the two, as a firewall might."""
        for transport in list(self.host(source).transports):
            if transport.peer_host == target:
                transport.reset_from_outside()

    def end_half_open(self, names: Iterable[str]) -> None:
        """Resets these hosts' connections whose other end no longer exists, as keepalive would after hours."""
        for name in names:
            for transport in list(self.host(name).transports):
                if transport.outgoing.target.is_gone:
                    transport.reset_from_outside()

    def process_died(self, name: str) -> None:
        """Its system closes its connections: some peers see an orderly end, some a reset."""
        host = self.host(name)
        host.listeners.clear()
        host.silent_since_ns = None
        for transport in list(host.transports):
            transport.process_died(orderly=self.random.random() < 0.5)
            transport.outgoing.drop_unsent()
        host.transports.clear()

    def power_lost(self, name: str) -> None:
        """Peers get no notification."""
        host = self.host(name)
        host.has_power = False
        host.silent_since_ns = None
        host.listeners.clear()
        for transport in host.transports:
            transport.is_gone = True
            transport.outgoing.drop_unsent()
        host.transports.clear()

    def power_returned(self, name: str) -> None:
        self.host(name).has_power = True

    # For transports

    def hold(self, pipe: Pipe) -> None:
        """The pipe has data to deliver when its link is restored."""
        self._held.setdefault(pipe.link, {})[pipe] = None

    def broke_silence(self, host: Host, port: int) -> None:
        """Ignores data that leaves at the very moment of the failure: it was already in flight."""
        assert host.silent_since_ns is not None
        if self.time.now_ns > host.silent_since_ns and self.on_broken_silence is not None:
            self.on_broken_silence(host, port)

    def splits(self) -> bool:
        """Whether the next packet arrives in two parts. Draws as `randrange(SPLIT_ODDS)` does, at half the cost."""
        drawn = self._draw_bits(SPLIT_BITS)
        while drawn >= SPLIT_ODDS:
            drawn = self._draw_bits(SPLIT_BITS)
        return drawn == 0

    def is_cut(self, source: str, target: str) -> bool:
        return self._cuts.get((source, target), 0) > 0

    def delay_ns(self, source: str, target: str) -> int:
        low, high = LATENCY_NS
        link = source, target
        # `get`: a Counter calls a Python function for each missing key, and most links have no fault.
        delay_ns = low + int(self.random.random() * (high - low)) + self._extra_ns.get(link, 0)
        loss = self._loss_permille.get(link, 0)
        while loss and self.random.randrange(1000) < loss:
            delay_ns += 200 * NS_PER_MS  # Linux's shortest retransmission timeout
        return delay_ns


class SimListener:
    def __init__(
        self,
        network: SimNetwork,
        host: str,
        port: int,
        factory: Callable[[], asyncio.Protocol],
        tls: TlsServer | None,
    ) -> None:
        self.host, self.port, self.tls = host, port, tls
        self.network, self.factory = network, factory
        self.loop = network.loop

    def secure_with(self, tls: TlsServer) -> None:
        self.tls = tls

    def close(self) -> None:
        listeners = self.network.here.listeners
        if listeners.get(self.port) is self:
            del listeners[self.port]


def why_not_secured(client: TlsClient | None, server: TlsServer | None) -> str | None:
    """Handshakes without cryptography: checks that both sides use TLS and present certificates. Trust is not
    simulated."""
    if (client is None) != (server is None):
        return "one side speaks TLS and the other does not"
    if server is not None and server.client_auth is ClientAuth.REQUIRED and presented(client, server) is None:
        return "it wants a certificate"
    return None


def presented(client: TlsClient | None, server: TlsServer | None) -> Identity | None:
    if client is None or server is None or server.client_auth is ClientAuth.NONE:
        return None
    return client.identity


class SimSends:
    """Like the kernel for real nodes: data leaves at the end of the loop iteration."""

    def __init__(self) -> None:
        self._due: list[tuple[asyncio.Transport, bytes]] = []

    def writer_of(self, transport: asyncio.Transport) -> Callable[[bytes], None]:
        def write(data: bytes) -> None:
            if not self._due:
                asyncio.get_running_loop().call_soon(self.flush)
            self._due.append((transport, data))

        return write

    def flush(self) -> None:
        due, self._due = self._due, []
        for transport, data in due:
            if not transport.is_closing():
                transport.write(data)

    def close(self) -> None:
        self.flush()


class SimNetwork:
    """A Network as one process of one machine sees it."""

    def __init__(self, wires: Wires, host: str, loop: ProcessLoop) -> None:
        self.wires, self.loop = wires, loop
        self.connections_max = 1 << 30
        self.here = wires.host(host)

    async def listen(
        self, host: str, port: int, factory: Callable[[], asyncio.Protocol], tls: TlsServer | None = None
    ) -> SimListener:
        port = port or self.wires.free_port()
        if port in self.here.listeners:
            raise OSError(errno.EADDRINUSE, f"cannot listen on {host}:{port}: the address is in use")
        self.here.listeners[port] = listener = SimListener(self, host, port, factory, tls)
        return listener

    def sends(self) -> SimSends:
        return SimSends()

    async def connect(
        self, host: str, port: int, factory: Callable[[], asyncio.Protocol], tls: TlsClient | None = None
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        done: asyncio.Future[tuple[asyncio.Transport, asyncio.Protocol]] = self.loop.create_future()
        attempt = _Attempt(self, host, port, factory, done, tls)
        attempt.send()
        try:
            return await done
        finally:
            attempt.end()


class _Attempt:
    """A connection attempt. Repeated every second without an answer."""

    def __init__(
        self,
        network: SimNetwork,
        host: str,
        port: int,
        factory: Callable[[], asyncio.Protocol],
        done: asyncio.Future[tuple[asyncio.Transport, asyncio.Protocol]],
        tls: TlsClient | None,
    ) -> None:
        self._network, self._wires, self._time = network, network.wires, network.wires.time
        self._source, self._target, self._port = network.here.name, host, port
        self._factory, self._done, self._tls = factory, done, tls
        self._begun_ns = self._time.now_ns
        self._accepted: SimTransport | None = None  # the other end, once accepted

    def send(self) -> None:
        self._time.after(self._wires.delay_ns(self._source, self._target), self._arrive)

    def end(self) -> None:
        if self._accepted is not None and (self._done.cancelled() or not self._done.done()):
            self._accepted.reset_from_outside()

    def _again(self, step: Callable[[], None]) -> None:
        if self._time.now_ns - self._begun_ns > CONNECT_MS_MAX * NS_PER_MS:
            self._fail(errno.ETIMEDOUT, "timed out")
        else:
            self._time.after_ms(SYN_RETRY_MS, step)

    def _arrive(self) -> None:
        if self._done.done():
            return
        target = self._wires.hosts.get(self._target)
        if target is None:
            self._fail(errno.EHOSTUNREACH, "no such host")
        elif not target.has_power or self._wires.is_cut(self._source, self._target):
            self._again(self._arrive)
        elif (listener := target.listeners.get(self._port)) is None:
            self._time.after(self._wires.delay_ns(self._target, self._source), self._refused)
        elif (reason := why_not_secured(self._tls, listener.tls)) is not None:
            self._network.loop.call_soon(self._not_secured, reason)
        else:
            own, other = SimTransport.pair(self._network, listener.network, self._port, self._wires.free_port())
            own.show_certificate(listener.tls.identity if listener.tls is not None else None)
            other.show_certificate(presented(self._tls, listener.tls))
            self._accepted = other
            listener.loop.call_soon(other.begin, listener.factory)
            self._time.after(self._wires.delay_ns(self._target, self._source), self._answered, own)

    def _refused(self) -> None:
        if self._wires.is_cut(self._target, self._source):
            self._again(self._arrive)
        else:
            self._fail(errno.ECONNREFUSED, "nobody listens there")

    def _answered(self, own: SimTransport) -> None:
        if self._done.done():
            return
        if self._wires.is_cut(self._target, self._source):
            self._again(lambda: self._answered(own))
        else:
            self._network.loop.call_soon(self._connected, own)

    def _connected(self, own: SimTransport) -> None:
        if own.is_closing():  # reset meanwhile: otherwise the caller would wait forever
            self._failed(errno.ECONNRESET, "connection reset by peer")
        elif not self._done.done():
            protocol = own.begin(self._factory)
            self._done.set_result((own, protocol))

    def _not_secured(self, reason: str) -> None:
        if not self._done.done():
            self._done.set_exception(TlsFailed(f"cannot connect to {self._target}:{self._port} by TLS: {reason}"))

    def _fail(self, code: int, why: str) -> None:
        self._network.loop.call_soon(self._failed, code, why)

    def _failed(self, code: int, why: str) -> None:
        if not self._done.done():
            self._done.set_exception(OSError(code, f"cannot connect to {self._target}:{self._port}: {why}"))
