"""Directories of unknown logs: they are renamed, reported, and removed only after days.

A log is unknown when the metadata does not place it on this node: its topic was deleted or moved away while the node
was down, or the metadata is not the one that the log was written under. A directory is unknown when neither checkpoint
nor journal mentions it: the power failed before anything in it was acknowledged, or another program created it. The
node cannot tell which. So the records are kept for `stray_retention_ms`, and can be restored until then. A directory
without any record is removed at once.

    DIRECTORY/orders-3.1763424000000.stray/    its former name, and when it was set aside, in ms since the epoch
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from chronik.runtime.interfaces import Disk
from chronik.runtime.units import DAY_MS
from chronik.storage import partition_metadata

logger = logging.getLogger("chronik.storage")

SUFFIX = ".stray"
# Of the former name: with a topic name of 249 characters, the new name would be too long for a file.
NAME_CHARS_MAX = 200
# Files up to this size are checked for zeros only, which a power cut may leave of a first append.
EMPTY_BYTES_MAX = 1 << 20


class Stray(NamedTuple):
    path: str
    name: str
    since_ms: int


def holds_records(disk: Disk, directory: str) -> bool:
    """False only if it is certain that there is nothing but a log's files, and no byte of a batch in any of them."""
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
    """`count` is the number of stray directories, as of the last change."""

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
        """Renames DIRECTORY/NAME. Durable once the directory is synced; until then it may reappear under its former
        name."""
        short, since_ms = name[:NAME_CHARS_MAX], now_ms
        while self._disk.exists(path := f"{self._directory}/{short}.{since_ms}{SUFFIX}"):
            since_ms += 1
        self._disk.rename(f"{self._directory}/{name}", path)
        self.count += 1
        days = retention_ms / DAY_MS
        logger.warning("%s/%s %s: moved to %s, removed after %.3g days", self._directory, name, why, path, days)

    def remove_older(self, than_ms: int) -> None:
        """Removes strays that were set aside before that time. Blocks: call it on a lane."""
        for stray in self.all():
            if stray.since_ms < than_ms:
                logger.info("%s was deleted: chronik.stray.retention.ms is over", stray.path)
                self._disk.remove_tree(stray.path)
                self.count -= 1
