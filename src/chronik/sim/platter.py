"""Damage to the files of a machine that is off: parts become lost, old, damaged or misplaced.

Every change is durable at once, in the cache and on the platter alike, and no call reports it: a process notices when
it reads, or never. `SimDisk` defines what a power cut may do; everything here goes beyond that.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from random import Random

from chronik.sim.disk import SimDisk
from chronik.sim.inodes import Directory, Inode


class Platter:
    """The file tree of a disk that no process uses. Paths are as in `SimDisk`."""

    def __init__(self, disk: SimDisk) -> None:
        self._root = disk.root
        _write_back(self._root)

    def files(self, under: str = "") -> list[str]:
        """Full paths, sorted."""
        node = self._find(under)
        return sorted(_files_in(node, under)) if isinstance(node, Directory) else []

    def directories(self, under: str) -> list[str]:
        node = self._find(under)
        if not isinstance(node, Directory):
            return []
        return sorted(f"{under}/{name}" for name, each in node.entries.items() if isinstance(each, Directory))

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def content(self, path: str) -> bytes:
        return bytes(self._file(path).content)

    def drop(self, path: str) -> None:
        """Removes a file or a whole directory, like `rm -r`."""
        parent, name = self._parent(path)
        if name in parent.entries:
            parent.drop(name)
            parent.sync()

    def exchange(self, path: str, other: str) -> None:
        """Swaps two files."""
        (parent, name), (other_parent, other_name) = self._parent(path), self._parent(other)
        here, there = parent.entries[name], other_parent.entries[other_name]
        parent.put(name, there)
        other_parent.put(other_name, here)
        parent.sync()
        other_parent.sync()

    def restore(self, path: str, image: Directory) -> bool:
        """Replaces everything under this path by its copy in an old image; False: the image has no such path, so it is
        removed."""
        if not path:
            self._root.entries = image.copy().entries
            self._root.sync()
            return True
        parent, name = self._parent(path)
        node: Directory | Inode | None = image.copy()
        for part in path.split("/"):
            if part:
                node = node.entries.get(part) if isinstance(node, Directory) else None
        if node is not None:
            parent.put(name, node)
            parent.sync()
            return True
        self.drop(path)
        return False

    def overwrite(self, path: str, position: int, data: bytes) -> None:
        """Never beyond the end of the file. A running process reads it once memory no longer holds the sectors."""
        inode = self._file(path)
        data = data[: max(0, len(inode.content) - position)]
        inode.content[position : position + len(data)] = data
        inode.synced = bytes(inode.content)
        inode.evict(position, position + len(data))

    def cut(self, path: str, size_bytes: int) -> None:
        inode = self._file(path)
        del inode.content[size_bytes:]
        inode.synced = bytes(inode.content)

    def make_unreadable(self, path: str, start: int, end: int) -> None:
        """Reads that touch these bytes fail with EIO, as long as the file exists."""
        self._file(path).unreadable = (start, end)

    def _find(self, path: str) -> Directory | Inode | None:
        node: Directory | Inode | None = self._root
        for name in path.split("/"):
            if name:
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


def image_of(disk: SimDisk, random: Random) -> Directory:
    """A copy of the whole disk as a power cut at this moment would leave it. The disk itself is unchanged."""
    return disk.root.after_cut(random)


def _write_back(directory: Directory) -> None:
    """The kernel has written back its cache, except for sectors that a failed sync dropped."""
    for node in directory.entries.values():
        if isinstance(node, Directory):
            _write_back(node)
        else:
            node.sync()
            node.content = bytearray(node.synced)
    directory.sync()


def _files_in(directory: Directory, path: str) -> Iterator[str]:
    for name, node in directory.entries.items():
        if isinstance(node, Directory):
            yield from _files_in(node, f"{path}/{name}")
        else:
            yield f"{path}/{name}"
