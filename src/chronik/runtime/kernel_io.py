"""Linux AIO by its three system calls, which glibc does not wrap: submits many operations in one call.

`KernelIo.open` returns None where AIO is unavailable (another system, a sandbox, fs.aio-max-nr reached). This module
does not interpret operations: callers write requests and read events.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from struct import Struct
from typing import Any, Final

SLOTS: Final = 256  # concurrent operations
# data, key, rw_flags, opcode, priority, fd, buffer, size, offset, reserved, flags, eventfd
REQUEST: Final = Struct("=QIIHhiQQqQII")
EVENT: Final = Struct("=QQqq")  # data, request, result, second result
_CALLS: Final = {"x86_64": (206, 208, 209), "aarch64": (0, 4, 2)}  # io_setup, io_getevents, io_submit

# Unused contexts. Destroying one takes the kernel 30 ms, so they are reused until the process ends.
_idle_contexts: list[int] = []


class KernelIo:
    """For one caller: nodes of one process run on separate loops and threads."""

    def __init__(self, context: int, calls: tuple[int, int, int]) -> None:
        self.requests = ctypes.create_string_buffer(REQUEST.size * SLOTS)
        self.events = ctypes.create_string_buffer(EVENT.size * SLOTS)
        self._events_view = memoryview(self.events)
        self._context = context
        _, self._get_events, self._submit = calls
        self._call = _system_call()
        first = ctypes.addressof(self.requests)
        self._addresses = (ctypes.c_void_p * SLOTS)(*[first + REQUEST.size * slot for slot in range(SLOTS)])
        self._addresses_at = ctypes.addressof(self._addresses)
        self._events_at = ctypes.addressof(self.events)

    @classmethod
    def open(cls) -> KernelIo | None:
        calls = _CALLS.get(os.uname().machine) if hasattr(os, "eventfd") else None
        if calls is None:
            return None
        try:
            return cls(_idle_contexts.pop(), calls)
        except IndexError:
            made = ctypes.c_ulong(0)
            accepted = _system_call()(calls[0], SLOTS, ctypes.addressof(made), 0, 0, 0)
            return cls(made.value, calls) if accepted >= 0 else None

    def submit(self, count: int) -> int:
        """The number of accepted requests among the first `count`; negative for none."""
        return int(self._call(self._submit, self._context, count, self._addresses_at, 0, 0))

    def collect(self, at_least: int) -> int:
        """Waits for `at_least` completions, and returns the number of `events`."""
        return int(self._call(self._get_events, self._context, at_least, SLOTS, self._events_at, 0))

    def results(self, count: int) -> Iterator[tuple[Any, ...]]:
        """The first `count` of the `events`, unpacked. They are copied: the next `collect` changes nothing of them."""
        return EVENT.iter_unpack(bytes(self._events_view[: count * EVENT.size]))

    def close(self) -> None:
        """Call this once all accepted operations are collected."""
        _idle_contexts.append(self._context)


def _system_call() -> ctypes._NamedFuncPointer:
    call = ctypes.CDLL(None).syscall
    call.argtypes = [ctypes.c_long] * 6
    call.restype = ctypes.c_long
    return call
