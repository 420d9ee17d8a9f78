"""The machine's disk: files by plain system calls, and lanes, the threads that wait for them.

It never caches, retries or hides an error: what fsync says is passed on, because after a failed fsync the kernel may
have dropped the bytes while a second fsync succeeds.

Reads copy (pread) instead of mapping. A mapped megabyte reaches a socket at 0.17 ms of CPU against 0.25 ms, but a file
cut or failing under a mapping ends the process with SIGBUS, and responses hold on to their bytes for as long as a slow
consumer takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar, cast

from chronik.runtime.errors import DiskFull, DiskInUse
from chronik.runtime.interfaces import Buffer, File, Lane
from chronik.runtime.kernel_sync import KernelSync

T = TypeVar("T")

# A thread back from fdatasync must take the GIL from the loop; Python makes the loop give it up after this time.
# The default of 5 ms would be twenty times the fdatasync itself. Shorter than 0.2 ms gained nothing when measured.
SWITCH_INTERVAL_S = 0.0002
BUFFERS_PER_WRITE_MAX = 1024  # IOV_MAX of Linux
COPY_BYTES = 4 << 20  # read and written at once
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class RealFile:
    """Position is kept here, not asked of the kernel: one process owns the directory (see RealDisk.lock)."""

    __slots__ = ("_fd", "_size_bytes", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._size_bytes = os.fstat(fd).st_size

    def size_bytes(self) -> int:
        return self._size_bytes

    def append(self, buffers: Sequence[Buffer]) -> int:
        position = self._size_bytes
        is_one = len(buffers) == 1
        expected = len(buffers[0]) if is_one else sum(map(len, buffers))
        try:
            fd = self._fd
            written = os.write(fd, buffers[0]) if is_one else os.writev(fd, buffers[:BUFFERS_PER_WRITE_MAX])
            if written != expected:
                self._write_rest(b"".join(buffers), written)
        except OSError as error:
            self._cut_back(position)
            if error.errno in FULL:
                raise DiskFull(f"no space to write {expected} bytes to {self.path}: free some disk space") from error
            raise
        self._size_bytes = position + expected
        return position

    def _write_rest(self, data: bytes, written: int) -> None:
        """A short write is how a nearly full disk begins to fail, and how Linux limits one call to 2 GiB."""
        view = memoryview(data)
        while written < len(view):
            written += os.write(self._fd, view[written:])

    def _cut_back(self, position: int) -> None:
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, position)
        self._size_bytes = os.fstat(self._fd).st_size

    def read(self, position: int, size_bytes: int) -> memoryview:
        data = os.pread(self._fd, size_bytes, position)
        if len(data) != size_bytes and position + len(data) < self._size_bytes:
            return self._read_rest(data, position, min(size_bytes, self._size_bytes - position))
        return memoryview(data)

    def _read_rest(self, data: bytes, position: int, size_bytes: int) -> memoryview:
        parts = [data]
        got = len(data)
        while got < size_bytes and (data := os.pread(self._fd, size_bytes - got, position + got)):
            parts.append(data)
            got += len(data)
        return memoryview(b"".join(parts))

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._fd, size_bytes)
        self._size_bytes = size_bytes

    def write_again(self, position: int, size_bytes: int) -> None:
        fd = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)  # ours appends wherever it is told to write
        try:
            end = min(position + size_bytes, self._size_bytes)
            while position < end:
                data = self.read(position, min(COPY_BYTES, end - position))
                position += os.pwrite(fd, data, position)
        finally:
            os.close(fd)

    def fileno(self) -> int:
        return self._fd

    def sync(self) -> None:
        _fdatasync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    __del__ = close  # a lane may still sync a file whose log was deleted: it holds the last reference


class RealLane:
    """One thread, and the kernel for syncs where it can.

    The thread's Python part is a queue, the work, and one call into the loop: each further line would wait for the GIL
    once more.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._kernel: KernelSync | None = None  # from the first sync on, where there is one
        self._is_asked = False  # whether the kernel was asked for one
        self._queue: SimpleQueue[tuple[asyncio.Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put((future, work))
        return future

    def sync(self, files: Sequence[File]) -> asyncio.Future[None]:
        if not self._is_asked:
            self._is_asked, self._kernel = True, KernelSync.open(self._loop)
        if self._kernel is None:
            return self.run(partial(_sync_each, files))
        synced, count = self._kernel.sync(cast("Sequence[RealFile]", files))
        if count == len(files):
            return synced
        return asyncio.ensure_future(_both(synced, self.run(partial(_sync_each, files[count:]))))

    def close(self) -> None:
        if self._kernel is not None:
            self._kernel.close()
        self._queue.put(None)
        self._thread.join()

    def _serve(self) -> None:
        take, hand_back = self._queue.get, self._loop.call_soon_threadsafe
        while (item := take()) is not None:
            future, work = item
            result: object = None
            fault: BaseException | None = None
            try:
                result = work()
            except BaseException as raised:  # noqa: BLE001 - whoever waits for the work gets it
                fault = raised
            try:
                hand_back(_deliver, future, result, fault)
            except RuntimeError:  # the loop is closed: nobody is left to hear it
                return
            del item, future, work, result, fault  # or the next wait would keep them alive


def _sync_each(files: Sequence[File]) -> None:
    for file in files:
        file.sync()


async def _both(first: asyncio.Future[None], second: asyncio.Future[None]) -> None:
    await asyncio.gather(first, second)


def _deliver(future: asyncio.Future[Any], result: object, fault: BaseException | None) -> None:
    if future.cancelled():
        return
    if fault is None:
        future.set_result(result)
    else:
        future.set_exception(fault)


class RealDisk:
    def __init__(self) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._locks: dict[str, int] = {}

    def open(self, path: str, *, create: bool = False) -> RealFile:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return RealFile(path, os.open(path, flags, 0o644))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list(self, directory: str) -> list[str]:
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []

    def make_directory(self, path: str, *, durable: bool = True) -> None:
        missing = []
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for directory in reversed(missing):
            os.mkdir(directory)
            if durable:
                self.sync_directory(os.path.dirname(directory))

    def read_file(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def replace_file(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            with open(fd, "wb", buffering=0) as file:
                view = memoryview(data)
                while view:
                    view = view[file.write(view) :]
                _fdatasync(fd)
        except OSError as error:
            os.unlink(temporary)
            if error.errno in FULL:
                raise DiskFull(f"no space to write {len(data)} bytes to {path}: free some disk space") from error
            raise
        os.replace(temporary, path)
        self.sync_directory(os.path.dirname(path))

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, directory: str) -> None:
        shutil.rmtree(directory)

    def sync_directory(self, directory: str) -> None:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def free_bytes(self, directory: str) -> int:
        status = os.statvfs(directory)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, directory: str) -> int:
        status = os.statvfs(directory)
        return status.f_blocks * status.f_frsize

    def lock(self, path: str) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise DiskInUse(f"{path} is locked: another broker runs on this directory") from None
        self._locks[path] = fd

    def unlock(self, path: str) -> None:
        os.close(self._locks.pop(path))

    def lane(self, name: str) -> Lane:
        return RealLane(name)


def _fdatasync(fd: int) -> None:
    """macOS has no fdatasync, and its fsync leaves the bytes in the drive's cache; F_FULLFSYNC does not."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        fcntl.fcntl(fd, getattr(fcntl, "F_FULLFSYNC"))  # noqa: B009 - typeshed knows it on macOS only
