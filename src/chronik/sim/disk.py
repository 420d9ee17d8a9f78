"""An in-memory disk that loses unsynced data, driven by a seed. No file, no thread, no clock.

What a power cut may do, and no more, because more would make durability impossible on any disk:
- bytes appended since the file's last sync are lost wholly or in part, at 512-byte sectors, in any order; a lost sector
  inside the file reads as zeros or as garbage;
- a truncation since the last sync may not have happened;
- entries created, renamed or removed in a directory since its last sync may be as before, independently of each other,
  even if the file was synced;
- synced bytes and entries stay, unless a test flips a bit, or `platter` damages them.
After a failed sync its sectors are clean in the cache and unchanged on the platter, as on Linux: reads return the new
data, later syncs succeed without writing it, and only writing it again makes a sync include it.
"""

from __future__ import annotations

import asyncio
import errno
import functools
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from chronik.runtime import whole_reads
from chronik.runtime.errors import DiskFull, DiskInUse, Refusals, refusal
from chronik.runtime.interfaces import Buffer, File, Lane
from chronik.sim.inodes import Directory, Inode
from chronik.sim.meter import Meter
from chronik.sim.prices import DISK_CALL_NS, DISK_PS_PER_BYTE, DISK_SYNC_NS

T = TypeVar("T")

AHEAD_STEP_BYTES = 2048
SYNCS = ("sync", "sync_directory")
REFUSABLE = ("open", "make_directory", "append")  # for these, lack of space is a DiskFull, not a failure
JOURNAL_BYTES_MAX = (300, 192 << 10, 0)  # mixed; all data through the journal; all data in its own files
ALWAYS_NEW_MS = 1 << 62  # modification time on a disk without a clock
PIECE_BYTES_MIN = (128 << 10, 150)  # the real disk's value, and two batches


class PowerCut(BaseException):
    """Raised by every call once the power is off. Not an Exception, so that no handler continues."""


class SimFile:
    def __init__(self, disk: SimDisk, path: str, inode: Inode) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode

    def size_bytes(self) -> int:
        return len(self._inode.content)

    def append(self, buffers: Sequence[Buffer]) -> int:
        self._disk.step("append", self.path)
        data = b"".join(buffers)
        self._disk.charge(len(data))
        self._disk.take_space(len(data), self.path)
        position = len(self._inode.content)
        self._inode.content += data
        self._inode.modified_ms = self._disk.wall_ms()
        self._inode.touched(position, position + len(data))
        return position

    def read(self, position: int, size_bytes: int) -> memoryview:
        self._disk.step("read", self.path)
        require_readable(self._inode, self.path, position, size_bytes)
        data = self._read(size_bytes, position)
        end = min(position + size_bytes, len(self._inode.content))
        if position + len(data) < end:
            return whole_reads.read_rest(self._read, data, position, end - position)
        return memoryview(data)

    def read_noting_origin(self, position: int, size_bytes: int) -> tuple[memoryview, bool]:
        was_in_memory = self._inode.is_in_memory(position, position + size_bytes)
        return self.read(position, size_bytes), was_in_memory

    def _read(self, size_bytes: int, position: int) -> bytes:
        """Like pread: it may return less; it returns nothing only at the end of the file."""
        there_bytes = max(0, min(size_bytes, len(self._inode.content) - position))
        count = self._disk.read_bytes(there_bytes)
        self._disk.charge(count)
        self._inode.brought_in(position, position + count)
        return bytes(self._inode.content[position : position + count])

    def truncate(self, size_bytes: int) -> None:
        self._disk.step("truncate", self.path)
        self._inode.modified_ms = self._disk.wall_ms()
        self._inode.touched(min(size_bytes, len(self._inode.content)), max(size_bytes, len(self._inode.content)))
        grown = size_bytes - len(self._inode.content)
        del self._inode.content[size_bytes:]
        self._inode.content += bytes(max(0, grown))

    def write_again(self, position: int, size_bytes: int) -> None:
        self._disk.step("write_again", self.path)
        end = min(position + size_bytes, len(self._inode.content))
        self._inode.write_again(position, end)

    def sync(self) -> None:
        try:
            self._disk.step("sync", self.path)
        except OSError:
            self._inode.sync_failed()
            if self._disk.on_failed_sync is not None:
                self._disk.on_failed_sync()
            raise
        if self._disk.lies_about(self.path):
            self._inode.sync_failed()
        else:
            self._inode.sync()

    def forget(self, start: int, end: int) -> None:
        self._disk.step("forget", self.path)

    def is_in_place(self) -> bool:
        return self._disk.holds(self.path, self._inode)

    def close(self) -> None:
        pass


