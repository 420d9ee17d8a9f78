"""The manifest of a data directory: which of its files must be there. Pure functions.

A file that is missing looks like one that was never written. So a node writes down what it has promised to keep, before
it relies on it, in a file of its own, replaced as a whole:

    chronik manifest 1 CRC32C
    journal NUMBER       the newest journal that was begun
    checkpoint NUMBER    the first journal that the last checkpoint does not cover; 0 before the first checkpoint

Journals from the checkpoint's number up to the manifest's must exist, without a hole. A checkpoint may be newer than
the manifest says, because the manifest is written first; it is never older. The manifest never lies ahead of the files:
a journal is durable before the manifest names it, and a checkpoint too.
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
