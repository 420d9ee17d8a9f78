"""Directories of logs that the metadata does not know: set aside under another name, reported, and removed
only after days.

A log is unknown when the metadata does not place it on this node: its topic was deleted or moved away while the node
was down, or the metadata is not the one that the log was written under. A directory is unknown when neither checkpoint
nor journal tells of it: the power went before anything in it was acknowledged, or somebody put it here. Nobody can tell
which, so its records are kept for `stray_retention_ms` and can be put back until then. A directory without any record
is removed at once.

    DIRECTORY/orders-3.1763424000000.stray/    the name it had, and when it was set aside, in ms since the epoch
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from chronik.runtime.interfaces import Disk
from chronik.runtime.units import DAY_MS
from chronik.storage import partition_metadata

logger = logging.getLogger("chronik.storage")

SUFFIX = ".stray"
NAME_CHARS_MAX = 200  # of the name it had: with a topic's of 249 characters the new one would be too long for a file
EMPTY_BYTES_MAX = 1 << 20  # looked at, to find zeros alone: what a power cut may leave of a first append


class Stray(NamedTuple):
    path: str
    name: str
    since_ms: int


def holds_records(disk: Disk, directory: str) -> bool:
    """False only if that is certain: there is nothing but a log's files, and no byte of a batch in any of them."""
    for name in disk.list(directory):
        if name in (partition_metadata.FILE, f"{partition_metadata.FILE}.tmp") or name.endswith((".index", ".aborted")):
            continue
        if not name.endswith(".log") or not _is_blank(disk, f"{directory}/{name}"):
            return True
    return False


def _is_blank(disk: Disk, path: str) -> bool:
    try:
        file = disk.open(path)
        return file.size_bytes() <= EMPTY_BYTES_MAX and not any(file.read(0, file.size_bytes()))
    except OSError:
        return False


class Strays:
    """`count` is how many there are, as of the last change."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self.count = len(self.all())

    def all(self) -> list[Stray]:
        found = []
        for entry in self._disk.list(self._directory):
            if entry.endswith(SUFFIX):
                name, _, since = entry.removesuffix(SUFFIX).rpartition(".")
                if since.isdigit():
                    found.append(Stray(f"{self._directory}/{entry}", name, int(since)))
        return found

    def set_aside(self, name: str, why: str, now_ms: int, retention_ms: int) -> None:
        """Renames DIRECTORY/NAME. Durable once the directory is synced; until then it may be back under its name."""
        short, since_ms = name[:NAME_CHARS_MAX], now_ms
        while self._disk.exists(path := f"{self._directory}/{short}.{since_ms}{SUFFIX}"):
            since_ms += 1
        self._disk.rename(f"{self._directory}/{name}", path)
        self.count += 1
        days = retention_ms / DAY_MS
        logger.warning("%s/%s %s: moved to %s, removed after %.3g days", self._directory, name, why, path, days)

    def remove_older(self, than_ms: int) -> None:
        """Removes what was set aside before that time. Blocks: it belongs on a lane."""
        for stray in self.all():
            if stray.since_ms < than_ms:
                logger.info("%s was deleted: chronik.stray.retention.ms is over", stray.path)
                self._disk.remove_tree(stray.path)
                self.count -= 1
