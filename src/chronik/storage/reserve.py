"""A file that reserves disk space for writes that are needed on a full disk.

Deleting old segments requires notes in the journal, which take space. So the reserve is removed when a write that frees
space, or one that cannot wait, finds no space. Maintenance creates it again when there is enough.
"""

from __future__ import annotations

from chronik.runtime.errors import DiskFull
from chronik.runtime.interfaces import Disk

RESERVE_BYTES = 1 << 20


class Reserve:
    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/reserve"

    def keep(self) -> None:
        """Creates the file if it is missing and there is space for it."""
        if self._disk.exists(self._path):
            return
        try:
            self._disk.replace_file(self._path, bytes(RESERVE_BYTES))
        except DiskFull:
            return

    def free(self) -> bool:
        """Frees the reserved space for the next write. False if it is already free."""
        if not self._disk.exists(self._path):
            return False
        self._disk.remove(self._path)
        return True
