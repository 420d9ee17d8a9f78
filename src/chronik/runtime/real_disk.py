"""The machine's disk: directories by plain system calls, and lanes, the threads that wait for them. Files: `real_file`.

It never caches, retries or hides an error: every fsync error is passed on, because after a failed fsync the kernel may
have dropped the data while a second fsync succeeds.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from chronik.runtime import descriptors
from chronik.runtime.errors import DiskInUse, Refusals, refusal
from chronik.runtime.interfaces import File, Lane
from chronik.runtime.kernel_sync import Done, KernelSync, Waiting
from chronik.runtime.real_file import AheadFile, RealFile, fdatasync
from chronik.runtime.units import NS_PER_MS

T = TypeVar("T")

# After fdatasync a thread must take the GIL from the loop, which Python forces the loop to release after this time. The
# default of 5 ms would be twenty times the fdatasync itself. Shorter than 0.2 ms gained nothing when measured.
SWITCH_INTERVAL_S = 0.0002
# Only the broker's own user may read records and metadata.
FILE_MODE, DIRECTORY_MODE = 0o600, 0o700
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class RealLane:
    """One thread, plus kernel syncs where available.

    The thread's Python part is a queue, the work, and one call into the loop: each further line would wait for the GIL
    once more.
    """

    def __init__(self, name: str, closed: Callable[[RealLane], None] = lambda lane: None) -> None:
        self.name = name
        self._closed = closed
        self._given_count = self._done_count = 0  # for the thread's work
        self._loop = asyncio.get_running_loop()
        self._kernel: KernelSync | None = None  # created at the first sync, if available
        self._is_asked = False  # whether creating it was attempted
        self._is_closed = False
        self._to_sync: list[tuple[Sequence[Any], Done]] = []  # not started yet
        self._queue: SimpleQueue[tuple[asyncio.Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        self._give(future, work)
        return future

    def _give(self, future: asyncio.Future[Any], work: Callable[[], Any]) -> None:
        self._given_count += 1
        self._queue.put((future, work))

    def sync(self, files: Sequence[File]) -> asyncio.Future[None]:
        synced: asyncio.Future[None] = self._loop.create_future()
        self.sync_then(files, partial(_deliver, synced, None))
        return synced

    def sync_then(self, files: Sequence[File], done: Done) -> None:
        """Deferred: the kernel starts the sync on our core, which takes 0.1 ms or more, and data for followers should
        leave before that."""
        if not self._to_sync:
            self._loop.call_soon(self._begin_all)
        self._to_sync.append((files, done))

    def _begin_all(self) -> None:
        to_sync, self._to_sync = self._to_sync, []
        for files, done in to_sync:
            try:
                self._begin(files, done)
            except Exception as fault:  # noqa: BLE001 - passed on to the waiter of the sync
                done(fault)

    def _begin(self, files: Sequence[Any], done: Done) -> None:
        if self._is_closed:
            raise RuntimeError("a closed lane is asked to sync")
        if not self._is_asked:
            self._is_asked, self._kernel = True, KernelSync.open(self._loop)
        if self._kernel is None:
            Waiting(done, 0, files).wait_for(self.run(partial(_sync_each, files)))
            return
        waiting = self._kernel.sync(files, done)
        if waiting.by_kernel_count < len(files) or not files:
            waiting.wait_for(self.run(partial(_sync_each, files[waiting.by_kernel_count :])))

    def under_way(self) -> list[tuple[str, int]]:
        done_count = self._done_count
        found = [("thread", done_count)] if done_count < self._given_count else []
        oldest = None if self._kernel is None else self._kernel.oldest
        return found if oldest is None else [*found, ("kernel", oldest)]

    def close(self) -> None:
        self._begin_all()
        self._is_closed = True
        self._closed(self)
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
            except BaseException as raised:  # noqa: BLE001 - passed on to the waiter of the work
                fault = raised
            self._done_count += 1
            try:
                hand_back(_deliver, future, result, fault)
            except RuntimeError:  # the loop is closed: no caller is left
                return
            del item, future, work, result, fault  # otherwise they would live until the next work arrives


def _lock_directory(fd: int) -> None:
    """Raises BlockingIOError if it is locked. A file system that locks no directories, as NFS, is content with the
    file."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        return


