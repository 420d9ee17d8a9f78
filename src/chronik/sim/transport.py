"""One end of a simulated connection, as an asyncio Transport, and the pipes that join the two ends.

A pipe carries one direction in order. Written bytes stay in the writer's buffer until the window has room, then they
are in flight, then the receiving system holds them until the protocol reads them. Calls into a protocol run on its own
process's loop, so a stopped process reads nothing and a dead one receives nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from chronik.runtime.tls import Identity
from chronik.runtime.units import NS_PER_MS
from chronik.sim.loop import ProcessLoop
from chronik.sim.prices import SOCKET_CALL_NS, SOCKET_PS_PER_BYTE

if TYPE_CHECKING:
    from chronik.sim.network import SimNetwork

WINDOW_BYTES = 256 * 1024  # in flight or unread: the socket buffers at both ends
HIGH_BYTES = 64 * 1024  # asyncio's own default
FIN, RST = b"FIN", b"RST"  # distinguished from data by identity


class Pipe:
    """One direction: `source` writes, `target` reads."""

    def __init__(self, source: SimTransport, target: SimTransport) -> None:
        self.source, self.target = source, target
        self.wires = source.network.wires
        self.link = (source.network.here.name, target.network.here.name)
        self.unsent: deque[bytes] = deque()
        self.unsent_bytes = 0
        self.window_bytes = 0
        self.arrived: deque[bytes] = deque()
        self.held: list[bytes] = []  # waiting for a cut link
        self._last_ns = 0

    def put(self, data: bytes) -> None:
        if self.unsent or self.window_bytes >= WINDOW_BYTES:
            self.unsent.append(data)
            self._count_unsent(len(data))
        else:
            self.launch(data)

    def launch(self, packet: bytes) -> None:
        tap = self.wires.tap
        if tap is not None and packet is not FIN and packet is not RST:
            for delivered in tap(self, packet):
                self._launch(delivered)
        else:
            self._launch(packet)

    def _launch(self, packet: bytes) -> None:
        wires = self.wires
        size_bytes = len(packet)
        self.window_bytes += size_bytes
        wires.bytes_carried += size_bytes
        source, target = self.link
        time = wires.time
        at_ns = time.present_ns + wires.delay_ns(source, target)
        if at_ns > self._last_ns:
            self._last_ns = at_ns
        time.at(self._last_ns, self._arrive, packet)

    def taken(self, count: int) -> None:
        """The protocol read this many bytes: the window has room again."""
        self.window_bytes -= count
        while self.unsent and self.window_bytes < WINDOW_BYTES:
            data = self.unsent.popleft()
            self._count_unsent(-len(data))
            self.launch(data)
        source = self.source
        if source._peer_is_slow or source._wrote_eof or source._is_closing:  # rarely true
            source.has_drained()

    def drop_unsent(self) -> None:
        self.unsent.clear()
        self._count_unsent(-self.unsent_bytes)

    def _count_unsent(self, more_bytes: int) -> None:
        self.unsent_bytes += more_bytes
        self.source.network.here.unsent_bytes += more_bytes

    def revive(self) -> None:
        if self.wires.is_cut(*self.link):
            self.wires.hold(self)
            return
        held, self.held = self.held, []
        for packet in held:
            self._arrive(packet)

    def _arrive(self, packet: bytes) -> None:
        if self.held or self.wires.is_cut(*self.link):
            self.held.append(packet)
            self.wires.hold(self)
            return
        target = self.target
        if target.is_gone:
            self._find_nobody(packet)
            return
        if len(packet) > 1 and packet is not FIN and packet is not RST and self.wires.splits():
            at = self.wires.random.randrange(1, len(packet))
            self.arrived += (packet[:at], packet[at:])
            target.may_read(in_parts=True)
        else:
            self.arrived.append(packet)
            target.may_read()

    def _find_nobody(self, packet: bytes) -> None:
        """The other end no longer exists. A running machine answers with a reset; one without power does not answer."""
        if packet is RST:
            return
        if not self.target.network.here.has_power:
            self.wires.time.after(1000 * NS_PER_MS, self._arrive, packet)
        else:
            self.target.outgoing.launch(RST)


class SimTransport(asyncio.Transport):
    incoming: Pipe
    outgoing: Pipe

    def __init__(self, network: SimNetwork, peer_host: str, own_port: int, peer_port: int) -> None:
        self._info: dict[str, Any] = {"peername": (peer_host, peer_port), "sockname": (network.here.name, own_port)}
        super().__init__(self._info)
        self.network, self.peer_host, self.own_port = network, peer_host, own_port
        self.is_gone = False  # its process died or its machine lost power
        self._loop: ProcessLoop = network.loop
        self._protocol: asyncio.BaseProtocol | None = None  # until it is accepted
        self._is_closing = False
        self._is_lost = False
        self._wrote_eof = False
        self._sent_fin = False
        self._is_reading = True
        self._read_is_due = False
        self._peer_is_slow = False
        self._high_bytes, self._low_bytes = HIGH_BYTES, HIGH_BYTES // 4
        network.here.transports[self] = None

    @staticmethod
    def pair(client: SimNetwork, server: SimNetwork, port: int, client_port: int) -> tuple[SimTransport, SimTransport]:
        own = SimTransport(client, server.here.name, client_port, port)
        other = SimTransport(server, client.here.name, port, client_port)
        own.outgoing = other.incoming = Pipe(own, other)
        own.incoming = other.outgoing = Pipe(other, own)
        return own, other

    def begin(self, factory: Callable[[], asyncio.BaseProtocol]) -> asyncio.Protocol:
        protocol = self._protocol = factory()
        if not self._is_lost:
            protocol.connection_made(self)
            self.may_read()
        return cast(asyncio.Protocol, protocol)

    def show_certificate(self, identity: Identity | None) -> None:
        """The certificate of the other end."""
        if identity is not None:
            self._info["tls_subject"] = identity.subject

    # Faults

    def reset_from_outside(self) -> None:
        self.outgoing.launch(RST)
        self._end(ConnectionResetError("connection reset by peer"))

    def process_died(self, *, orderly: bool) -> None:
        if not self._is_lost and not self.is_gone:
            self.is_gone = True
            self.outgoing.launch(FIN if orderly else RST)

    # Reading

    def may_read(self, *, in_parts: bool = False) -> None:
        if self._is_reading and not self._read_is_due and self._protocol is not None and self.incoming.arrived:
            self._read_is_due = True
            self._loop.call_soon(self._read, in_parts)

    def _read(self, in_parts: bool) -> None:  # noqa: FBT001 - called by the loop
        self._read_is_due = False
        arrived = self.incoming.arrived
        meter = self._loop.meter
        while arrived and self._is_reading and not self._is_lost:
            packet = arrived.popleft()
            if packet is RST:
                self.incoming.taken(len(RST))
                self._end(ConnectionResetError("connection reset by peer"))
                return
            if packet is FIN:
                self.incoming.taken(len(FIN))
                self._eof()
                return
            if meter is not None:
                meter.charge(SOCKET_CALL_NS + len(packet) * SOCKET_PS_PER_BYTE // 1000)
            self._hand_over(packet)
            self.incoming.taken(len(packet))
            if in_parts:
                break
        if arrived:
            self.may_read()

    def _hand_over(self, data: bytes) -> None:
        protocol = self._protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            protocol.data_received(data)  # type: ignore[union-attr]
            return
        view = memoryview(data)
        while view and not self._is_lost:
            room: memoryview = protocol.get_buffer(-1)  # type: ignore[assignment]
            count = min(len(room), len(view))
            room[:count] = view[:count]
            protocol.buffer_updated(count)
            view = view[count:]
            if view and not self._is_reading:
                self.incoming.arrived.appendleft(bytes(view))  # kept, as in a socket buffer
                self.incoming.window_bytes += len(view)
                return

    def _eof(self) -> None:
        stays_open = cast(asyncio.Protocol, self._protocol).eof_received()
        if not stays_open:
            self.close()

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self.may_read()

    def is_reading(self) -> bool:
        return self._is_reading and not self._is_closing

    # Writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or self.is_gone or self._wrote_eof or not data:
            return
        here = self.network.here
        if here.silent_since_ns is not None:
            self.network.wires.broke_silence(here, self.own_port)
        if self._loop.meter is not None:
            self._loop.meter.charge(SOCKET_CALL_NS + len(data) * SOCKET_PS_PER_BYTE // 1000)
        self.outgoing.put(bytes(data))
        if not self._peer_is_slow and self.outgoing.unsent_bytes > self._high_bytes:
            self._peer_is_slow = True
            cast(asyncio.BaseProtocol, self._protocol).pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def has_drained(self) -> None:
        pipe = self.outgoing
        if self._peer_is_slow and pipe.unsent_bytes <= self._low_bytes:
            self._peer_is_slow = False
            if not self._is_lost:
                self._loop.call_soon(cast(asyncio.BaseProtocol, self._protocol).resume_writing)
        if not pipe.unsent and (self._wrote_eof or self._is_closing):
            self._finish_writing()

    def write_eof(self) -> None:
        if not self._wrote_eof and not self._is_closing:
            self._wrote_eof = True
            if not self.outgoing.unsent:
                self._finish_writing()

    def can_write_eof(self) -> bool:
        return True

    def _finish_writing(self) -> None:
        if self.is_gone or self._is_lost:
            return
        if self.outgoing.unsent_bytes == 0 and not self._sent_fin:
            self._sent_fin = True
            self.outgoing.launch(FIN)
        if self._is_closing:
            self._end(None)

    def get_write_buffer_size(self) -> int:
        return self.outgoing.unsent_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_bytes = HIGH_BYTES if high is None else high
        self._low_bytes = self._high_bytes // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_bytes, self._high_bytes

    # Ending

    def close(self) -> None:
        """Sends the buffered data, then closes; reads nothing more."""
        if self._is_closing or self.is_gone:
            return
        self._is_closing = True
        self._is_reading = False
        if not self.outgoing.unsent:
            self._finish_writing()

    def abort(self) -> None:
        if not self._is_lost and not self.is_gone:
            self.outgoing.drop_unsent()
            self.outgoing.launch(RST)
            self._end(None)

    def is_closing(self) -> bool:
        return self._is_closing

    def _end(self, error: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = self._is_closing = self.is_gone = True
        self._is_reading = False
        self.network.here.transports.pop(self, None)
        self.outgoing.drop_unsent()
        self.incoming.arrived.clear()
        if self._protocol is not None:
            self._loop.call_soon(self._protocol.connection_lost, error)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast(asyncio.BaseProtocol, self._protocol)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
