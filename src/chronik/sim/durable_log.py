"""A node's Raft log as its disk would show it after a power cut, read from the simulated platter and kept up to date.

It reads only synced data, in the product's own format, independently of the process's memory.
"""

from __future__ import annotations

from collections.abc import Callable

from chronik.raft.journal_format import Base, frame_at, records
from chronik.raft.messages import HardState
from chronik.sim.disk import SimDisk

FRAME_HEAD_BYTES = 20


class DurableLog:
    def __init__(self, disk: Callable[[], SimDisk], directory: str, *, with_page_cache: bool = False) -> None:
        """`disk` returns the machine's current disk: a power cut replaces it."""
        self._with_page_cache = with_page_cache
        self._newest_disk, self._directory = disk, directory
        self.hard_state = HardState()
        self.base = Base(0, 0)
        self.terms: list[int] = []  # of the entries after the base
        self._disk: SimDisk | None = None
        self._name = ""
        self._position = 0

    def refresh(self) -> None:
        disk = self._newest_disk()
        names = [
            name
            for name in disk.names(self._directory, with_page_cache=self._with_page_cache)
            if name.startswith("journal-")
        ]
        for name in sorted(names, key=lambda name: -int(name.removeprefix("journal-"))):
            path = f"{self._directory}/{name}"
            data = memoryview(disk.content(path, with_page_cache=self._with_page_cache) or b"")
            if frame_at(data, 0) is not None:
                self._read(disk, name, data)
                return
        self.hard_state, self.base, self.terms = HardState(), Base(0, 0), []

    def _read(self, disk: SimDisk, name: str, data: memoryview) -> None:
        if (disk, name) != (self._disk, self._name) or len(data) < self._position:
            self._disk, self._name, self._position = disk, name, 0
        while (body := frame_at(data, self._position)) is not None:
            self._position += FRAME_HEAD_BYTES + len(body)
            for record in records(body):
                if isinstance(record, HardState):
                    self.hard_state = record
                elif isinstance(record, Base):
                    self.base, self.terms = record, []
                else:
                    del self.terms[record.index - self.base.base_index - 1 :]
                    self.terms.append(record.term)

    def holds(self, index: int, term: int) -> bool:
        place = index - self.base.base_index - 1
        if place < 0:
            return True  # a snapshot covers it, and snapshots hold only committed entries
        return place < len(self.terms) and self.terms[place] == term
