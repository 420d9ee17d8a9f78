"""fdatasync without a thread of ours: the kernel carries it out and tells the event loop by an eventfd (Linux AIO).

A Python thread that waits for a disk must take the interpreter's lock from the loop to say that the disk is done. That
costs 260 us of CPU a sync and comes 0.15 ms late; this costs 65 us and comes 0.03 ms late. Several files are synced at
the same time. An error is passed on as it is, once, and nothing is tried again.

`KernelSync.open` returns None where the machine cannot do it (another system, a sandbox, no room in fs.aio-max-nr), and
`sync` takes as many files as the kernel accepts: the caller's thread does the rest. It never blocks, but for `close`.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Sequence
from struct import Struct
from typing import Final, Protocol

SLOTS: Final = 256  # syncs at a time; more go to the caller's thread
# io_setup, io_getevents, io_submit: glibc has no functions for them.
_CALLS: Final = {"x86_64": (206, 208, 209), "aarch64": (0, 4, 2)}
_FDSYNC: Final = 3
_TELL_EVENTFD: Final = 1
# data, key, rw_flags, opcode, priority, fd, buffer, size, offset, reserved, flags, eventfd
_REQUEST: Final = Struct("=QIIHhiQQqQII")
_EVENT: Final = Struct("=QQqq")  # data, request, result, second result

# Contexts that nobody uses now. Destroying one takes the kernel 30 ms, so they are kept until the process ends.
_idle_contexts: list[int] = []


class OpenFile(Protocol):
    def fileno(self) -> int: ...


class KernelSync:
    """Of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, context: int, calls: tuple[int, int, int]) -> None:
        self._loop = loop
        self._context = context
        _, self._get_events, self._submit = calls
        self._call = _system_call()
        self._eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._requests = ctypes.create_string_buffer(_REQUEST.size * SLOTS)
        first = ctypes.addressof(self._requests)
        self._addresses = (ctypes.c_void_p * SLOTS)(*[first + _REQUEST.size * slot for slot in range(SLOTS)])
        self._events = ctypes.create_string_buffer(_EVENT.size * SLOTS)
        self._waiting: dict[int, Waiting] = {}
        self._count = 0  # of everything ever waited for
        self._in_flight = 0
        loop.add_reader(self._eventfd, self._tell)

    @classmethod
    def open(cls, loop: asyncio.AbstractEventLoop) -> KernelSync | None:
        calls = _CALLS.get(os.uname().machine) if hasattr(os, "eventfd") else None
        if calls is None:
            return None
        context = _take_context(calls[0])
        if context is None:
            return None
        try:
            return cls(loop, context, calls)
        except OSError:  # no file descriptor is left: a thread needs none
            _idle_contexts.append(context)
            return None

    def sync(self, files: Sequence[OpenFile], synced: asyncio.Future[None]) -> Waiting:
        """Resolves `synced` when the first so many of `files` are synced, as many as the kernel takes: 0 is possible.
        For the rest the caller makes it wait longer.
        """
        count = min(len(files), SLOTS - self._in_flight)
        self._count += 1
        for slot, file in enumerate(files[:count]):
            fd = file.fileno()
            fields = (self._count, 0, 0, _FDSYNC, 0, fd, 0, 0, 0, 0, _TELL_EVENTFD, self._eventfd)
            _REQUEST.pack_into(self._requests, slot * _REQUEST.size, *fields)
        accepted = (
            self._call(self._submit, self._context, count, ctypes.addressof(self._addresses), 0, 0) if count else 0
        )
        waiting = Waiting(synced, max(0, accepted), files)
        if accepted > 0:
            self._in_flight += accepted
            self._waiting[self._count] = waiting
        return waiting

    def _tell(self) -> None:
        os.eventfd_read(self._eventfd)
        self._collect(at_least=0)

    def _collect(self, at_least: int) -> None:
        events = ctypes.addressof(self._events)
        count = self._call(self._get_events, self._context, at_least, SLOTS, events, 0)
        for index in range(count):
            number, _, result, _ = _EVENT.unpack_from(self._events, index * _EVENT.size)
            self._in_flight -= 1
            waiting = self._waiting[number]
            waiting.by_kernel_count -= 1
            if not waiting.by_kernel_count:
                del self._waiting[number]
            waiting.one_ended(OSError(-result, os.strerror(-result)) if result < 0 else None)

    def close(self) -> None:
        """Waits for what was submitted."""
        while self._in_flight:
            self._collect(at_least=1)
        self._loop.remove_reader(self._eventfd)
        os.close(self._eventfd)
        _idle_contexts.append(self._context)


class Waiting:
    """For so many syncs. Holds the files, which stay open by that for as long as it takes."""

    __slots__ = ("_error", "_files", "_left_count", "_synced", "by_kernel_count")

    def __init__(self, synced: asyncio.Future[None], by_kernel_count: int, files: Sequence[OpenFile]) -> None:
        self.by_kernel_count = self._left_count = by_kernel_count
        self._synced = synced
        self._files = files
        self._error: BaseException | None = None

    def wait_for(self, more: asyncio.Future[None]) -> None:
        self._left_count += 1
        more.add_done_callback(lambda ended: self.one_ended(ended.exception()))

    def one_ended(self, error: BaseException | None) -> None:
        self._left_count -= 1
        self._error = self._error or error
        if self._left_count or self._synced.cancelled():
            return
        if self._error is not None:
            self._synced.set_exception(self._error)
        else:
            self._synced.set_result(None)


def _take_context(set_up: int) -> int | None:
    """An idle one or a new one, for this caller alone: nodes of one process run on loops and threads of their own."""
    try:
        return _idle_contexts.pop()
    except IndexError:
        made = ctypes.c_ulong(0)
        accepted = _system_call()(set_up, SLOTS, ctypes.addressof(made), 0, 0, 0)
        return made.value if accepted >= 0 else None


def _system_call() -> ctypes._NamedFuncPointer:
    call = ctypes.CDLL(None).syscall
    call.argtypes = [ctypes.c_long] * 6
    call.restype = ctypes.c_long
    return call
