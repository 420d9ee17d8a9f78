"""Sends many small messages in one call to the kernel, instead of one call each (Linux AIO, as in `kernel_sync`).

Every send wakes a client, and a client woken on our core preempts the event loop: with separate calls, that can happen
between any two responses of a commit. Messages given in one loop iteration leave together at its end. A socket accepts
what it has room for; the rest goes through the loop, and so does everything on machines without AIO.

Order: bytes of one transport leave in the order given. Before writing to a transport directly, call `flush`.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable
from typing import Final, NamedTuple

from chronik.runtime.invariants import broken
from chronik.runtime.kernel_io import REQUEST, SLOTS, KernelIo

SENT_BYTES_MAX: Final = 4096  # per message: for larger ones, copying costs more than a call
_WRITE: Final = 1
_ARENA_BYTES: Final = SLOTS * SENT_BYTES_MAX  # so that whatever waits fits
_pack_request: Final = REQUEST.pack_into
_REQUEST_BYTES: Final = REQUEST.size
_new = tuple.__new__


class Due(NamedTuple):
    """What waits for one transport, and its descriptor."""

    transport: asyncio.Transport
    fd: int
    data: bytes


class KernelSends:
    """The sends of one event loop."""

    def __init__(self, io: KernelIo) -> None:
        self._io = io
        # A copy of all data of one call at a fixed address, for the kernel.
        self._arena = bytearray(_ARENA_BYTES)
        self._arena_at = ctypes.addressof(ctypes.c_char.from_buffer(self._arena))
        self._turn = 0
        self._is_closed = False
        self._due: list[Due] = []

    @classmethod
    def open(cls) -> KernelSends | None:
        io = KernelIo.open()
        return cls(io) if io is not None else None

    def writer_of(self, transport: asyncio.Transport) -> Callable[[bytes], None]:
        socket = transport.get_extra_info("socket")
        if socket is None or transport.get_extra_info("sslcontext") is not None:
            return transport.write
        fd = socket.fileno()
        last_turn = -1

        def write(data: bytes) -> None:
            nonlocal last_turn
            if len(data) > SENT_BYTES_MAX:
                self.flush()
                transport.write(data)
                return
            due = self._due
            if last_turn == self._turn:
                # One send per transport: after a partial send nothing may follow.
                if due[-1].transport is transport and len(due[-1].data) + len(data) <= SENT_BYTES_MAX:
                    due[-1] = Due(transport, fd, due[-1].data + data)
                    return
                self.flush()
                due = self._due
            elif len(due) == SLOTS:
                self.flush()
                due = self._due
            last_turn = self._turn
            if not due:
                asyncio.get_running_loop().call_soon(self._end_turn)
            due.append(_new(Due, (transport, fd, data)))

        return write

    def flush(self) -> None:
        """Sends all buffered data now, because its connection may be closed after this call."""
        due = self._taken()
        if due:
            self._send_by_loop(due if self._is_closed else self._sent(due))

    def _end_turn(self) -> None:
        if len(self._due) == 1:  # the loop needs one call, the kernel interface two
            self._send_by_loop(self._taken())
        else:
            self.flush()

    def _taken(self) -> list[Due]:
        due, self._due = self._due, []
        self._turn += 1
        return due

    def _send_by_loop(self, due: list[Due]) -> None:
        for transport, _, data in due:
            if not transport.is_closing():
                transport.write(data)

    def _sent(self, due: list[Due]) -> list[Due]:
        """Returns what the kernel did not send."""
        requests, at, slot = self._io.requests, self._arena_at, 0
        for transport, fd, data in due:
            if transport.is_closing() or transport.get_write_buffer_size():
                return due  # the descriptor may be another connection's by now, or earlier bytes wait in the transport
            size_bytes = len(data)
            _pack_request(requests, slot * _REQUEST_BYTES, slot, 0, 0, _WRITE, 0, fd, at, size_bytes, 0, 0, 0, 0)
            at += size_bytes
            slot += 1
        used_bytes = at - self._arena_at
        if used_bytes > _ARENA_BYTES or slot > SLOTS:
            broken("27 what is sent together fits its buffer", used=used_bytes, waiting=slot)
        self._arena[:used_bytes] = b"".join([data for _, _, data in due])
        accepted = max(0, self._io.submit(slot))
        left = []
        for slot, _, sent_bytes, _ in self._io.results(self._io.collect(accepted) if accepted else 0):
            transport, fd, data = due[slot]
            if sent_bytes != len(data):  # its buffer is full, or it is closed: the loop finds out which
                if sent_bytes > len(data):
                    broken("27 no socket takes more than it is given", sent=sent_bytes, given=len(data))
                left.append(Due(transport, fd, data[max(0, sent_bytes) :]))
        return left + due[accepted:]

    def close(self) -> None:
        """Data given later goes through the loop."""
        self.flush()
        if not self._is_closed:
            self._is_closed = True
            self._io.close()