def _sync_each(files: Sequence[File]) -> None:
    for file in files:
        file.sync()


def _deliver(future: asyncio.Future[Any], result: object, fault: BaseException | None) -> None:
    if future.cancelled():
        return
    if fault is None:
        future.set_result(result)
    else:
        future.set_exception(fault)


def _replace(path: str, data: bytes) -> None:
    temporary = path + ".tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        with open(fd, "wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
            fdatasync(fd)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise


class RealDisk:
    # Measured on ext4: 32 KB take 0.20 ms through the journal and 0.39 ms through their own file, 128 KB 0.30 and 0.49,
    # 256 KB 0.67 and 0.60.
    journal_bytes_max = 192 << 10
    # Measured over loopback: four pieces of 0.9 MB take 1.9 ms one by one, 3.0 ms as a whole; below 256 KB it is equal.
    piece_bytes_min = 256 << 10

    def __init__(self) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._locks: dict[str, list[int]] = {}  # descriptors that hold the lock, by path
        self.refused = Refusals()
        self.prompt_lanes: list[Lane] = []
        self.files_max = descriptors.shares(descriptors.limit()).files_max

    @contextlib.contextmanager
    def _refusals(self, work: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            refused = refusal(error, work)
            if refused is None:
                raise
            raise self.refused.note(refused) from error

    def open(self, path: str, *, create: bool = False) -> RealFile:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        with self._refusals(f"open {path}"):
            return RealFile(path, os.open(path, flags, FILE_MODE), self.refused)

    def create_ahead(self, path: str, ahead_bytes: int) -> AheadFile:
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with self._refusals(f"open {path}"):
            return AheadFile(path, os.open(path, flags, FILE_MODE), ahead_bytes, self.refused)

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
            with self._refusals(f"make {directory}"):
                os.mkdir(directory, DIRECTORY_MODE)
                if durable:
                    self._sync_entry(directory)

    def _sync_entry(self, directory: str) -> None:
        """Syncs a new directory's entry, or removes it on failure: otherwise the next call would take it for
        durable."""
        try:
            self.sync_directory(os.path.dirname(directory))
        except OSError:
            os.rmdir(directory)
            raise

    def read_file(self, path: str) -> bytes:
        with self._refusals(f"read {path}"), open(path, "rb") as file:
            try:
                return file.read()
            except OSError as error:
                error.filename = path
                raise

    def replace_file(self, path: str, data: bytes) -> None:
        work = f"write {len(data)} bytes to {path}"
        with self._refusals(work):  # open first: after the replacement nothing may be refused
            directory_fd = os.open(os.path.dirname(path), DIRECTORY)
        try:
            with self._refusals(work):
                _replace(path, data)
            os.fsync(directory_fd)
        finally:
            os.close(directory_fd)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, directory: str) -> None:
        shutil.rmtree(directory)

    def sync_directory(self, directory: str) -> None:
        fd = os.open(directory, DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // NS_PER_MS

    def set_modified(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * NS_PER_MS, modified_ms * NS_PER_MS))

    def free_bytes(self, directory: str) -> int:
        status = os.statvfs(directory)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, directory: str) -> int:
        status = os.statvfs(directory)
        return status.f_blocks * status.f_frsize

    def lock(self, path: str) -> None:
        """Locks the directory as well: the file alone may be removed, and the next process would lock a new one."""
        held = [os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)]
        try:
            fcntl.flock(held[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
            held.append(os.open(os.path.dirname(path), DIRECTORY))
            _lock_directory(held[1])
        except OSError as error:
            for fd in held:
                os.close(fd)
            if isinstance(error, BlockingIOError):
                raise DiskInUse(
                    f"{path} is locked: another broker runs on this directory; stop it, or use another"
                ) from None
            raise
        self._locks[path] = held

    def unlock(self, path: str) -> None:
        for fd in self._locks.pop(path):
            os.close(fd)

    def lane(self, name: str, *, is_prompt: bool = False) -> Lane:
        if not is_prompt:
            return RealLane(name)
        lane = RealLane(name, self.prompt_lanes.remove)
        self.prompt_lanes.append(lane)
        return lane