class SimAheadFile(SimFile):
    """A file with zeros after its end, up to the next step. Steps are small, so that tests reach the end of one."""

    def __init__(self, disk: SimDisk, path: str, inode: Inode) -> None:
        super().__init__(disk, path, inode)
        self._end = 0

    def size_bytes(self) -> int:
        return self._end

    def append(self, buffers: Sequence[Buffer]) -> int:
        self._disk.step("append", self.path)
        data = b"".join(buffers)
        self._disk.charge(len(data))
        position, end = self._end, self._end + len(data)
        content = self._inode.content
        if end > len(content):
            whole_steps = -(-end // AHEAD_STEP_BYTES) * AHEAD_STEP_BYTES
            grown = bytes(self._disk.space_for(whole_steps - len(content), end - len(content), self.path))
            self._inode.touched(len(content), len(content) + len(grown))
            content += grown
        content[position:end] = data
        self._inode.touched(position, end)
        self._end = end
        return position

    def read(self, position: int, size_bytes: int) -> memoryview:
        return super().read(position, max(0, min(size_bytes, self._end - position)))

    def truncate(self, size_bytes: int) -> None:
        super().truncate(size_bytes)
        self._end = size_bytes


class SimLane:
    """Runs work on the loop, at its next iteration or after `delay_s` of virtual time; always in order."""

    def __init__(self, disk: SimDisk, name: str, closed: Callable[[SimLane], None] = lambda lane: None) -> None:
        self._disk = disk
        self.name = name
        self._closed = closed
        self._done_count = 0
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[asyncio.Future[object], Callable[[], object]]] = []

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting.append((future, work))  # type: ignore[arg-type]
        if len(self._waiting) == 1:
            self._schedule()
        return future

    def sync(self, files: Sequence[File]) -> asyncio.Future[None]:
        def each() -> None:
            for file in files:
                file.sync()

        return self.run(each)

    def sync_then(self, files: Sequence[File], done: Callable[[BaseException | None], None]) -> None:
        self.sync(files).add_done_callback(lambda synced: done(synced.exception()))

    def under_way(self) -> list[tuple[str, int]]:
        return [("lane", self._done_count)] if self._waiting else []

    def close(self) -> None:
        while self._waiting:
            self._serve()
        self._closed(self)

    def _schedule(self) -> None:
        delay_s = self._disk.delay_s if self._disk.latency_s is None else self._disk.latency_s()
        if delay_s:
            self._loop.call_later(delay_s, self._serve)
        else:
            self._loop.call_soon(self._serve)

    def _serve(self) -> None:
        if not self._waiting:
            return
        future, work = self._waiting[0]
        try:
            result = self._disk.off_the_loop(work)
        except PowerCut:
            self._waiting.clear()  # the machine is off: no work completes and no callback runs
            return
        except BaseException as error:  # noqa: BLE001 - passed on to the waiter of the work
            self._pop()
            if not future.cancelled():
                future.set_exception(error)
        else:
            self._pop()
            if not future.cancelled():
                future.set_result(result)
        if self._waiting:
            self._schedule()

    def _pop(self) -> None:
        self._waiting.pop(0)
        self._done_count += 1


