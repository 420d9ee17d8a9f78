"""The manifest of a data directory: the files that must exist. Pure functions.

A missing file looks like a file that was never written. So a node records which files it relies on, before it relies
on them, in one file that is replaced as a whole:

    chronik manifest 1 CRC32C
    journal NUMBER       the newest journal
    checkpoint NUMBER    the first journal that the last checkpoint does not cover; 0 before the first checkpoint

All journals from the checkpoint's number to the manifest's must exist. A checkpoint may be newer than the manifest
says, because the manifest is written first; it is never older. The manifest never names a journal or checkpoint that
is not yet durable.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from chronik.runtime.invariants import check
from chronik.storage.errors import CorruptManifest, DataMissing
from chronik.wire.checksums import crc32c

FILE = "manifest"
TITLE = "chronik manifest 1"


class Manifest(NamedTuple):
    journal: int
    checkpoint: int

    def encode(self) -> bytes:
        check(
            0 <= self.checkpoint <= self.journal,
            "28 a checkpoint covers only journals that were begun",
            checkpoint=self.checkpoint,
            journal=self.journal,
        )
        body = f"journal {self.journal}\ncheckpoint {self.checkpoint}\n".encode()
        return f"{TITLE} {crc32c(body):08x}\n".encode() + body

    @classmethod
    def decode(cls, path: str, data: bytes) -> Manifest:
        title, _, body = data.partition(b"\n")
        if title != f"{TITLE} {crc32c(body):08x}".encode():
            raise CorruptManifest(path)
        journal, checkpoint = body.decode().splitlines()
        return cls(int(journal.removeprefix("journal ")), int(checkpoint.removeprefix("checkpoint ")))


def is_outdated(promised: Manifest, *, checkpoint: int | None, written: Collection[int]) -> bool:
    """Whether a release without a manifest wrote here later: an operator downgraded for a while.

    `written` are the numbers of the journals with content. A release with a manifest names a journal before it writes
    to it, and before a checkpoint names it.
    """
    return max([checkpoint or 0, *written]) > promised.journal


def require_all(directory: str, promised: Manifest, *, checkpoint: int | None, journals: Collection[int]) -> None:
    """Raises DataMissing unless the directory holds what the manifest promises.

    `checkpoint` is the number in the checkpoint that was found, None if there is none; `journals` are the numbers of
    the journals that were found.
    """
    were_trimmed = bool(journals) and min(journals) > 0  # which only a checkpoint allows
    if checkpoint is None and (promised.checkpoint or were_trimmed):
        raise DataMissing(directory, "checkpoint", "the file is gone")
    first = checkpoint or 0
    if first < promised.checkpoint:
        raise DataMissing(directory, "checkpoint", f"it is an old copy: {first}, and {promised.checkpoint} was written")
    for number in range(first, promised.journal + 1):
        if number not in journals:
            raise DataMissing(directory, f"journal/{number:020}.journal", "the file is gone")
