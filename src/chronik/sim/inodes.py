"""Files and directories of the simulated disk: what a process sees, and what a power cut would leave."""

from __future__ import annotations

from random import Random

SECTOR_BYTES = 512
READ_AHEAD = 8  # sectors read into memory together with a requested one


class Inode:
    """A file's bytes as the process sees them, and as they are known to be on the platter."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.modified_ms = 0
        self.synced = b""
        self.unsynced_from: int | None = None  # the lowest position changed since the last sync
        self.lost: set[int] = set()  # sectors that a failed sync dropped
        self.again: set[int] = set()  # dropped sectors rewritten since, which the next sync writes
        self.unreadable: tuple[int, int] | None = None  # reads that touch these bytes fail
        self.evicted: set[int] = set()  # sectors that are not in memory

    def touched(self, position: int, end: int) -> None:
        if self.unsynced_from is None or position < self.unsynced_from:
            self.unsynced_from = position
        if self.lost or self.again:
            self.lost.difference_update(_sectors(position, end))
            self.again.difference_update(_sectors(position, end))

    def is_in_memory(self, position: int, end: int) -> bool:
        return not self.evicted or self.evicted.isdisjoint(_sectors(position, end))

    def evict(self, position: int, end: int) -> None:
        self.evicted.update(_sectors(position, end))

    def brought_in(self, position: int, end: int) -> None:
        """Loads the sectors of a read and the read-ahead. A simulated append leaves them evicted, unlike a kernel's."""
        if not self.is_in_memory(position, end):
            self.evicted.difference_update(_sectors(position, end + READ_AHEAD * SECTOR_BYTES))

    def write_again(self, position: int, end: int) -> None:
        """Marks dropped sectors as rewritten. Sectors that equal the platter's stay safe, whatever happens."""
        dirty = self.lost.intersection(_sectors(position, end))
        self.lost -= dirty
        self.again |= dirty

    def sync(self) -> None:
        self.synced = self._without(self.lost, self.content)
        self.unsynced_from = None
        self.again.clear()

    def sync_failed(self) -> None:
        self.lost |= self.again
        self.again.clear()
        if self.unsynced_from is not None:
            self.lost.update(_sectors(self.unsynced_from, len(self.content)))

    def _without(self, sectors: set[int], content: bytes | bytearray) -> bytes:
        """The platter's content without these sectors: their old bytes, or nothing where nothing was."""
        if not sectors:
            return bytes(content)
        found = bytearray(content)
        for sector in sorted(sectors, reverse=True):
            start, end = sector * SECTOR_BYTES, min((sector + 1) * SECTOR_BYTES, len(found))
            old = self.synced[start:end]
            found[start:end] = old if end == len(found) else old.ljust(end - start, b"\0")
        return bytes(found)

    def after_cut(self, random: Random) -> bytes:
        return self._without(self.lost | self.again, self._after_cut(random))

    def copy(self) -> Inode:
        made = Inode()
        made.content = bytearray(self.content)
        made.unreadable, made.modified_ms = self.unreadable, self.modified_ms
        made.sync()
        return made

    def _after_cut(self, random: Random) -> bytes:
        if self.unsynced_from is None or random.random() < 0.3:
            return self.synced  # no write since the sync arrived
        size = len(self.content) if random.random() < 0.4 else random.randint(self.unsynced_from, len(self.content))
        found = bytearray(self.content[:size])
        if random.random() < 0.5:
            return bytes(found)  # a prefix arrived, cut anywhere
        for sector in range(self.unsynced_from // SECTOR_BYTES * SECTOR_BYTES, size, SECTOR_BYTES):
            start, end = max(sector, self.unsynced_from), min(sector + SECTOR_BYTES, size)
            if random.random() < 0.3:
                old = self.synced[start:end]
                remains = (bytes(end - start), random.randbytes(end - start), old.ljust(end - start, b"\0"))
                found[start:end] = random.choice(remains)
        return bytes(found)


class Directory:
    def __init__(self) -> None:
        self.entries: dict[str, Inode | Directory] = {}
        self.synced: dict[str, Inode | Directory] = {}
        self.changes: list[tuple[str, str | None, Inode | Directory | None]] = []  # since the last sync

    def put(self, name: str, node: Inode | Directory) -> None:
        self.entries[name] = node
        self.changes.append((name, None, node))

    def drop(self, name: str) -> None:
        del self.entries[name]
        self.changes.append((name, None, None))

    def move(self, name: str, new_name: str) -> None:
        self.entries[new_name] = self.entries.pop(name)
        self.changes.append((name, new_name, None))

    def sync(self) -> None:
        self.synced = dict(self.entries)
        self.changes.clear()

    def after_cut(self, random: Random) -> Directory:
        found = Directory()
        for name, node in self._entries_after_cut(random).items():
            if isinstance(node, Directory):
                found.entries[name] = node.after_cut(random)
            else:
                inode = Inode()
                inode.synced = node.after_cut(random)
                inode.content = bytearray(inode.synced)
                inode.modified_ms = node.modified_ms
                inode.unreadable = node.unreadable
                found.entries[name] = inode
        found.synced = dict(found.entries)
        return found

    def copy(self) -> Directory:
        """A copy of what a process sees, all of it durable."""
        made = Directory()
        for name, node in self.entries.items():
            made.entries[name] = node.copy()
        made.sync()
        return made

    def _entries_after_cut(self, random: Random) -> dict[str, Inode | Directory]:
        """Some of the changes arrived: a prefix, as on journaling file systems, or any subset, as POSIX allows."""
        entries = dict(self.synced)
        arrived = self.changes[: random.randint(0, len(self.changes))]
        if random.random() < 0.5:
            arrived = [change for change in self.changes if random.random() < 0.5]
        for name, new_name, node in arrived:
            if node is not None:
                entries[name] = node
            elif name in entries:
                moved = entries.pop(name)
                if new_name is not None:
                    entries[new_name] = moved
        return entries


def _sectors(position: int, end: int) -> range:
    return range(position // SECTOR_BYTES, -(-end // SECTOR_BYTES))
