"""Writes the manifest when a journal is created, before anything is written to that journal.

It runs on the thread that creates the journal.
"""

from __future__ import annotations

from chronik.runtime.errors import DiskFull
from chronik.runtime.interfaces import Disk
from chronik.storage import manifest
from chronik.storage.manifest import Manifest
from chronik.storage.reserve import Reserve


class ManifestWriter:
    """`checkpoint` is the number in the newest durable checkpoint."""

    def __init__(self, disk: Disk, directory: str, checkpoint: int, reserve: Reserve) -> None:
        self.checkpoint = checkpoint
        self._disk = disk
        self._path = f"{directory}/{manifest.FILE}"
        self._reserve = reserve

    def journal_begun(self, number: int) -> None:
        data = Manifest(number, self.checkpoint).encode()
        try:
            self._disk.replace_file(self._path, data)
        except DiskFull:
            if not self._reserve.free():
                raise
            self._disk.replace_file(self._path, data)