class SimDisk:
    """A Disk. `capacity_bytes` bounds all files together; `delay_s` is the duration of one lane operation."""

    def __init__(self, seed: int, capacity_bytes: int | None = None) -> None:
        self.journal_bytes_max = JOURNAL_BYTES_MAX[seed % 3]
        self.piece_bytes_min = PIECE_BYTES_MIN[seed % 2]
        self._random = Random(seed)
        self._root = Directory()
        self._locked: set[str] = set()
        self._failing: list[tuple[str, str, int]] = []
        self._lies: list[str] = []
        self._steps_left = -1
        self.capacity_bytes = capacity_bytes
        self._stays_full = False  # whether `heal` leaves it full
        self.short_permille = 0  # of 1000 reads, how many return less than they could
        self._short_reads = Random(seed + 1)
        self.delay_s = 0.0
        self.latency_s: Callable[[], float] | None = None  # duration of each operation, replaces `delay_s`
        self.on_power_cut: Callable[[], None] | None = None  # called once, by the call that finds the power off
        self.on_failed_sync: Callable[[], None] | None = None  # called whenever a sync fails
        self.wall_ms: Callable[[], int] = lambda: ALWAYS_NEW_MS
        self.refused = Refusals()
        self.prompt_lanes: list[Lane] = []
        self.files_max = 1 << 30
        self.calls: Counter[str] = Counter()
        self.meter: Meter | None = None  # the process's meter, if its work takes time

    # Faults for tests

    def power_cut(self) -> SimDisk:
        """The disk as found when the power is back. The old object refuses every later call."""
        self._steps_left = 0
        return self._successor(self._root.after_cut(self._random))

    def process_killed(self) -> SimDisk:
        """The disk as the next process finds it after kill -9: the page cache is intact."""
        self._steps_left = 0
        return self._successor(self._root)

    def _successor(self, root: Directory) -> SimDisk:
        found = SimDisk(self._random.getrandbits(64), self.capacity_bytes)
        found._root, found.latency_s, found.wall_ms = root, self.latency_s, self.wall_ms
        found.short_permille, found._stays_full = self.short_permille, self._stays_full
        return found

    def cut_after(self, steps: int) -> None:
        """The power fails during the call that follows `steps` more calls."""
        self._steps_left = steps

    def fail(self, operation: str, path_part: str = "", code: int = errno.EIO) -> None:
        """The next `operation` (append, read, sync, truncate, ...) on a path containing `path_part` fails."""
        self._failing.append((operation, path_part, code))

    def lie(self, path_part: str, times: int) -> None:
        """The next `times` syncs of paths that contain `path_part` return without writing."""
        self._lies += [path_part] * times

    def fill(self, left_bytes: int | None, *, for_good: bool = False) -> None:
        """From now on, this many bytes are free; None: unlimited."""
        self._stays_full = for_good
        self.capacity_bytes = None if left_bytes is None else _used_bytes(self._root) + left_bytes

    def heal(self) -> None:
        """Cancels all requested failures and frees the disk, unless it is full for good."""
        if not self._stays_full:
            self.capacity_bytes = None
        self._failing.clear()
        self._lies.clear()
        self._steps_left = -1
        self.short_permille = 0

    def flip_bit(self, path: str, position: int, bit: int = 0) -> None:
        """Bit rot: the byte is wrong in cache and on the platter, and no call failed."""
        inode = self._file(path)
        inode.content[position] ^= 1 << bit
        if position < len(inode.synced):
            synced = bytearray(inode.synced)
            synced[position] ^= 1 << bit
            inode.synced = bytes(synced)

    @property
    def root(self) -> Directory:
        """The whole tree, for damage to a disk that no process uses."""
        return self._root

    # For checkers; these do not count as steps

    def content(self, path: str, *, with_page_cache: bool) -> bytes | None:
        """A file as the next process finds it, or only what survives any power cut; None: it does not exist."""
        node = self._look(path, with_page_cache=with_page_cache)
        if not isinstance(node, Inode):
            return None
        return bytes(node.content) if with_page_cache else node.synced

    def names(self, directory: str, *, with_page_cache: bool) -> list[str]:
        node = self._look(directory, with_page_cache=with_page_cache)
        if not isinstance(node, Directory):
            return []
        return sorted(node.entries if with_page_cache else node.synced)

    def _look(self, path: str, *, with_page_cache: bool) -> Inode | Directory | None:
        node: Inode | Directory | None = self._root
        for name in _parts(path):
            if not isinstance(node, Directory):
                return None
            node = (node.entries if with_page_cache else node.synced).get(name)
        return node

    # For the files

    def step(self, operation: str, path: str) -> None:
        if self._steps_left == 0:
            told, self.on_power_cut = self.on_power_cut, None
            if told is not None:
                told()
            raise PowerCut
        self._steps_left -= 1
        self.calls[operation] += 1
        if self.meter is not None:
            self.meter.charge(DISK_SYNC_NS if operation in SYNCS else DISK_CALL_NS)
        for rule in self._failing:
            if rule[0] == operation and rule[1] in path:
                self._failing.remove(rule)
                error = OSError(rule[2], f"simulated fault of {operation}", path)
                refused = refusal(error, f"{operation} {path}") if operation in REFUSABLE else None
                raise error if refused is None else self.refused.note(refused)

    def read_bytes(self, there_bytes: int) -> int:
        """How many of the available bytes one call returns."""
        if self.short_permille and there_bytes > 1 and self._short_reads.randrange(1000) < self.short_permille:
            return self._short_reads.randrange(1, there_bytes)
        return there_bytes

    def charge(self, size_bytes: int) -> None:
        if self.meter is not None:
            self.meter.charge(size_bytes * DISK_PS_PER_BYTE // 1000)

    def off_the_loop(self, work: Callable[[], T]) -> T:
        """Work on a lane is free for the loop."""
        meter = self.meter
        if meter is None:
            return work()
        meter.works_elsewhere = True
        try:
            return work()
        finally:
            meter.works_elsewhere = False

    def lies_about(self, path: str) -> bool:
        for part in self._lies:
            if part in path:
                self._lies.remove(part)
                return True
        return False

    def take_space(self, size_bytes: int, path: str) -> None:
        if self.capacity_bytes is not None and size_bytes > self.capacity_bytes - _used_bytes(self._root):
            text = f"no space to write {size_bytes} bytes to {path}: free some disk space"
            raise self.refused.note(DiskFull(text))

    def space_for(self, size_bytes: int, at_least_bytes: int, path: str) -> int:
        """How much of `size_bytes` fits: all, or at least the minimum."""
        try:
            self.take_space(size_bytes, path)
        except DiskFull:
            self.take_space(at_least_bytes, path)
            return at_least_bytes
        return size_bytes

    # The Disk interface

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self.step("open", path)
        parent, name = self._parent(path)
        node = parent.entries.get(name)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            node = Inode()
            parent.put(name, node)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return SimFile(self, path, node)

    def create_ahead(self, path: str, ahead_bytes: int) -> SimAheadFile:
        self.open(path, create=True).truncate(0)
        return SimAheadFile(self, path, self._file(path))

    def exists(self, path: str) -> bool:
        self.step("exists", path)
        return self._find(path) is not None

    def list(self, directory: str) -> list[str]:
        self.step("list", directory)
        node = self._find(directory)
        return sorted(node.entries) if isinstance(node, Directory) else []

    def make_directory(self, path: str, *, durable: bool = True) -> None:
        self.step("make_directory", path)
        node = self._root
        for name in _parts(path):
            if name not in node.entries:
                node.put(name, Directory())
                if durable:
                    node.sync()
            child = node.entries[name]
            if not isinstance(child, Directory):
                raise FileExistsError(errno.EEXIST, "is a file", path)
            node = child

    def read_file(self, path: str) -> bytes:
        self.step("read", path)
        inode = self._file(path)
        require_readable(inode, path, 0, len(inode.content))
        return bytes(inode.content)

    def replace_file(self, path: str, data: bytes) -> None:
        temporary = self.open(path + ".tmp", create=True)
        temporary.truncate(0)
        temporary.append([data])
        temporary.sync()
        self.rename(path + ".tmp", path)
        self.sync_directory(path.rpartition("/")[0])

    def rename(self, old: str, new: str) -> None:
        self.step("rename", old)
        parent, name = self._parent(old)
        new_parent, new_name = self._parent(new)
        if name not in parent.entries:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        if new_parent is not parent:
            raise OSError(errno.EXDEV, "the simulated disk renames within a directory only", old)
        parent.move(name, new_name)

    def remove(self, path: str) -> None:
        self.step("remove", path)
        self._file(path)
        parent, name = self._parent(path)
        parent.drop(name)

    def remove_tree(self, directory: str) -> None:
        self.step("remove_tree", directory)
        parent, name = self._parent(directory)
        if not isinstance(parent.entries.get(name), Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", directory)
        parent.drop(name)

    def sync_directory(self, directory: str) -> None:
        self.step("sync_directory", directory)
        node = self._find(directory)
        if not isinstance(node, Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", directory)
        node.sync()

    def modified_ms(self, path: str) -> int:
        self.step("modified_ms", path)
        return self._file(path).modified_ms

    def set_modified(self, path: str, modified_ms: int) -> None:
        self.step("set_modified", path)
        self._file(path).modified_ms = modified_ms

    def free_bytes(self, directory: str) -> int:
        self.step("free_bytes", directory)
        return self.total_bytes(directory) - _used_bytes(self._root)

    def total_bytes(self, directory: str) -> int:
        return 1 << 40 if self.capacity_bytes is None else self.capacity_bytes

    def lock(self, path: str) -> None:
        """Locks are stored outside of the files, so that a lock holds even if its file is removed."""
        self.open(path, create=True)
        if path in self._locked:
            raise DiskInUse(f"{path} is locked: another broker runs on this directory; stop it, or use another")
        self._locked.add(path)

    def unlock(self, path: str) -> None:
        self._locked.remove(path)

    def lane(self, name: str, *, is_prompt: bool = False) -> SimLane:
        if not is_prompt:
            return SimLane(self, name)
        lane = SimLane(self, name, self.prompt_lanes.remove)
        self.prompt_lanes.append(lane)
        return lane

    def holds(self, path: str, inode: Inode) -> bool:
        return self._find(path) is inode

    def _find(self, path: str) -> Inode | Directory | None:
        node: Inode | Directory | None = self._root
        for name in _parts(path):
            node = node.entries.get(name) if isinstance(node, Directory) else None
        return node

    def _file(self, path: str) -> Inode:
        node = self._find(path)
        if not isinstance(node, Inode):
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        directory, _, name = path.rpartition("/")
        parent = self._find(directory)
        if not isinstance(parent, Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", directory)
        return parent, name


def require_readable(inode: Inode, path: str, position: int, size_bytes: int) -> None:
    if inode.unreadable is not None:
        start, end = inode.unreadable
        if position < end and start < position + size_bytes:
            raise OSError(errno.EIO, f"simulated bad sectors at {start} to {end}", path)


@functools.lru_cache(4096)  # a world uses few paths, but often
def _parts(path: str) -> tuple[str, ...]:
    return tuple(name for name in path.split("/") if name)


def _used_bytes(directory: Directory) -> int:
    return sum(
        _used_bytes(node) if isinstance(node, Directory) else len(node.content) for node in directory.entries.values()
    )
