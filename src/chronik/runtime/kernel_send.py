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
from typing import Final

from chronik.runtime.invariants import broken
from chronik.runtime.kernel_io import EVENT, REQUEST, SLOTS, KernelIo

SENT_BYTES_MAX: Final = 4096  # per message: for larger ones, copying costs more than a call
_WRITE: Final = 1
_ARENA_BYTES: Final = 256 << 10


Due = tuple[asyncio.Transport, int, int]  # transport, position in the arena, size


class KernelSends:
    """The sends of one event loop."""

    def __init__(self, io: KernelIo) -> None:
        self._io = io
        # A copy of all waiting data at a fixed address, for the kernel.
        self._arena = bytearray(_ARENA_BYTES)
        self._arena_at = ctypes.addressof(ctypes.c_char.from_buffer(self._arena))
        self._used_bytes = 0
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
            size_bytes = len(data)
            if size_bytes > SENT_BYTES_MAX:
                self.flush()
                transport.write(data)
                return
            if len(self._due) == SLOTS or self._used_bytes + size_bytes > _ARENA_BYTES:
                self.flush()
            used_bytes = at = self._used_bytes
            if last_turn == self._turn:
                # One send per transport: after a partial send nothing may follow.
                if self._due[-1][0] is transport:
                    _, at, waiting_bytes = self._due.pop()
                    size_bytes += waiting_bytes
                else:
                    self.flush()
                    used_bytes = at = self._used_bytes
            last_turn = self._turn
            due = self._due
            if not used_bytes:
                asyncio.get_running_loop().call_soon(self._end_turn)
            if at + size_bytes > _ARENA_BYTES or len(due) >= SLOTS:
                broken("27 what is sent together fits its buffer", at=at, size=size_bytes, waiting=len(due))
            self._arena[used_bytes : at + size_bytes] = data
            REQUEST.pack_into(
                self._io.requests, len(due) * REQUEST.size, len(due), 0, 0, _WRITE, 0, fd, self._arena_at + at,
                size_bytes, 0, 0, 0, 0,
            )  # fmt: skip
            self._used_bytes = at + size_bytes
            due.append((transport, at, size_bytes))

        return write

    def flush(self) -> None:
        """Sends all buffered data now, because its connection may be closed after this call."""
        due = self._taken()
        if due:
            by_loop = self._is_closed or any(map(_needs_the_loop, due))
            self._send_by_loop(due if by_loop else self._sent(due))

    def _end_turn(self) -> None:
        if len(self._due) == 1:  # the loop needs one call, the kernel interface two
            self._send_by_loop(self._taken())
        else:
            self.flush()

    def _taken(self) -> list[Due]:
        due, self._due = self._due, []
        self._used_bytes = 0
        self._turn += 1
        return due

    def _send_by_loop(self, due: list[Due]) -> None:
        # Copy first: a write may make the transport's owner add more data.
        copies: list[tuple[asyncio.Transport, bytes]] = []
        for transport, at, size in due:
            copies.append((transport, bytes(self._arena[at : at + size])))
        for transport, data in copies:
            if not transport.is_closing():
                transport.write(data)

    def _sent(self, due: list[Due]) -> list[Due]:
        """Returns what the kernel did not send."""
        accepted = max(0, self._io.submit(len(due)))
        left = []
        for index in range(self._io.collect(accepted) if accepted else 0):
            slot, _, sent_bytes, _ = EVENT.unpack_from(self._io.events, index * EVENT.size)
            transport, at, size_bytes = due[slot]
            if sent_bytes > size_bytes:
                broken("27 no socket takes more than it is given", sent=sent_bytes, given=size_bytes)
            if sent_bytes != size_bytes:  # its buffer is full, or it is closed: the loop finds out which
                sent_bytes = max(0, sent_bytes)
                left.append((transport, at + sent_bytes, size_bytes - sent_bytes))
        return left + due[accepted:]

    def close(self) -> None:
        """Data given later goes through the loop."""
        self.flush()
        if not self._is_closed:
            self._is_closed = True
            self._io.close()


def _needs_the_loop(due: Due) -> bool:
    """Whether its descriptor may belong to another connection now, or earlier bytes wait in the transport."""
    return due[0].is_closing() or due[0].get_write_buffer_size() > 0
